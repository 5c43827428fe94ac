"""DQN: a replay buffer on the host, a target network that is copied now and then."""
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Q(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, actions))

    def forward(self, x):
        return self.head(self.body(x.float() / 255.0))


def observe(rng):
    return rng.integers(0, 256, (4, 84, 84), dtype=np.uint8)


rng = np.random.default_rng(0)
random.seed(0)
online, target = Q().to(device), Q().to(device)
target.load_state_dict(online.state_dict())
optimizer = optim.RMSprop(online.parameters(), lr=2.5e-4, alpha=0.95, eps=0.01)
buffer = deque(maxlen=500)
state, epsilon, rewards = observe(rng), 1.0, []

for frame in range(160):
    if random.random() < epsilon:
        action = random.randrange(6)
    else:
        with torch.no_grad():
            action = online(torch.as_tensor(state, device=device).unsqueeze(0)).argmax(1).item()
    following, reward, done = observe(rng), float(rng.random()), frame % 40 == 39
    buffer.append((state, action, reward, following, done))
    state = following
    epsilon = max(0.1, epsilon * 0.98)
    if len(buffer) >= 64 and frame % 4 == 0:
        s, a, r, n, d = map(np.array, zip(*random.sample(buffer, 32)))
        s, n = torch.tensor(s, device=device), torch.tensor(n, device=device)
        a = torch.tensor(a, device=device, dtype=torch.int64)
        r = torch.tensor(r, device=device, dtype=torch.float32)
        d = torch.tensor(d, device=device, dtype=torch.float32)
        q = online(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = online(n).argmax(1, keepdim=True)
            expected = r + 0.99 * (1 - d) * target(n).gather(1, best).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, expected)
        optimizer.zero_grad()
        loss.backward()
        for p in online.parameters():
            p.grad.data.clamp_(-1, 1)
        optimizer.step()
    if frame % 50 == 0:
        target.load_state_dict(online.state_dict())
print("done", len(buffer))
