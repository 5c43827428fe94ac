"""The classic mistake: losses are kept with their graphs."""
import torch
import torch.nn as nn

model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
total_loss = 0
for step in range(12):
    x = torch.randn(256, 512, device="cuda")
    y = torch.randint(0, 10, (256,), device="cuda")
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    regulariser = sum((p ** 2).sum() for p in model.parameters()) * 1e-4
    optimizer.zero_grad()
    (loss + regulariser).backward()
    optimizer.step()
    losses.append(out.logsumexp(1).mean())
    total_loss += regulariser
print(len(losses), float(total_loss))
