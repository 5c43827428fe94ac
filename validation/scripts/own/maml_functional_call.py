"""MAML with torch.func.functional_call on a small convolutional network."""
import torch
from torch import nn
from torch.func import functional_call

device = "cuda"
net = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 5),
).to(device)
outer = torch.optim.Adam(net.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()


def sample(shots):
    return torch.randn(5 * shots, 1, 28, 28, device=device), torch.arange(5, device=device).repeat(shots)


for iteration in range(3):
    outer.zero_grad()
    losses = []
    for task in range(4):
        weights = dict(net.named_parameters())
        images, labels = sample(1)
        for _ in range(2):
            loss = criterion(functional_call(net, weights, (images,)), labels)
            grads = torch.autograd.grad(loss, weights.values(), create_graph=True)
            weights = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), grads)}
        images, labels = sample(3)
        losses.append(criterion(functional_call(net, weights, (images,)), labels))
    total = torch.stack(losses).mean()
    total.backward()
    outer.step()
    print(iteration, total.item())
