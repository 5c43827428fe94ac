# case: outputs in a list
import torch
def train(model, loader, criterion, optimizer):
    outputs = []
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        outputs.append(out)  # expect: VF002
    return outputs
# case: outputs detached to the CPU
import torch
def train(model, loader, criterion, optimizer):
    outputs = []
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x.cuda())
        loss = criterion(out, y.cuda())
        loss.backward()
        optimizer.step()
        outputs.append(out.detach().cpu())
    return outputs
# case: embeddings in an attribute of the trainer
import torch
class Trainer:
    def __init__(self, encoder, loader, optimizer, loss_fn):
        self.encoder = encoder
        self.loader = loader
        self.optimizer = optimizer
        self.loss_fn = loss_fn
        self.embeddings = []
    def fit(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            z = self.encoder(x)
            loss = self.loss_fn(z, y)
            loss.backward()
            self.optimizer.step()
            self.embeddings.append(z)  # expect: VF002
# case: probabilities in the log
import torch
def train(model, loader, criterion, optimizer):
    log = {"probabilities": []}
    for x, y in loader:
        optimizer.zero_grad()
        logits = model(x)
        loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
        log["probabilities"].append(torch.softmax(logits, dim=1))  # expect: VF002
    return log
# case: log-probabilities of an episode for backward
import torch
from torch.distributions import Categorical
def reinforce(policy, env, optimizer, episodes):
    for episode in range(episodes):
        log_probs, rewards = [], []
        state = env.reset()
        done = False
        while not done:
            dist = Categorical(policy(state))
            action = dist.sample()
            log_probs.append(dist.log_prob(action))
            state, reward, done = env.step(action.item())
            rewards.append(reward)
        loss = -sum(lp * r for lp, r in zip(log_probs, rewards))
        optimizer.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()
# case: log-probabilities kept in the policy for backward in another function
import torch
from torch.distributions import Categorical
policy = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
saved = type("Saved", (), {})()
saved.log_probs = []
def act(state):
    dist = Categorical(policy(state))
    action = dist.sample()
    saved.log_probs.append(dist.log_prob(action))
    return action.item()
def finish(returns):
    loss = torch.stack([-lp * r for lp, r in zip(saved.log_probs, returns)]).sum()
    optimizer.zero_grad()  # expect: VF006
    loss.backward()
    optimizer.step()
    del saved.log_probs[:]
def main(env):
    for episode in range(100):
        state = env.reset()
        for t in range(1000):
            state, reward, done = env.step(act(state))
        finish([1.0])
main(None)
# case: a replay buffer of detached tensors on the CPU
import torch
from collections import deque
def dqn(q_net, env, optimizer, loss_fn):
    memory = deque(maxlen=10000)
    state = env.reset()
    for step in range(10000):
        action = q_net(state).argmax()
        nxt, reward = env.step(action)
        memory.append((state, action, reward, nxt))
        state = nxt
        loss = loss_fn(q_net(state), reward)
        optimizer.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()
# case: layers' outputs within one forward pass
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
    def forward(self, x):
        features = []
        for layer in self.layers:
            x = layer(x)
            features.append(x)
        return torch.cat(features, dim=1)
# case: predictions of an evaluation with the graph
import torch
def predict(model, test_loader):
    model.eval()
    predictions = []
    for x in test_loader:
        out = model(x)  # expect: VF003
        predictions.append(out)  # expect: VF002
    return torch.cat(predictions)
# case: a growing tensor
import torch
def train(model, loader, criterion, optimizer):
    features = torch.empty(0)
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        features = torch.cat([features, out])  # expect: VF002
    return features
# case: outputs of one step only
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        outs = []
        optimizer.zero_grad()
        for part in x.chunk(2):
            outs.append(model(part))
        loss = criterion(torch.cat(outs), y)
        loss.backward()
        optimizer.step()
# case: a list that is emptied every step
import torch
def train(model, loader, criterion, optimizer):
    outs = []
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        outs.append(out)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        outs.clear()
# case: a replay buffer with values that carry their graph
import torch
class Agent:
    def __init__(self, q_net):
        self.q_net = q_net
        self.optimizer = torch.optim.Adam(q_net.parameters())
        self.buffer = []
    def run(self, env, steps):
        state = env.reset()
        for t in range(steps):
            self.optimizer.zero_grad()
            q = self.q_net(state)
            following, reward = env.step(q.argmax().item())
            self.buffer.append((state, q, reward))  # expect: VF002
            loss = (q.max() - reward) ** 2
            loss.backward()
            self.optimizer.step()
            state = following
