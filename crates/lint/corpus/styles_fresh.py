# case: a functional loop with partial application
import functools
import torch
from nets import Rater
def one(rater, solver, sink, pair):
    a, b = (t.to("cuda:0") for t in pair)
    solver.zero_grad(set_to_none=True)
    margin = torch.relu(1 - rater(a) + rater(b)).mean()
    margin.backward()
    solver.step()
    sink.append(margin)  # expect: VF001
def main(pairs):
    rater = Rater().to("cuda:0")
    solver = torch.optim.RMSprop(rater.parameters())
    sink = []
    for pair in pairs:
        one(rater, solver, sink, pair)
    return sink
# case: a dataclass of metrics
import dataclasses
import torch
@dataclasses.dataclass
class Tally:
    n: int = 0
    total: float = 0.0
def train(net, solver, stream):
    tally = Tally()
    for x, y in stream:
        solver.zero_grad()
        miss = torch.nn.functional.huber_loss(net(x.cuda()), y.cuda())
        miss.backward()
        solver.step()
        tally.total += miss  # expect: VF001
        tally.n += 1
    return tally.total / tally.n
# case: an exponential average of the loss
import torch
def train(net, solver, stream):
    smooth = None
    for x, y in stream:
        solver.zero_grad()
        miss = torch.nn.functional.huber_loss(net(x.cuda()), y.cuda())
        miss.backward()
        solver.step()
        smooth = miss if smooth is None else 0.99 * smooth + 0.01 * miss  # expect: VF001
    return smooth
# case: an exponential average of a number
import torch
def train(net, solver, stream):
    smooth = None
    for x, y in stream:
        solver.zero_grad()
        miss = torch.nn.functional.huber_loss(net(x.cuda()), y.cuda())
        miss.backward()
        solver.step()
        value = miss.item()
        smooth = value if smooth is None else 0.99 * smooth + 0.01 * value
    return smooth
# case: a matrix of distances between embeddings
import torch
from nets import Encoder
enc = Encoder().half().cuda()
enc.eval()
vectors = {}
for key, clip in clips():
    vectors[key] = enc(clip.cuda())  # expect: VF002, VF003
# case: a ranking evaluated in chunks
import torch
class Searcher:
    def __init__(self, tower):
        self.tower = tower
        self.tower.cuda()
    def rank(self, queries):
        self.tower.eval()
        scores = []
        for q in queries.split(64):
            scores.append(self.tower(q.cuda()).cpu())  # expect: VF002, VF003
        return torch.cat(scores).argsort()
# case: a ranking evaluated in chunks under inference mode
import torch
class Searcher:
    def __init__(self, tower):
        self.tower = tower
        self.tower.cuda()
    @torch.inference_mode()
    def rank(self, queries):
        self.tower.eval()
        scores = []
        for q in queries.split(64):
            scores.append(self.tower(q.cuda()).cpu())
        return torch.cat(scores).argsort()
# case: an actor and a critic that are stepped together
import torch
def learn(actor, critic, solver, batches):
    kls = []
    for obs, act, adv, ret, old in batches:
        dist = torch.distributions.Normal(*actor(obs.cuda()))
        logp = dist.log_prob(act.cuda()).sum(-1)
        ratio = (logp - old.cuda()).exp()
        objective = -(ratio * adv.cuda()).mean() + (critic(obs.cuda()) - ret.cuda()).square().mean()
        solver.zero_grad()  # expect: VF006
        objective.backward()
        solver.step()
        kls.append((old.cuda() - logp).mean())  # expect: VF002
    return kls
# case: a scaler and a list
import torch
def learn(net, solver, scaler, batches):
    seen = list()
    for x, y in batches:
        solver.zero_grad()
        with torch.autocast("cuda"):
            pred = net(x.cuda())
            gap = (pred - y.cuda()).abs().mean()
        scaler.scale(gap).backward()
        scaler.step(solver)
        scaler.update()
        seen += [gap]  # expect: VF001
    return seen
# case: resume with every state at once
import torch
def resume(path, gpu, **parts):
    blob = torch.load(path, map_location=f"cuda:{gpu}")  # expect: VF010
    for name, part in parts.items():
        part.load_state_dict(blob[name])
# case: a guard for the best loss
import copy
import torch
def fit(net, solver, stream):
    best, keep = float("inf"), None
    for x, y in stream:
        solver.zero_grad()
        gap = torch.nn.functional.l1_loss(net(x.cuda()), y.cuda())
        gap.backward()
        solver.step()
        if gap.item() < best:
            best = gap.item()
            keep = copy.deepcopy(net.state_dict())
    return best, keep
# case: a callback that logs
import torch
class Logger:
    def __init__(self):
        self.rows = []
    def on_step(self, loss):
        self.rows.append(loss)  # expect: VF001
def fit(net, solver, stream):
    logger = Logger()
    for x, y in stream:
        solver.zero_grad()
        gap = torch.nn.functional.l1_loss(net(x.cuda()), y.cuda())
        gap.backward()
        solver.step()
        logger.on_step(gap)
# case: a callback that logs numbers
import torch
class Logger:
    def __init__(self):
        self.rows = []
    def on_step(self, loss):
        self.rows.append(float(loss))
def fit(net, solver, stream):
    logger = Logger()
    for x, y in stream:
        solver.zero_grad()
        gap = torch.nn.functional.l1_loss(net(x.cuda()), y.cuda())
        gap.backward()
        solver.step()
        logger.on_step(gap)
# case: a recurrent rollout inside one loss
import torch
def fit(cell, head, solver, stream):
    for xs, y in stream:
        solver.zero_grad()
        h = torch.zeros(xs.shape[1], 64, device="cuda")
        outs = []
        for x in xs.cuda():
            h = cell(x, h)
            outs.append(head(h))
        gap = (torch.stack(outs) - y.cuda()).square().mean()
        gap.backward()
        solver.step()
# case: gradient norms of each layer
import torch
def fit(net, solver, stream):
    norms = {name: [] for name, _ in net.named_parameters()}
    for x, y in stream:
        solver.zero_grad()
        torch.nn.functional.l1_loss(net(x.cuda()), y.cuda()).backward()
        for name, p in net.named_parameters():
            norms[name].append(p.grad.norm().item())
        solver.step()
    return norms
