"""DDPM with a small U-Net: training, then a few sampling steps."""
import torch
from torch import nn


class Res(nn.Module):
    def __init__(self, i, o, t=128):
        super().__init__()
        self.a = nn.Sequential(nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1))
        self.t = nn.Linear(t, o)
        self.b = nn.Sequential(nn.GroupNorm(8, o), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(o, o, 3, padding=1))
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.a(x) + self.t(t)[:, :, None, None]
        return self.b(h) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, c=64):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, 128), nn.SiLU(), nn.Linear(128, 128))
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.d1, self.d2 = Res(c, c), Res(c, 2 * c)
        self.mid = Res(2 * c, 2 * c)
        self.attn = nn.MultiheadAttention(2 * c, 4, batch_first=True)
        self.u2, self.u1 = Res(4 * c, c), Res(2 * c, c)
        self.out = nn.Conv2d(c, 3, 3, padding=1)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x, t):
        t = self.time(t[:, None])
        x = self.stem(x)
        h1 = self.d1(x, t)
        h2 = self.d2(nn.functional.avg_pool2d(h1, 2), t)
        m = self.mid(nn.functional.avg_pool2d(h2, 2), t)
        flat = m.flatten(2).transpose(1, 2)
        m = m + self.attn(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view_as(m)
        x = self.u2(torch.cat([self.up(m), h2], 1), t)
        return self.out(self.u1(torch.cat([self.up(x), h1], 1), t))


device, T = "cuda", 100
betas = torch.linspace(1e-4, 0.02, T, device=device)
abar = torch.cumprod(1 - betas, 0)
model = UNet().to(device)
opt = torch.optim.Adam(model.parameters(), lr=2e-4)
for step in range(5):
    x0 = torch.randn(16, 3, 32, 32).to(device)
    t = torch.randint(0, T, (16,), device=device)
    noise = torch.randn_like(x0)
    a = abar[t][:, None, None, None]
    loss = nn.functional.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t / T), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())

x = torch.randn(8, 3, 32, 32, device=device)
with torch.no_grad():
    for i in reversed(range(90, T)):
        eps = model(x, torch.full((8,), i / T, device=device))
        x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / (1 - betas[i]).sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
print(x.mean().cpu().numpy())
