# case: outputs kept in a loop over texts
import torch
from transformers import AutoModel, AutoTokenizer
tok = AutoTokenizer.from_pretrained("b")
model = AutoModel.from_pretrained("b").cuda()
rows = []
for t in texts:
    ids = tok(t, return_tensors="pt").to("cuda")
    rows.append(model(**ids).last_hidden_state[:, 0])  # expect: VF002
# case: outputs kept in a loop over texts without gradients
import torch
from transformers import AutoModel, AutoTokenizer
tok = AutoTokenizer.from_pretrained("b")
model = AutoModel.from_pretrained("b").cuda()
rows = []
for t in texts:
    ids = tok(t, return_tensors="pt").to("cuda")
    with torch.no_grad():
        rows.append(model(**ids).last_hidden_state[:, 0].cpu())
# case: outputs on the GPU kept in a loop over paths
import torch
from zoo import Embedder
@torch.no_grad()
def embed(paths):
    net = Embedder().cuda()
    bank = []
    for p in paths:
        bank.append(net(read_image(p).cuda()))  # expect: VF016
    return torch.cat(bank)
# case: outputs of the GPU moved in a loop over paths
import torch
from zoo import Embedder
@torch.no_grad()
def embed(paths):
    net = Embedder().cuda()
    bank = []
    for p in paths:
        bank.append(net(read_image(p).cuda()).cpu())
    return torch.cat(bank)
# case: a loader of unknown role
import torch
from zoo import Embedder
def features(source):
    net = Embedder().to("cuda")
    acc = []
    for x, _ in source:
        acc.append(net(x.to("cuda")))  # expect: VF002
    return torch.cat(acc)
# case: layers of one forward pass
import torch
from torch import nn
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.floors = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    def forward(self, x):
        seen = []
        for floor in self.floors:
            x = floor(x)
            seen.append(x)
        return torch.stack(seen).sum(0)
# case: steps of one sequence
import torch
from torch import nn
class Roll(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)
    def forward(self, xs, h):
        out = []
        for t in range(xs.shape[1]):
            h = self.cell(xs[:, t], h)
            out.append(h)
        return torch.stack(out, 1)
# case: backward proves the graph of an unknown value
import torch
from mesh import render
target = torch.load("t.pt", map_location="cpu").cuda()
shape = torch.zeros(100, 3, device="cuda", requires_grad=True)
opt = torch.optim.Adam([shape])
total = 0
for i in range(2000):
    opt.zero_grad()
    err = (render(shape) - target).abs().mean()
    err.backward()
    opt.step()
    total += err  # expect: VF001
# case: backward proves the graph, numbers are kept
import torch
from mesh import render
target = torch.load("t.pt", map_location="cpu").cuda()
shape = torch.zeros(100, 3, device="cuda", requires_grad=True)
opt = torch.optim.Adam([shape])
total = 0
for i in range(2000):
    opt.zero_grad()
    err = (render(shape) - target).abs().mean()
    err.backward()
    opt.step()
    total += err.item()
# case: kept before backward proves it
import torch
from sim import rollout
def optimise(params, opt, n):
    log = []
    for _ in range(n):
        opt.zero_grad()
        energy = rollout(params)
        log.append(energy)  # expect: VF001
        energy.backward()
        opt.step()
    return log
# case: a moving average in forward
import torch
from torch import nn
class Centred(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)
        self.mu = torch.zeros(d)
    def forward(self, x):
        h = self.lin(x)
        self.mu = 0.9 * self.mu + 0.1 * h.mean(0)  # expect: VF002
        return h - self.mu
# case: a detached moving average in forward
import torch
from torch import nn
class Centred(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)
        self.register_buffer("mu", torch.zeros(d))
    def forward(self, x):
        h = self.lin(x)
        self.mu = 0.9 * self.mu + 0.1 * h.mean(0).detach()
        return h - self.mu
# case: activations kept in forward
import torch
from torch import nn
class Probe(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)
        self.log = []
    def forward(self, x):
        h = self.lin(x).relu()
        self.log.append(h)  # expect: VF002
        return h
# case: activations kept in forward as numbers
import torch
from torch import nn
class Probe(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)
        self.log = []
    def forward(self, x):
        h = self.lin(x).relu()
        self.log.append(h.abs().mean().item())
        return h
# case: the last activation in forward
import torch
from torch import nn
class Probe(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)
        self.last = None
    def forward(self, x):
        self.last = self.lin(x).relu()
        return self.last
# case: losses of one forward pass
import torch
from torch import nn
class Mixture(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(d, d) for _ in range(3))
    def forward(self, x):
        self.aux = []
        for g in self.gates:
            x = g(x)
            self.aux.append(x.square().mean())
        return x
# case: a hook keeps activations
import torch
import torchvision
net = torchvision.models.resnet18().cuda()
store = []
def grab(module, inputs, output):
    store.append(output)  # expect: VF002
net.layer4.register_forward_hook(grab)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in feed():
    opt.zero_grad()
    torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
    opt.step()
# case: a hook keeps numbers
import torch
import torchvision
net = torchvision.models.resnet18().cuda()
store = []
def grab(module, inputs, output):
    store.append(output.detach().norm().item())
net.layer4.register_forward_hook(grab)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in feed():
    opt.zero_grad()
    torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
    opt.step()
# case: a hook overwrites what it keeps
import torch
import torchvision
net = torchvision.models.resnet18().cuda()
store = {}
def grab(module, inputs, output):
    store["layer4"] = output
net.layer4.register_forward_hook(grab)
for x, y in feed():
    torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
    net.zero_grad()
# case: an engine's step keeps its loss
import torch
from ignite.engine import Engine
hist = []
def make(net, opt):
    def step(engine, batch):
        opt.zero_grad()
        x, y = batch
        e = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        e.backward()
        opt.step()
        hist.append(e)  # expect: VF001
        return e.item()
    return Engine(step)
# case: an engine's step keeps a number
import torch
from ignite.engine import Engine
hist = []
def make(net, opt):
    def step(engine, batch):
        opt.zero_grad()
        x, y = batch
        e = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        e.backward()
        opt.step()
        hist.append(float(e))
        return e.item()
    return Engine(step)
# case: a generator yields losses that are kept
import torch
def steps(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        e = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        e.backward()
        opt.step()
        yield e
def main(net, opt, feed):
    curve = []
    for e in steps(net, opt, feed):
        curve.append(e)  # expect: VF001
    return curve
# case: a generator yields numbers that are kept
import torch
def steps(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        e = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        e.backward()
        opt.step()
        yield e.item()
def main(net, opt, feed):
    curve = []
    for e in steps(net, opt, feed):
        curve.append(e)
    return curve
