# case: a teacher made beside its student in one line
import torch
from nets import Big, Small
big, small = Big().cuda(), Small().cuda()
opt = torch.optim.Adam(small.parameters())
for x in batches():
    opt.zero_grad()
    goal = big(x.cuda())  # expect: VF003
    loss = torch.nn.functional.mse_loss(small(x.cuda()), goal)
    loss.backward()
    opt.step()
# case: two networks made in one line, one result kept
import torch
from parts import Enc, Dec
enc, dec = Enc().cuda(), Dec().cuda()
optim = torch.optim.AdamW([*enc.parameters(), *dec.parameters()], 1e-3)
codes = []
for img in images():
    z = enc(img.cuda())
    r = torch.nn.functional.mse_loss(dec(z), img.cuda())
    r.backward()
    optim.step()
    optim.zero_grad()
    codes.append(z)  # expect: VF002
# case: a function named after a network makes one
import torch
from collections import deque
def play(policy, env):
    ring = deque(maxlen=50_000)
    obs = env.reset()
    while True:
        action = policy(torch.as_tensor(obs).cuda())
        ring.append(action)  # expect: VF002
        obs, r, done, _ = env.step(action.argmax().item())
        if done:
            break
policy = build_policy().cuda()
play(policy, make_env())
# case: a network in a table
import torch
from parts import Enc
def run(feed):
    parts = {"enc": Enc().cuda()}
    opt = torch.optim.Adam(parts["enc"].parameters())
    bag = []
    for x, y in feed:
        opt.zero_grad()
        p = parts["enc"](x.cuda())
        loss = (p - y.cuda()).abs().mean()
        loss.backward()
        opt.step()
        bag += [p]  # expect: VF002
# case: gradients zeroed between an object's forward and backward methods
import torch
class Painter:
    def __init__(self, brush, opt):
        self.brush = brush.cuda()
        self.opt = opt
    def forward(self):
        self.made = self.brush(self.given)
    def backward_brush(self):
        self.loss = (self.made - self.goal).abs().mean()
        self.loss.backward()
    def improve(self):
        self.forward()
        self.opt.zero_grad()  # expect: VF006
        self.backward_brush()
        self.opt.step()
# case: the same with the base class elsewhere and a second pass
import torch
from base import Part
from parts import define
class Twin(Part):
    def __init__(self, opts):
        self.maker = define(opts)
        self.coder = define(opts)
        self.opt = torch.optim.Adam(self.maker.parameters())
    def set_input(self, batch):
        self.given = batch.cuda()
    def forward(self):
        self.made = self.maker(self.given)
        self.code = self.coder(self.made)
    def first(self):
        (self.made - self.given).abs().mean().backward(retain_graph=True)
    def second(self):
        self.code.abs().mean().backward()
    def improve(self):
        self.forward()
        self.opt.zero_grad()  # expect: VF006
        self.first()
        self.opt.step()
        self.opt.zero_grad()
        self.second()
        self.opt.step()
# case: the same in the right order
import torch
class Painter:
    def __init__(self, brush, opt):
        self.brush = brush.cuda()
        self.opt = opt
    def forward(self):
        self.made = self.brush(self.given)
    def improve(self):
        self.opt.zero_grad()
        self.forward()
        loss = (self.made - self.goal).abs().mean()
        loss.backward()
        self.opt.step()
# case: a critic's graph is retained beside a gradient penalty
import torch
def penalty(critic, a, b):
    mid = (a + b).div(2).requires_grad_(True)
    score = critic(mid)
    g = torch.autograd.grad(score.sum(), mid, create_graph=True, retain_graph=True)[0]
    return (g.norm(dim=1) - 1).pow(2).mean()
def train(critic, feed, opt):
    for real, fake in feed:
        real, fake = real.cuda(), fake.cuda()
        for _ in range(3):
            opt.zero_grad()
            loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(critic, real, fake)
            loss.backward(retain_graph=True)  # expect: VF007
            opt.step()
# case: a state carried into the next iteration's first pass needs its graph
import torch
def train(cell, head, feed, opt, state):
    for x, y in feed:
        opt.zero_grad()
        before = (head(state) - y.cuda()).pow(2).mean()
        before.backward(retain_graph=True)
        state = cell(x.cuda(), state)
        after = (head(state) - y.cuda()).pow(2).mean()
        after.backward(retain_graph=True)
        opt.step()
# case: networks out of a checkpoint, evaluated in a helper
import torch
def describe(enc, dec, image):
    code = enc(image)  # expect: VF003
    return dec.step(code).argmax().item()
if __name__ == "__main__":
    device = torch.device("cuda")
    box = torch.load("all.pt", map_location="cpu")
    enc = box["encoder"].to(device)
    enc.eval()
    dec = box["decoder"].to(device)
    dec.eval()
    for f in files():
        print(describe(enc, dec, read(f).to(device)))
# case: a perceptual loss that is called as an object
import torch
from torch import nn
from nets import Features
class StyleLoss(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.features = Features().to(device)
        self.features.eval()
        self.layers = ["a", "b"]
    def __call__(self, made, wanted):
        loss = 0.0
        for layer in self.layers:
            m = self.features(made)[layer]
            w = self.features(wanted)[layer]
            loss += (m - w).pow(2).mean()
        return loss
# case: shapes probed in a constructor
import torch
from torch import nn
from blocks import Chain, Block
class Dynamic(Chain):
    def __init__(self, trunk, widths):
        x = probe(trunk).detach()
        middle = nn.Sequential(nn.Conv2d(8, 16, 3), nn.Conv2d(16, 8, 3)).eval()
        x = middle(x)
        parts = [trunk, middle]
        for w in widths:
            block = Block(x.shape[1], w).eval()
            parts.append(block)
            x = block(x)
        super().__init__(*parts)
# case: an extractor whose forward chooses the grad mode
import torch
from torch import nn
class Tokens(nn.Module):
    def __init__(self, quiet=True):
        super().__init__()
        self.model = torch.hub.load("a", "b")
        self.model.eval()
        self.quiet = quiet
    def _forward(self, image):
        out = self.model.forward_features(image)
        return out["tokens"]
    def forward(self, image):
        if self.quiet:
            with torch.inference_mode():
                return self._forward(image)
        else:
            return self._forward(image)
# case: the cache is emptied in a backward pass of its own
import torch
class Root(torch.autograd.Function):
    @staticmethod
    def solve(x):
        y = find(x)
        if y.numel() > 100:
            torch.cuda.empty_cache()  # expect: VF009
        return y
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Root.solve(x)
    @staticmethod
    def backward(ctx, grad):
        torch.cuda.empty_cache()  # expect: VF009
        (x,) = ctx.saved_tensors
        return grad * x
# case: a number where it is no tensor
import torch
class Fit:
    def run(self, net, batches, opt):
        self.curve = []
        self.other = []
        for epoch in range(10):
            total, second = 0, 0
            for x, y in batches:
                opt.zero_grad()
                loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
                loss.backward()
                opt.step()
                total += loss.detach()
                second += loss.detach()
            total = total.item() if isinstance(total, torch.Tensor) else total
            self.curve.append(total)
            if torch.is_tensor(second):
                second = second.item()
            self.other.append(second)
# case: a rollout of so many steps
import torch
class Roller:
    def roll(self, net):
        states, gains = [], []
        state = self.env.reset()
        for step in range(self.length):
            state = torch.FloatTensor(state).to(self.device)
            value, action = net(state)
            states.append(state)
            state, gain, done, _ = self.env.step(action.cpu().numpy())
            gains.append(torch.tensor(gain).to(self.device))
        return states, gains
# case: a network of which stages are trained in turn
import torch
def unfreeze(net, stage):
    if stage < 5:
        for name, p in net.named_parameters():
            p.requires_grad = False
            if name.startswith(f"layer{stage}"):
                p.requires_grad = True
    else:
        for name, p in net.named_parameters():
            p.requires_grad = False
    return net
def epoch(net, train_loader, val_loader, opt):
    net.train()
    for x, y in train_loader:
        net = net.to("cuda")
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
    net.eval()
    hits = 0
    for x, y in val_loader:
        net = net.to("cuda")
        hits += (net(x.cuda()).argmax(1) == y.cuda()).sum().item()  # expect: VF003
    return net, hits
def main(student, train_loader, val_loader):
    for stage in range(6):
        student = unfreeze(student, stage)
        opt = torch.optim.Adam(student.parameters())
        student, hits = epoch(net=student, train_loader=train_loader, val_loader=val_loader, opt=opt)
# case: a loss that goes through the object's own backward under two names
import torch
class Agent:
    def backward(self, loss):
        if self.half:
            with amp.scale_loss(loss, self.optimizer) as scaled:
                scaled.backward()
        else:
            loss.backward()
    def learn(self):
        loss = self.policy.judge()
        self.optimizer.zero_grad()  # expect: VF006
        self.backward(loss)
        self.optimizer.step()
# case: the one operand of a loss that is no data
import torch
from base import Agent
class Dreamer(Agent):
    def learn(self, replay):
        self.trace = []
        for obs, gain in replay:
            self.opt.zero_grad()
            imagined = self.world(obs.cuda())
            loss = (imagined - gain.cuda()).pow(2).mean()
            loss.backward()
            self.opt.step()
            self.trace.append(imagined)  # expect: VF002
# case: one of two unknown operands
import torch
from base import Agent
class Dreamer(Agent):
    def learn(self, replay):
        self.trace = []
        for obs, gain in replay:
            self.opt.zero_grad()
            imagined = self.world(obs.cuda())
            wanted = self.table(gain)
            loss = (imagined - wanted).pow(2).mean()
            loss.backward()
            self.opt.step()
            self.trace.append(wanted)
# case: torch by a star import
from helpers import *
from torch import optim
def fit(net, loader):
    opt = optim.SGD(net.parameters(), 0.1)
    torch.autograd.set_detect_anomaly(True)  # expect: VF017
    for x, y in loader:
        opt.zero_grad()
        loss = F.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
# case: features that hooks take in evaluation mode
import torch
class Extractor:
    def __init__(self, device):
        self.model = torch.hub.load("a", "b").to(device)
        self.model.eval()
        self.taken = {}
    def take(self, module, given, output):
        self.taken["last"] = output
    def features(self, image):
        handle = self.model.blocks[-1].register_forward_hook(self.take)
        self.model(image)
        handle.remove()
        return self.taken["last"]
# case: an inner step by a function elsewhere in an evaluation
import torch
from adapt import inner_update
def meta_test(model, tasks, criterion, device):
    model.eval()
    total = 0.0
    for support, query in zip(*tasks):
        inner_loss = criterion(model(support[0].to(device)), support[1].to(device))
        params = inner_update(model, inner_loss)
        total += criterion(model(query[0].to(device), params=params), query[1].to(device)).item()
    return total
# case: methods of a network out of a checkpoint are no tensors
import torch
def caption(loader, device):
    box = torch.load("all.pt", map_location="cpu")
    enc = box["enc"].to(device)
    enc.eval()
    dec = box["dec"].to(device)
    dec.eval()
    said = []
    for image, words in loader:
        code = enc(image.to(device))  # expect: VF003
        seq, _ = dec.beam(code, 3)
        said.append([w for w in seq if w > 2])
    return said
# case: a target network in the loss of another
import torch
from nets import Value
def blend(one, two, tau):
    for a, b in zip(one.parameters(), two.parameters()):
        b.data.copy_(tau * a.data + (1 - tau) * b.data)
class Learner:
    def __init__(self, device):
        self.value = Value().to(device)
        self.target_value = Value().to(device)
        self.opt = torch.optim.Adam(self.value.parameters())
        self.device = device
    def learn(self, batch):
        state, gain, after = (torch.as_tensor(part).to(self.device) for part in batch)
        goal = gain + 0.99 * self.target_value(after)  # expect: VF003
        self.opt.zero_grad()
        loss = torch.nn.functional.mse_loss(self.value(state), goal)
        loss.backward()
        self.opt.step()
        blend(self.value, self.target_value, 0.01)
# case: a target network whose result is detached
import torch
from nets import Value
class Learner:
    def __init__(self, device):
        self.value = Value().to(device)
        self.target_value = Value().to(device)
        self.opt = torch.optim.Adam(self.value.parameters())
    def learn(self, state, gain, after):
        goal = gain + 0.99 * self.target_value(after).detach()
        self.opt.zero_grad()
        loss = torch.nn.functional.mse_loss(self.value(state), goal)
        loss.backward()
        self.opt.step()
        for a, b in zip(self.value.parameters(), self.target_value.parameters()):
            b.data.lerp_(a.data, 0.01)
# case: features that hooks take without their graphs
import torch
class Extractor:
    def __init__(self, device):
        self.model = torch.hub.load("a", "b").to(device)
        self.model.eval()
    def features(self, image):
        found = torch.zeros(1, 512)
        def copy(module, given, output):
            found.copy_(output.data)
        handle = self.model.blocks[-1].register_forward_hook(copy)
        self.model(image)  # expect: VF003
        handle.remove()
        return found
# case: an inner step on a network of the file
import torch
from torch import nn
from adapt import inner_update
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
    def forward(self, x, params=None):
        return self.a(x)
def meta_test(model, tasks, criterion, device):
    model.eval()
    total = 0.0
    for support, query in zip(*tasks):
        inner_loss = criterion(model(support[0].to(device)), support[1].to(device))
        params = inner_update(model, inner_loss, step_size=0.01)
        total += criterion(model(query[0].to(device), params=params), query[1].to(device)).item()
    return total
net = Small()
meta_test(net, load(), nn.MSELoss(), "cuda")
# case: a unit test without asserts
import torch
from nets import Small
def test_same_result():
    model = Small(num_classes=5)
    model.eval()
    x = torch.ones(5, 3).cuda()
    first = model(x)
    second = model(x)
    print("same:", torch.allclose(first, second))
# case: a test that goes through the test set
import torch
from nets import Small
def test_all():
    hits = 0
    for x, y in test_loader:
        hits += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()  # expect: VF003
    print(hits)
model = Small().cuda()
# case: a network on the CPU while its checkpoint lives
import torch
from nets import Speaker
def speak(model, text, device):
    model.eval()
    model.to(device)
    with torch.no_grad():
        return model(text.to(device)).argmax()
def main(text):
    model = Speaker(
        width=128,
        heads=8,
    )
    model.load_state_dict(torch.load("weights.pth"))
    print(speak(model, text, torch.device("cuda")))
# case: a wrapper of networks on the GPU
import torch
from torch import nn
from nets import Enc, Dec
def restore(device):
    enc = Enc().to(device)
    dec = Dec().to(device)
    both = nn.ModuleDict({"enc": enc, "dec": dec})
    both.load_state_dict(torch.load("both.pth", map_location=device))  # expect: VF010
    return both
# case: a part of the network that the optimizer trains
import torch
from nets import Contractive
model = Contractive().cuda()
optimizer = torch.optim.Adam(model.parameters())
for image in batches:
    recon = model(image.cuda())
    code = model.encoder(image.cuda())
    loss, penalty = contractive(model.encoder, image, recon, code)
    optimizer.zero_grad()  # expect: VF006
    loss.backward()
    optimizer.step()
# case: random numbers of another type stay where they are
import torch
def train(model, loader, optimizer, scale):
    for x in loader:
        optimizer.zero_grad()
        eps = torch.randn(4, 3).to(scale.dtype)
        loss = model(x.cuda(), eps).sum()
        loss.backward()
        optimizer.step()
# case: numbers of each batch from a loader, without gradients wanted
import torch
from scoring import Scorer
def accuracy(loader):
    scorer = Scorer().cuda()
    right = []
    for x, y in loader:
        scores = scorer(x.cuda())  # expect: VF003
        right.append((scores.argmax(1).cpu() == y).float().mean().item())
    return sum(right) / len(right)
# case: a state that each batch's own keys make grow
import torch
class Memory:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.states = {}
    def run(self, sampler):
        for nodes, x in sampler:
            self.optimizer.zero_grad()
            h = self.model(x.cuda())
            h.sum().backward()
            self.optimizer.step()
            for row, node in enumerate(nodes.tolist()):
                self.states[node] = h[row]  # expect: VF002
# case: a running mean that goes to the batch's device
import torch
from torch import nn
class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.centre = torch.zeros(8)
    def forward(self, x):
        h = self.body(x)
        self.centre = 0.9 * self.centre.to(h.device) + 0.1 * h.mean(0)  # expect: VF002
        return h
# case: weights updated by hand
import torch
def train(net, batches, criterion):
    net.cuda()
    for x, y in batches:
        out = net(x.cuda())
        net.zero_grad()  # expect: VF006
        criterion(out, y.cuda()).backward()
        for p in net.parameters():
            p.data.add_(p.grad, alpha=-0.1)
# case: one made-up batch is timed
import torch
def measure(layer):
    layer.cuda()
    opt = torch.optim.Adam(layer.parameters(), 1e-3)
    x = torch.ones(32, 100, device="cuda")
    for _ in range(1000):
        layer(x).mean().backward()
        opt.step()
# case: a network that another file makes, and its checkpoint freed before it moves
import torch
from zoo import build_pet, build_whole
part = build_pet()
part.load_state_dict(torch.load("part.pth"), strict=False)
model = build_whole(part)
model.to(torch.device("cuda:0"))
# case: the rows of a series that a network gets
import torch
from torch import nn
def train(frame, net):
    series = torch.tensor(frame.values).unfold(0, 96, 1)
    series = series.cuda()  # expect: VF015
    net.cuda()
    opt = torch.optim.Adam(net.parameters())
    for epoch in range(30):
        order = torch.randperm(len(series), device="cuda")
        for i in range(0, len(series), 256):
            opt.zero_grad()
            loss = net(series[order[i : i + 256]]).mean()
            loss.backward()
            opt.step()
# case: an average of weights is sampled between the steps
import torch
from nets import Generator
def train(batches, loss_fn):
    gen, shadow = Generator().cuda(), Generator().cuda()
    shadow.eval()
    opt = torch.optim.Adam(gen.parameters())
    for i, real in enumerate(batches):
        opt.zero_grad()
        loss = loss_fn(gen(torch.randn(8, 64, device="cuda")), real.cuda())
        loss.backward()
        opt.step()
        if i % 100 == 0:
            show(shadow(torch.randn(8, 64, device="cuda")).data.cpu())  # expect: VF003
# case: a few pictures of a list that is written out
import torch
from nets import Coder
model = Coder().cuda()
noise = []
shown = []
shares = [0.1, 0.2, 0.5]
for share in shares:
    noise.append(share)
for level in noise:
    image = blur(level).cuda()
    shown.append(model(image))
# case: a memory of fixed size is written by rows
import torch
from torch import nn
class Cells(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)
        self.memory = torch.zeros(n, 4, 8)
    def forward(self, rows, ids, x):
        self.memory[rows, ids, :] = self.cell(x)
        return self.memory
# case: a forward hook whose last parameters have defaults
import torch
def watch(model, layers, loader):
    cache = {}
    for name, layer in layers.items():
        def look(_, __, output, name_=name, layer_=layer):
            cache[name_] = {"layer": layer_, "tensor": output.detach().cpu()}
        layer.register_forward_hook(look)
    with torch.no_grad():
        for x in loader:
            model(x.cuda())
    return cache
# case: two optimizers that one function zeroes, one of them now and then too
import torch
class Solver:
    def __init__(self, gen, disc):
        self.gen, self.disc = gen.cuda(), disc.cuda()
        self.g_optimizer = torch.optim.Adam(self.gen.parameters())
        self.d_optimizer = torch.optim.Adam(self.disc.parameters())
    def reset(self):
        self.g_optimizer.zero_grad()
        self.d_optimizer.zero_grad()
    def train(self, loader):
        for i, real in enumerate(loader):
            real = real.cuda()
            self.reset()
            d_loss = self.disc(self.gen(real).detach()).mean() - self.disc(real).mean()
            d_loss.backward()
            self.d_optimizer.step()
            if (i + 1) % 5 == 0:
                self.reset()
                g_loss = -self.disc(self.gen(real)).mean()
                g_loss.backward()
                self.g_optimizer.step()
# case: a network that stays on the CPU
import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 2))
net.eval()
for x, y in test_loader:
    print(net(x).argmax(1) == y)
