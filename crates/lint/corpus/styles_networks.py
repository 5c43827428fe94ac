# case: cuda chained on an imported constructor, output kept
import torch
from tagging import ImportedTagger
def run(pages):
    tagger = ImportedTagger(40).cuda()
    kept = []
    for x in pages:
        out = tagger(x.cuda())
        kept.append(out)  # expect: VF002
    return kept
# case: cuda chained on an imported constructor, output moved
import torch
from tagging import ImportedTagger
def run(pages):
    tagger = ImportedTagger(40).cuda()
    kept = []
    for x in pages:
        out = tagger(x.cuda())
        kept.append(out.detach().cpu())
    return kept
# case: a network known by its parameters in an optimizer
import torch
from torch.optim import AdamW
from wobble import thing
w = thing(7)
w.to("cuda")
o = AdamW(w.parameters(), lr=1e-3)
hist = []
for a, b in stream():
    y = w(a.to("cuda"))
    d = (y - b.to("cuda")).pow(2).mean()
    o.zero_grad()  # expect: VF006
    d.backward()
    o.step()
    hist.append(y)  # expect: VF002
# case: a network known by its parameters in an optimizer, numbers kept
import torch
from torch.optim import AdamW
from wobble import thing
w = thing(7)
w.to("cuda")
o = AdamW(w.parameters(), lr=1e-3)
hist = []
for a, b in stream():
    o.zero_grad()
    y = w(a.to("cuda"))
    d = (y - b.to("cuda")).pow(2).mean()
    d.backward()
    o.step()
    hist.append(d.item())
# case: star import
import torch
import torch.nn.functional as F
from architectures import *
def fit(stream, steps):
    spotter = Spotter(3, 64).to("cuda")
    opt = torch.optim.SGD(spotter.parameters(), lr=0.1)
    scores = []
    for _ in range(steps):
        opt.zero_grad(set_to_none=True)
        frames, tags = next(stream)
        guess = spotter(frames.cuda())
        F.cross_entropy(guess, tags.cuda()).backward()
        opt.step()
        scores.append(guess.softmax(-1))  # expect: VF002
    return scores
# case: star import, kept as numbers
import torch
import torch.nn.functional as F
from architectures import *
def fit(stream, steps):
    spotter = Spotter(3, 64).to("cuda")
    opt = torch.optim.SGD(spotter.parameters(), lr=0.1)
    scores = []
    for _ in range(steps):
        opt.zero_grad(set_to_none=True)
        frames, tags = next(stream)
        guess = spotter(frames.cuda())
        F.cross_entropy(guess, tags.cuda()).backward()
        opt.step()
        scores.append(guess.softmax(-1).max().item())
    return scores
# case: an optimizer over two networks of another file
import itertools
import torch
from parts import Reader, Writer
class Job:
    def __init__(self):
        self.r = Reader().cuda()
        self.w = Writer().cuda()
        self.o = torch.optim.Adam(itertools.chain(self.r.parameters(), self.w.parameters()))
        self.trace = []
    def go(self, feed):
        for s, t in feed:
            self.o.zero_grad()
            q = self.w(self.r(s.cuda()))
            e = (q - t.cuda()).abs().sum()
            e.backward()
            self.o.step()
            self.trace.append(e)  # expect: VF001
# case: a network under train and eval
import torch
from zoo import assemble
def check(items):
    m = assemble("s")
    m.cuda()
    m.eval()
    n = 0
    for x, y in items:
        p = m(x.cuda())  # expect: VF003
        n += (p.argmax(1).cpu() == y).sum().item()
    return n
# case: a network under train and eval, without gradients
import torch
from zoo import assemble
def check(items):
    m = assemble("s")
    m.cuda()
    m.eval()
    n = 0
    for x, y in items:
        with torch.no_grad():
            p = m(x.cuda())
        n += (p.argmax(1).cpu() == y).sum().item()
    return n
# case: weights of a functional network in an optimizer
import torch
w1 = torch.randn(64, 64, device="cuda", requires_grad=True)
w2 = torch.randn(64, 10, device="cuda", requires_grad=True)
opt = torch.optim.SGD([w1, w2], lr=0.1)
seen = []
for x, y in feed():
    opt.zero_grad()
    h = torch.relu(x.cuda() @ w1)
    e = torch.nn.functional.cross_entropy(h @ w2, y.cuda())
    e.backward()
    opt.step()
    seen.append(h)  # expect: VF002
# case: an object that is called and is no network
import torch
from texts import Cleaner
scrub = Cleaner("en")
rows = []
for line in open("a.txt"):
    rows.append(scrub(line))
print(torch.tensor(len(rows)))
# case: a loader object that is called and moved
import torch
from pipes import Pipe
def prepare(files):
    pipe = Pipe(4)
    rows = []
    for name in files:
        rows.append(pipe(name).to("cpu"))
    return rows
