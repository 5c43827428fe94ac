"""BYOL: an online and a target network, features read by forward hooks, stop-gradients, a momentum update."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as models


class Hooked(nn.Module):
    def __init__(self, net, layer):
        super().__init__()
        self.net, self.features = net, None
        dict(net.named_children())[layer].register_forward_hook(self._keep)

    def _keep(self, module, inputs, output):
        self.features = output.flatten(1)

    def forward(self, x):
        self.net(x)
        out, self.features = self.features, None
        return out


def mlp(i, o, hidden=512):
    return nn.Sequential(nn.Linear(i, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, o))


def distance(p, z):
    return 2 - 2 * F.cosine_similarity(p, z.detach(), dim=-1).mean()


device = torch.device("cuda")
online = nn.Sequential(Hooked(models.mobilenet_v3_small(), "avgpool"), mlp(576, 128)).to(device)
predictor = mlp(128, 128).to(device)
target = copy.deepcopy(online)
for p in target.parameters():
    p.requires_grad_(False)
opt = torch.optim.SGD([{"params": online.parameters()}, {"params": predictor.parameters(), "lr": 0.2}], lr=0.05, momentum=0.9)
for step in range(4):
    a, b = torch.randn(2, 32, 3, 64, 64, device=device)
    with torch.no_grad():
        ta, tb = target(a), target(b)
    loss = distance(predictor(online(a)), tb) + distance(predictor(online(b)), ta)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t.data = 0.99 * t.data + 0.01 * o.data
    print(step, loss.item())
