# case: REINFORCE that keeps log-probabilities past the update
import gym
import torch
from torch import nn, optim
from torch.distributions import Categorical

class Policy(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 128), nn.Tanh(), nn.Linear(128, act))

    def forward(self, s):
        return Categorical(logits=self.net(s))

env = gym.make("CartPole-v1")
pi = Policy(4, 2).cuda()
opt = optim.Adam(pi.parameters(), 1e-2)
entropies = []
for episode in range(1000):
    s, _ = env.reset()
    logps, rewards, done = [], [], False
    while not done:
        dist = pi(torch.as_tensor(s, dtype=torch.float32, device="cuda"))
        a = dist.sample()
        logps.append(dist.log_prob(a))
        s, r, term, trunc, _ = env.step(a.item())
        rewards.append(r)
        done = term or trunc
    returns = torch.tensor(rewards, device="cuda").flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(logps) * returns).sum()
    opt.zero_grad()  # expect: VF006
    loss.backward()
    opt.step()
    entropies.append(-torch.stack(logps).mean())  # expect: VF002
# case: DQN with a target network that builds graphs
import random
from collections import deque
import torch
import torch.nn.functional as F
from agents.nets import QNet

class DQN:
    def __init__(self, n_obs, n_act, device="cuda"):
        self.online = QNet(n_obs, n_act).to(device)
        self.target = QNet(n_obs, n_act).to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.optim = torch.optim.Adam(self.online.parameters())
        self.memory = deque(maxlen=100_000)
        self.device = device

    def act(self, state, eps):
        if random.random() < eps:
            return random.randrange(4)
        with torch.no_grad():
            return self.online(state.to(self.device)).argmax(-1).item()

    def learn(self, steps):
        for _ in range(steps):
            s, a, r, s2, d = map(torch.stack, zip(*random.sample(self.memory, 64)))
            s, a, r, s2, d = (t.to(self.device) for t in (s, a, r, s2, d))
            nxt = self.target(s2).max(1).values  # expect: VF003
            y = r + 0.99 * nxt.detach() * (1 - d)
            q = self.online(s).gather(1, a[:, None]).squeeze(1)
            loss = F.smooth_l1_loss(q, y)
            self.optim.zero_grad()  # expect: VF006
            loss.backward()
            self.optim.step()
# case: A2C worker with rollouts stored with their graph in a long deque
from collections import deque
import torch
from torch import nn

class ActorCritic(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.trunk = nn.GRUCell(d, 256)
        self.pi = nn.Linear(256, n)
        self.v = nn.Linear(256, 1)

    def forward(self, x, h):
        h = self.trunk(x, h)
        return self.pi(h), self.v(h), h

def collect(model, envs, n, hidden):
    ring = deque(maxlen=20000)
    obs = envs.reset()
    for t in range(n):
        logits, value, hidden = model(torch.from_numpy(obs).float().cuda(), hidden)
        action = torch.distributions.Categorical(logits=logits).sample()
        obs, rew, done, _ = envs.step(action.cpu().numpy())
        ring.append((logits, value, rew))  # expect: VF002
        hidden = hidden.detach()
    return ring
# case: PPO as in single-file implementations, clean
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4))

    def get_action_and_value(self, x, action=None):
        dist = torch.distributions.Categorical(logits=self.actor(x))
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), self.critic(x)

def main(num_updates, num_steps, envs, device):
    agent = Agent().to(device)
    optimizer = optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.zeros((num_steps, envs.num_envs, 8)).to(device)
    logprobs = torch.zeros((num_steps, envs.num_envs)).to(device)
    values = torch.zeros((num_steps, envs.num_envs)).to(device)
    actions = torch.zeros((num_steps, envs.num_envs)).to(device)
    next_obs = torch.Tensor(envs.reset()[0]).to(device)
    for update in range(num_updates):
        for step in range(num_steps):
            obs[step] = next_obs
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            next_obs, reward, done, _, _ = envs.step(action.cpu().numpy())
            next_obs = torch.Tensor(next_obs).to(device)
        inds = np.arange(num_steps)
        clipfracs = []
        for start in range(0, num_steps, 128):
            mb = inds[start : start + 128]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs[mb], actions[mb])
            ratio = (newlogprob - logprobs[mb]).exp()
            clipfracs += [((ratio - 1.0).abs() > 0.2).float().mean().item()]
            loss = -ratio.mean() - 0.01 * entropy.mean() + 0.5 * (newvalue.view(-1) - values[mb]).pow(2).mean()
            optimizer.zero_grad()  # expect: VF006
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
# case: SAC with alpha, losses kept in a table by name
import torch
import torch.nn.functional as F

class SoftActorCritic:
    def __init__(self, actor, q, q_target, alpha=0.2):
        self.actor, self.q, self.q_target, self.alpha = actor.cuda(), q.cuda(), q_target.cuda().requires_grad_(False), alpha
        self.pi_opt = torch.optim.Adam(self.actor.parameters(), 3e-4)
        self.q_opt = torch.optim.Adam(self.q.parameters(), 3e-4)
        self.stats = {}

    def update(self, step, batch):
        o, a, r, o2, d = (t.cuda() for t in batch)
        with torch.no_grad():
            a2, lp2 = self.actor(o2)
            backup = r + 0.99 * (1 - d) * (self.q_target(o2, a2) - self.alpha * lp2)
        q_loss = F.mse_loss(self.q(o, a), backup)
        self.q_opt.zero_grad()  # expect: VF006
        q_loss.backward()
        self.q_opt.step()
        pi, lp = self.actor(o)
        pi_loss = (self.alpha * lp - self.q(o, pi)).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()
        self.stats[f"step{step}/q"] = q_loss  # expect: VF001
        self.stats[f"step{step}/pi"] = pi_loss.item()

    def learn(self, replay, n):
        for step in range(n):
            self.update(step, replay.sample(256))
# case: evaluation episodes with autograd on
import torch
from zoo import make_env
from zoo.policies import GaussianPolicy

def evaluate_policy(policy, env, episodes=10):
    policy.eval()
    total = 0.0
    for _ in range(episodes):
        obs, done = env.reset(), False
        while not done:
            obs_t = torch.as_tensor(obs, dtype=torch.float32).cuda().unsqueeze(0)
            action = policy(obs_t)  # expect: VF003
            obs, rew, done, _ = env.step(action.detach().cpu().numpy()[0])
            total += rew
    return total / episodes

if __name__ == "__main__":
    env = make_env("Hopper")
    policy = GaussianPolicy(11, 3).cuda()
    policy.load_state_dict(torch.load("hopper.pt", map_location="cpu"))
    print(evaluate_policy(policy, env))
# case: IMPALA-like learner with an optimizer that never zeroes
import torch
from impala.model import AtariNet
from impala.queue import BatchQueue

def learner(flags):
    model = AtariNet(flags.obs, flags.n).to("cuda")
    optimizer = torch.optim.RMSprop(model.parameters(), lr=flags.lr, alpha=0.99)
    queue = BatchQueue(flags.addr)
    frames = 0
    while frames < flags.total:
        batch = {k: v.to("cuda") for k, v in queue.get().items()}
        logits, baseline = model(batch["obs"])
        adv = batch["returns"] - baseline
        logp = torch.log_softmax(logits, -1).gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
        total = -(logp * adv.detach()).mean() + 0.5 * adv.pow(2).mean()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 40.0)
        optimizer.step()  # expect: VF005
        frames += batch["obs"].shape[0] * batch["obs"].shape[1]
# case: world-model rollouts in imagination use the graph, clean
import torch

class Dreamer:
    def __init__(self, world, actor, value):
        self.world, self.actor, self.value = world.cuda(), actor.cuda(), value.cuda()
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), 8e-5)

    def imagine(self, state, horizon=15):
        states = []
        for _ in range(horizon):
            action = self.actor(state)
            state = self.world.step(state, action)
            states.append(state)
        return torch.stack(states)

    def train_actor(self, batches):
        for start in batches:
            traj = self.imagine(start.cuda())
            loss = -self.value(traj).mean()
            self.actor_opt.zero_grad()  # expect: VF006
            loss.backward()
            self.actor_opt.step()
            yield loss.item()
