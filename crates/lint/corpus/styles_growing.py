# case: a formatted key
import torch
def fit(net, opt, feed):
    d = {}
    for i, (x, y) in enumerate(feed):
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        d[f"{i}"] = loss  # expect: VF001
    return d
# case: a formatted key with a number
import torch
def fit(net, opt, feed):
    d = {}
    for i, (x, y) in enumerate(feed):
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        d[f"{i}"] = loss.item()
    return d
# case: a constant key is overwritten
import torch
def fit(net, opt, feed):
    d = {}
    for i, (x, y) in enumerate(feed):
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        d["latest"] = loss
    return d
# case: a key of the data
import torch
def fit(net, opt, feed):
    table = {}
    for name, x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        table[name] = loss  # expect: VF001
    return table
# case: a key computed with str
import torch
def fit(net, opt, feed):
    table = dict()
    n = 0
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        n += 1
        table["step " + str(n)] = loss  # expect: VF001
    return table
# case: outputs by number
import torch
from zoo import Net
def collect(paths):
    net = Net().cuda()
    d = {}
    for i, p in enumerate(paths):
        d[i] = net(load(p).cuda())  # expect: VF002
    return d
# case: a list rebuilt with a star
import torch
def fit(net, opt, feed):
    hist = []
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        hist = [*hist, loss]  # expect: VF001
    return hist
# case: a list rebuilt with a star and a number
import torch
def fit(net, opt, feed):
    hist = []
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        hist = [*hist, loss.item()]
    return hist
# case: a tuple that grows
import torch
def fit(net, opt, feed):
    hist = ()
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        hist += (loss,)  # expect: VF001
    return hist
# case: dict.update
import torch
def fit(net, opt, feed):
    hist = {}
    for i, (x, y) in enumerate(feed):
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        hist.update({i: loss})  # expect: VF001
    return hist
# case: dict.update with a fixed key
import torch
def fit(net, opt, feed):
    last = {}
    for i, (x, y) in enumerate(feed):
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        last.update({"loss": loss})
    return last
# case: torch.add
import torch
def fit(net, opt, feed):
    total = torch.zeros(1, device="cuda")
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        total = torch.add(total, loss)  # expect: VF001
    return total
# case: torch.add of a detached loss
import torch
def fit(net, opt, feed):
    total = torch.zeros(1, device="cuda")
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        total = torch.add(total, loss.detach())
    return total
# case: the method add
import torch
def fit(net, opt, feed):
    total = torch.zeros(1, device="cuda")
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        total = total.add(loss)  # expect: VF001
    return total
# case: an attribute of an object
import torch
class Book:
    pass
def fit(net, opt, feed):
    book = Book()
    book.total = 0
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        book.total += loss  # expect: VF001
    return book.total
# case: a queue of features that is cut
import torch
from zoo import Net
def fit(opt, feed):
    net = Net().cuda()
    bank = torch.zeros(0, 128, device="cuda")
    for x in feed:
        opt.zero_grad()
        q = net(x.cuda())
        e = info_nce(q, bank)
        e.backward()
        opt.step()
        bank = torch.cat([q, bank])[:4096]  # expect: VF002
# case: a queue of detached features that is cut
import torch
from zoo import Net
def fit(opt, feed):
    net = Net().cuda()
    bank = torch.zeros(0, 128, device="cuda")
    for x in feed:
        opt.zero_grad()
        q = net(x.cuda())
        e = info_nce(q, bank)
        e.backward()
        opt.step()
        bank = torch.cat([q.detach(), bank])[:4096]
# case: a helper that takes any arguments
import torch
log = []
def note(*values):
    log.append(values)  # expect: VF001
def fit(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        note("train", loss)
# case: a helper that takes any arguments, with numbers
import torch
log = []
def note(*values):
    log.append(values)
def fit(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        note("train", loss.item())
# case: a bounded container where no backward frees the graphs
import torch
from collections import deque
from zoo import Policy
policy = Policy().cuda()
ring = deque(maxlen=50_000)
obs = reset()
while True:
    act = policy(obs.cuda())
    ring.append(act)  # expect: VF002
    obs = step(act.argmax().item())
# case: a bounded container of detached tensors on the CPU
import torch
from collections import deque
from zoo import Policy
policy = Policy().cuda()
ring = deque(maxlen=50_000)
obs = reset()
while True:
    act = policy(obs.cuda())
    ring.append(act.detach().cpu())
    obs = step(act.argmax().item())
# case: a small bounded container of losses
import torch
from collections import deque
def fit(net, opt, feed):
    window = deque(maxlen=20)
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        window.append(loss)
        print(sum(window) / len(window))
# case: a replay memory with an action's graph
import random
import torch
from collections import deque
import torch.nn as nn
class Agent:
    def __init__(self):
        self.q = nn.Linear(4, 2).cuda()
        self.opt = torch.optim.Adam(self.q.parameters())
        self.memory = deque(maxlen=100000)
    def play(self, env):
        s = env.reset()
        while True:
            v = self.q(s.cuda())
            s2, r = env.step(v.argmax().item())
            self.memory.append((s, v, r, s2))  # expect: VF002
            self.learn()
            s = s2
    def learn(self):
        batch = random.sample(self.memory, 32)
        s = torch.stack([b[0] for b in batch]).cuda()
        r = torch.tensor([b[2] for b in batch]).cuda()
        self.opt.zero_grad()
        e = (self.q(s).max(1)[0] - r).pow(2).mean()
        e.backward()
        self.opt.step()
