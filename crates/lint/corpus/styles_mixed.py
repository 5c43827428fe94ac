# case: a class from a package, moved by a method of its own object
import torch
import vision_zoo as vz
class Bench:
    def __init__(self, cfg):
        self.eye = vz.make(cfg["arch"])
        self.eye.to(cfg["device"])
        self.solver = torch.optim.SGD(self.eye.parameters(), lr=cfg["lr"])
        self.records = {}
    def epoch(self, feed):
        for k, (img, cls) in enumerate(feed):
            self.solver.zero_grad()
            score = self.eye(img.cuda())
            gap = torch.nn.functional.cross_entropy(score, cls.cuda())
            gap.backward()
            self.solver.step()
            self.records[k] = gap  # expect: VF001
# case: a namespace collects losses
import torch
from types import SimpleNamespace
def fit(net, solver, feed):
    stats = SimpleNamespace(seen=0, loss=0.0)
    for x, y in feed:
        solver.zero_grad()
        gap = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        gap.backward()
        solver.step()
        stats.loss = stats.loss + gap  # expect: VF001
        stats.seen += len(x)
    return stats.loss / stats.seen
# case: a closure keeps the loss
import torch
def trainer(net, solver):
    curve = []
    def one(batch):
        x, y = batch
        solver.zero_grad()
        gap = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        gap.backward()
        solver.step()
        curve.append(gap)  # expect: VF001
    return one, curve
# case: evaluation through a property of the object
import torch
class Agent:
    def __init__(self, brain):
        self.brain = brain.cuda()
    def act(self, obs):
        self.brain.eval()
        q = self.brain(torch.as_tensor(obs).cuda())  # expect: VF003
        self.brain.train()
        return q.argmax().item()
# case: evaluation through a property of the object without gradients
import torch
class Agent:
    def __init__(self, brain):
        self.brain = brain.cuda()
    def act(self, obs):
        self.brain.eval()
        with torch.no_grad():
            q = self.brain(torch.as_tensor(obs).cuda())
        self.brain.train()
        return q.argmax().item()
# case: train(False)
import torch
def score(net, feed):
    net.train(False)
    good = 0
    for x, y in feed:
        good += (net(x.cuda()).argmax(-1) == y.cuda()).sum().item()  # expect: VF003
    net.train(True)
    return good
# case: a comprehension over paths
import torch
from zoo import Embedder
net = Embedder().cuda().eval()
bank = [net(load(p).cuda()) for p in paths]  # expect: VF002, VF003
# case: a comprehension over paths without gradients, moved
import torch
from zoo import Embedder
net = Embedder().cuda().eval()
with torch.inference_mode():
    bank = [net(load(p).cuda()).cpu() for p in paths]
# case: a perplexity over texts
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tok = AutoTokenizer.from_pretrained("gpt2")
lm = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")
lm.eval()
nll = 0
for text in lines():
    enc = tok(text, return_tensors="pt").to("cuda")
    out = lm(**enc, labels=enc["input_ids"])  # expect: VF003
    nll += out.loss  # expect: VF001
print(nll)
# case: a perplexity over texts without gradients
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tok = AutoTokenizer.from_pretrained("gpt2")
lm = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")
lm.eval()
nll = 0
with torch.no_grad():
    for text in lines():
        enc = tok(text, return_tensors="pt").to("cuda")
        nll += lm(**enc, labels=enc["input_ids"]).loss
print(nll)
# case: style transfer by optimising an image
import torch
from torchvision.models import vgg19
eye = vgg19(weights="DEFAULT").features.cuda().eval()
for p in eye.parameters():
    p.requires_grad_(False)
img = torch.rand(1, 3, 256, 256, device="cuda", requires_grad=True)
solver = torch.optim.LBFGS([img])
history = []
for it in range(300):
    def closure():
        solver.zero_grad()
        cost = gram(eye(img)).square().mean()
        cost.backward()
        history.append(cost)  # expect: VF001
        return cost
    solver.step(closure)
# case: style transfer with numbers
import torch
from torchvision.models import vgg19
eye = vgg19(weights="DEFAULT").features.cuda().eval()
for p in eye.parameters():
    p.requires_grad_(False)
img = torch.rand(1, 3, 256, 256, device="cuda", requires_grad=True)
solver = torch.optim.LBFGS([img])
history = []
for it in range(300):
    def closure():
        solver.zero_grad()
        cost = gram(eye(img)).square().mean()
        cost.backward()
        history.append(cost.item())
        return cost
    solver.step(closure)
# case: a physics loss with second derivatives
import torch
from torch import nn
u = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)).cuda()
opt = torch.optim.Adam(u.parameters())
for _ in range(1000):
    opt.zero_grad()
    t = torch.rand(128, 1, device="cuda", requires_grad=True)
    y = u(t)
    dy = torch.autograd.grad(y.sum(), t, create_graph=True)[0]
    d2y = torch.autograd.grad(dy.sum(), t, create_graph=True)[0]
    res = (d2y + y).square().mean()
    res.backward()
    opt.step()
# case: an energy kept across steps of a sampler
import torch
from ebm import Energy
e = Energy().cuda()
x = torch.randn(64, 2, device="cuda", requires_grad=True)
path = []
for k in range(500):
    en = e(x).sum()
    g, = torch.autograd.grad(en, x)
    x = (x - 0.1 * g).detach().requires_grad_()
    path.append(x.detach().cpu())
# case: a WGAN critic's score kept
import torch
def critic_loop(critic, gen, opt, feed, zdim):
    wd = []
    for real in feed:
        opt.zero_grad()
        fake = gen(torch.randn(len(real), zdim, device="cuda")).detach()
        a, b = critic(real.cuda()).mean(), critic(fake).mean()
        (b - a).backward()
        opt.step()
        wd.append(a - b)  # expect: VF002
    return wd
# case: a checkpoint through pathlib and a device argument
import torch
from pathlib import Path
def restore(net, opt, folder, dev):
    net.to(dev)
    pack = torch.load(Path(folder) / "last.pt", map_location=torch.device("cuda"))  # expect: VF010
    net.load_state_dict(pack["net"])
    opt.load_state_dict(pack["opt"])
    return pack["epoch"]
# case: a lambda that leaves storages on the CPU
import torch
def restore(net, folder):
    net.cuda()
    pack = torch.load(folder + "/last.pt", map_location=lambda storage, loc: storage)
    net.load_state_dict(pack["net"])
# case: accumulation over a window of batches
import torch
def fit(net, opt, feed, every=8):
    opt.zero_grad()
    for n, (x, y) in enumerate(feed, 1):
        gap = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        gap.backward()  # expect: VF014
        if n % every == 0 or n == len(feed):
            opt.step()
            opt.zero_grad()
# case: a counter by hand
import torch
def fit(net, opt, feed):
    n = 0
    log = {}
    while True:
        for x, y in feed:
            opt.zero_grad()
            gap = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
            gap.backward()
            opt.step()
            log["loss/%d" % n] = gap  # expect: VF001
            n += 1
# case: metrics of the last step
import torch
def fit(net, opt, feed):
    last = {}
    for x, y in feed:
        opt.zero_grad()
        out = net(x.cuda())
        gap = torch.nn.functional.cross_entropy(out, y.cuda())
        gap.backward()
        opt.step()
        last["loss"], last["out"] = gap, out
    return last
# case: heads in a dict, overwritten each batch
import torch
def fit(net, heads, opt, feed):
    part = {}
    for x, ys in feed:
        opt.zero_grad()
        h = net(x.cuda())
        for name, head in heads.items():
            part[name] = torch.nn.functional.mse_loss(head(h), ys[name].cuda())
        sum(part.values()).backward()
        opt.step()
# case: a hidden state carried without detach
import torch
def fit(rnn, head, opt, feed):
    h = None
    outs = []
    for x, y in feed:
        opt.zero_grad()
        o, h = rnn(x.cuda(), h)
        gap = torch.nn.functional.mse_loss(head(o), y.cuda())
        gap.backward(retain_graph=True)  # expect: VF007
        opt.step()
# case: an average in a running attribute of a network
import torch
from torch import nn
class Tracked(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Linear(4, 4)
        self.total = 0.0
    def forward(self, x):
        y = self.core(x)
        self.total += y.norm()  # expect: VF002
        return y
# case: a cache in a network that its reset empties
import torch
from torch import nn
class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Linear(4, 4)
        self.cache = []
    def reset(self):
        self.cache = []
    def forward(self, x):
        y = self.core(x)
        self.cache.append(y)
        return torch.stack(self.cache).mean(0)
# case: memory of the last states in inference
import torch
from collections import deque
from zoo import World
world = World().cuda().eval()
recent = deque(maxlen=4096)
with torch.no_grad():
    for frame in camera():
        recent.append(world(frame.cuda()))
# case: a list of GPU features in a loop with a hand-made index
import torch
from zoo import World
@torch.inference_mode()
def encode(files):
    world = World().cuda()
    world.eval()
    feats = []
    i = 0
    while i < len(files):
        chunk = torch.stack([read(f) for f in files[i:i + 32]]).to("cuda")
        feats += [world(chunk)]  # expect: VF016
        i += 32
    return torch.cat(feats)
