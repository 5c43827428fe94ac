"""An averaged model for evaluation between epochs; the best one is kept."""
import copy

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

dev = torch.device("cuda", 0)


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(8, o), nn.SiLU())


net = nn.Sequential(block(3, 32), nn.MaxPool2d(2), block(32, 64), nn.MaxPool2d(2), block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10)).to(dev)
ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
train = [(torch.randn(32, 3, 48, 48), torch.randint(10, (32,))) for _ in range(5)]
test = [(torch.randn(100, 3, 48, 48), torch.randint(10, (100,))) for _ in range(2)]
best, best_state = float("inf"), None

for epoch in range(3):
    net.train()
    for x, y in train:
        x, y = x.to(dev), y.to(dev)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1.0)
        opt.step()
        ema.update_parameters(net)
    ema.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in test:
            total += nn.functional.cross_entropy(ema(x.to(dev)), y.to(dev), reduction="sum").item()
    if total < best:
        best, best_state = total, copy.deepcopy(ema.module.state_dict())
    print(epoch, loss.item(), total / 200)
torch.save(best_state, "best.pt")
