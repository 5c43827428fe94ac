"""Contrastive learning: two views of a batch, NT-Xent over the whole similarity matrix."""
import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models import resnet18


class SimCLR(nn.Module):
    def __init__(self, out=128):
        super().__init__()
        self.encoder = resnet18(weights=None)
        width = self.encoder.fc.in_features
        self.encoder.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.encoder.maxpool = nn.Identity()
        self.encoder.fc = nn.Identity()
        self.projector = nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, out))

    def forward(self, x):
        return F.normalize(self.projector(self.encoder(x)), dim=-1)


def nt_xent(a, b, temperature=0.5):
    n = a.size(0)
    z = torch.cat([a, b])
    sim = z @ z.t() / temperature
    sim.masked_fill_(torch.eye(2 * n, dtype=torch.bool, device=z.device), float("-inf"))
    targets = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(sim, targets)


def augment(x):
    if torch.rand(1).item() < 0.5:
        x = x.flip(-1)
    return x + 0.05 * torch.randn_like(x)


model = SimCLR().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-2)
for epoch in range(2):
    for _ in range(3):
        images = torch.rand(64, 3, 32, 32)
        one, two = augment(images).cuda(), augment(images).cuda()
        loss = nt_xent(model(one), model(two))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, float(loss))
