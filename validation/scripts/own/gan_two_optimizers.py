"""A small GAN: two networks, two Adam optimizers, an EMA copy of the generator."""
import copy

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
latent = 64

G = nn.Sequential(
    nn.ConvTranspose2d(latent, 128, 4, 1, 0, bias=False), nn.BatchNorm2d(128), nn.ReLU(True),
    nn.ConvTranspose2d(128, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
    nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh(),
).to(device)
D = nn.Sequential(
    nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(64, 128, 4, 2, 1), nn.BatchNorm2d(128), nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(128, 1, 4), nn.Flatten(0),
).to(device)
ema = copy.deepcopy(G).requires_grad_(False)
g_opt = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
d_opt = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
loss_fn = nn.BCEWithLogitsLoss()
d_losses, g_losses = [], []

for step in range(8):
    real = torch.rand(96, 3, 16, 16, device=device) * 2 - 1
    ones, zeros = torch.ones(96, device=device), torch.zeros(96, device=device)

    D.zero_grad()
    real_loss = loss_fn(D(real), ones)
    fake = G(torch.randn(96, latent, 1, 1, device=device))
    fake_loss = loss_fn(D(fake.detach()), zeros)
    (real_loss + fake_loss).backward()
    d_opt.step()

    G.zero_grad()
    g_loss = loss_fn(D(fake), ones)
    g_loss.backward()
    g_opt.step()

    with torch.no_grad():
        for e, p in zip(ema.parameters(), G.parameters()):
            e.lerp_(p, 0.01)
    d_losses.append((real_loss + fake_loss).item())
    g_losses.append(g_loss.item())
    print(f"{step}: D {d_losses[-1]:.3f} G {g_losses[-1]:.3f}")

with torch.no_grad():
    samples = ema(torch.randn(16, latent, 1, 1, device=device)).cpu()
print(samples.shape)
