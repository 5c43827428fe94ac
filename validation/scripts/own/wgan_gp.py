"""WGAN with a gradient penalty: autograd.grad with create_graph."""
import argparse

import torch
import torch.nn as nn
from torch.autograd import grad

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=6)
p.add_argument("--batch", type=int, default=128)
p.add_argument("--critic", type=int, default=3)
args = p.parse_args()


class Critic(nn.Module):
    def __init__(self, size, width=512):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(size, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x.flatten(1))


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    g = grad(score, mixed, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True, only_inputs=True)[0]
    return ((g.norm(2, dim=1) - 1) ** 2).mean()


dim = 784
generator = nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, dim), nn.Tanh()).cuda()
critic = Critic(dim).cuda()
opt_g = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
opt_c = torch.optim.RMSprop(critic.parameters(), lr=5e-5)

for step in range(args.steps):
    for _ in range(args.critic):
        real = torch.randn(args.batch, dim).cuda()
        fake = generator(torch.randn(args.batch, 100).cuda()).detach()
        loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
        opt_c.zero_grad()
        loss.backward()
        opt_c.step()
    opt_g.zero_grad()
    g_loss = -critic(generator(torch.randn(args.batch, 100).cuda())).mean()
    g_loss.backward()
    opt_g.step()
    print(step, loss.item(), g_loss.item())
