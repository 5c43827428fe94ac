"""Soft actor-critic: three optimizers, a trained temperature, target networks that follow slowly."""
import copy
import itertools

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

dev = torch.device("cuda")
S, A = 10, 4


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, o)).to(dev)


q1, q2, policy = mlp(S + A, 1), mlp(S + A, 1), mlp(S, 2 * A)
target1, target2 = copy.deepcopy(q1), copy.deepcopy(q2)
log_alpha = torch.zeros(1, requires_grad=True, device=dev)
q_opt = torch.optim.Adam(itertools.chain(q1.parameters(), q2.parameters()), lr=3e-4)
pi_opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
alpha_opt = torch.optim.Adam([log_alpha], lr=3e-4)


def act(s):
    mean, log_std = policy(s).chunk(2, dim=-1)
    dist = Normal(mean, log_std.clamp(-5, 2).exp())
    u = dist.rsample()
    a = torch.tanh(u)
    return a, (dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)).sum(-1, keepdim=True)


def batch(n=256):
    rows = (np.random.randn(n, S), np.random.randn(n, A), np.random.randn(n, 1), np.random.randn(n, S), np.zeros((n, 1)))
    return [torch.as_tensor(x, dtype=torch.float32, device=dev) for x in rows]


for step in range(6):
    s, a, r, s2, done = batch()
    with torch.no_grad():
        a2, logp = act(s2)
        sa2 = torch.cat([s2, a2], -1)
        y = r + 0.99 * (1 - done) * (torch.min(target1(sa2), target2(sa2)) - log_alpha.exp() * logp)
    sa = torch.cat([s, a], -1)
    q_loss = F.mse_loss(q1(sa), y) + F.mse_loss(q2(sa), y)
    q_opt.zero_grad()
    q_loss.backward()
    q_opt.step()

    for p in itertools.chain(q1.parameters(), q2.parameters()):
        p.requires_grad = False
    a_new, logp = act(s)
    sa = torch.cat([s, a_new], -1)
    pi_loss = (log_alpha.exp().detach() * logp - torch.min(q1(sa), q2(sa))).mean()
    pi_opt.zero_grad()
    pi_loss.backward()
    pi_opt.step()
    for p in itertools.chain(q1.parameters(), q2.parameters()):
        p.requires_grad = True

    alpha_loss = -(log_alpha * (logp - A).detach()).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()
    for t, q in ((target1, q1), (target2, q2)):
        for tp, qp in zip(t.parameters(), q.parameters()):
            tp.data.mul_(0.995)
            tp.data.add_(0.005 * qp.data)
    print(step, q_loss.item(), pi_loss.item(), log_alpha.exp().item())
