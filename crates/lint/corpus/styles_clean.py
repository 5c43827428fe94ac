# case: add of an imported meter
import torch
from torchnet.meter import AverageValueMeter
meter = AverageValueMeter()
def fit(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        meter.add(loss.data)
# case: add of a meter of unknown class
import torch
from tools import Tracker
def fit(net, opt, feed):
    tracker = Tracker()
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        tracker.add(loss)
# case: a module-level loss that is a number
import torch
loss = 0.0
def fit(net, opt, feed):
    global loss
    for x, y in feed:
        opt.zero_grad()
        e = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        e.backward()
        opt.step()
        loss += e.item()
def report(history):
    for epoch in range(3):
        history.append(loss)
# case: data[0] of an old version
import torch
def fit(net, opt, feed):
    total = 0
    hist = []
    for x, y in feed:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        total += loss.data[0]
        hist.append(loss.data[0])
# case: a buffer emptied by its own clear
import torch
class Rollout:
    def __init__(self):
        self.logps = []
    def add(self, logp):
        self.logps.append(logp)
    def clear(self):
        del self.logps[:]
class Agent:
    def __init__(self, pi, opt):
        self.pi, self.opt, self.buffer = pi, opt, Rollout()
    def act(self, s):
        d = torch.distributions.Categorical(logits=self.pi(s.cuda()))
        a = d.sample()
        self.buffer.add(d.log_prob(a))
        return a.item()
    def learn(self, returns):
        e = -(torch.stack(self.buffer.logps) * returns).mean()
        e.backward()
        self.opt.step()
        self.opt.zero_grad()
        self.buffer.clear()
# case: lists within a bounded deque
import torch
from collections import deque
def fit(net, opt, feed):
    recent = deque(maxlen=8)
    for x, y in feed:
        opt.zero_grad()
        parts = []
        for a, b in zip(x.chunk(2), y.chunk(2)):
            parts.append(torch.nn.functional.mse_loss(net(a.cuda()), b.cuda()))
        e = sum(parts) / 2
        e.backward()
        opt.step()
        recent.append([p.detach() for p in parts])
# case: an optimizer that shares parameters others zero
import torch
def fit(net, head, feed):
    slow = torch.optim.SGD(net.parameters(), lr=0.01)
    both = torch.optim.Adam(list(net.parameters()) + list(head.parameters()))
    for x, y in feed:
        both.zero_grad()
        e = torch.nn.functional.mse_loss(head(net(x.cuda())), y.cuda())
        e.backward()
        both.step()
        slow.step()
# case: captions of a network are texts
import torch
@torch.no_grad()
def evaluate(model, val_loader, tokenizer):
    model.eval()
    said = []
    for images, refs in val_loader:
        said.extend(model.generate(images.cuda(), tokenizer=tokenizer))
    return [s.strip() for s in said]
# case: a buffer for results is no data set
import torch
def predict_all(net, tasks, config):
    y_test = torch.zeros((len(tasks), 1, 64)).to(config["device"])
    with torch.no_grad():
        for k, task in enumerate(tasks):
            y_test[k] = net(task.cuda())
    return y_test
# case: an accuracy divided in the loop is no accumulation
import torch
def fit(net, opt, feed, w):
    for x, y in feed:
        logits = net(x.cuda())
        part = torch.nn.functional.cross_entropy(logits, y.cuda(), reduction="none")
        e = torch.sum(part[w]) / len(w)
        opt.zero_grad()  # expect: VF006
        e.backward()
        opt.step()
        acc = (logits.argmax(1) == y.cuda()).float().mean()
        print(acc.item() / accuracy_scale)
# case: a pool with a size of its own
import torch
class Pool:
    def __init__(self, size=50):
        self.size = size
        self.images = []
    def query(self, images):
        out = []
        for img in images:
            if len(self.images) < self.size:
                self.images.append(img.detach())
            out.append(img)
        return torch.stack(out)
def fit(g, d, opt, feed):
    pool = Pool()
    for x in feed:
        opt.zero_grad()
        fake = g(x.cuda())
        e = d(pool.query(fake)).mean()
        e.backward()
        opt.step()
# case: the first examples for a picture
import torch
@torch.no_grad()
def evaluate(model, val_loader):
    model.eval()
    shown = []
    for i, (x, y) in enumerate(val_loader):
        out = model(x.cuda())
        if i < 8:
            shown.append(out)
    return shown
# case: a smoke test of shapes
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
    def forward(self, x):
        return self.lin(x)
def test():
    net = Net()
    y = net(torch.randn(1, 3))
    print(y.size())
# case: parts of a network that its own method calls
import torch
from torch import nn
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.prior = nn.Linear(8, 8)
        self.scale = nn.Linear(8, 8)
    def forward(self, x):
        return self.scale(x)
    def kl(self, x):
        return (self.scale(x) - self.prior(x)).square().mean()
def fit(feed):
    enc = Encoder().cuda()
    opt = torch.optim.Adam(enc.parameters())
    for x in feed:
        opt.zero_grad()
        e = enc(x.cuda()).mean() + enc.kl(x.cuda())
        e.backward()
        opt.step()
# case: an in-place change of an input in forward
import torch
from torch import nn
class Masked(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, d))
    def forward(self, x, mask):
        x[:, 1:] = x[:, 1:] * (1.0 - mask) + self.token * mask
        return x
# case: an attribute of a result within forward
import torch
from torch import nn
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
    def forward(self, x):
        one = self.a(x)
        two = self.b(x)
        one.maps = one.maps + two.maps
        return one
# case: an augmentation that is a module prepares the data
import torch
from kornia.augmentation import RandomCrop
from zoo import Small
crop = RandomCrop((32, 32)).cuda()
net = Small().cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in feed():
    opt.zero_grad()
    e = torch.nn.functional.cross_entropy(net(crop(x.cuda())), y.cuda())
    e.backward()
    opt.step()
# case: a loss function on the GPU is no teacher
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from zoo import Small
net = Small().cuda()
criterion = nn.CrossEntropyLoss().to("cuda")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y, n in feed():
    opt.zero_grad()
    s = pack_padded_sequence(net(x.cuda()), n, batch_first=True).data
    e = criterion(s, y.cuda()).to("cuda")
    e.backward()
    opt.step()
# case: a wrapper of a frozen network
import torch
import torch.nn.functional as F
from torchvision.models import vgg16
from zoo import Features, Small
vgg = vgg16(weights="DEFAULT").features
for p in vgg.parameters():
    p.requires_grad = False
look = Features(vgg, [3, 8]).to("cuda").eval()
net = Small().cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in feed():
    opt.zero_grad()
    e = F.mse_loss(look(net(x.cuda())), look(x.cuda()))
    e.backward()
    opt.step()
# case: tokens that go into the network again
import torch
from zoo import Writer
@torch.no_grad()
def write(prompt, n):
    net = Writer().cuda()
    net.eval()
    ids = prompt.cuda()
    for _ in range(n):
        logits = net(ids)[-1]
        new = logits.argmax(-1, keepdim=True).to("cuda")
        ids = torch.cat([ids, new])
    return ids.tolist()
