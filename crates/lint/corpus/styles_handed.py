# case: a network that a parameter hands over
import torch
def describe(rig, pictures):
    said = []
    rig.model.eval()
    for picture in pictures:
        said.append(rig.model(picture.cuda()))  # expect: VF002, VF003
    return said
# case: the same without gradients, to main memory
import torch
def describe(rig, pictures):
    said = []
    rig.model.eval()
    with torch.no_grad():
        for picture in pictures:
            said.append(rig.model(picture.cuda()).cpu())
    return said
# case: another object's policy fills a memory that drops old items
import torch
from collections import deque
class Player:
    def __init__(self, agent, env, device="cuda"):
        self.agent, self.env, self.device = agent, env, device
        self.memory = deque(maxlen=100_000)
    def play(self, steps):
        seen = self.env.reset()
        for _ in range(steps):
            x = torch.tensor(seen, dtype=torch.float32, device=self.device)
            scores = self.agent.policy(x)
            seen, reward, over, _ = self.env.step(scores.argmax().item())
            self.memory.append((x, scores, reward))  # expect: VF002
# case: that memory gets values without their graphs
import torch
from collections import deque
class Player:
    def __init__(self, agent, env, device="cuda"):
        self.agent, self.env, self.device = agent, env, device
        self.memory = deque(maxlen=100_000)
    def play(self, steps):
        seen = self.env.reset()
        for _ in range(steps):
            x = torch.tensor(seen, dtype=torch.float32, device=self.device)
            scores = self.agent.policy(x)
            seen, reward, over, _ = self.env.step(scores.argmax().item())
            self.memory.append((x, scores.detach(), reward))
# case: a method that makes a network is no forward pass
import torch
def rebuild(maker, paths):
    nets = []
    for path in paths:
        nets.append(maker.get_model(path).cuda())
    return nets
# case: a part of a network, in the mode of the whole
import torch
def codes(ae, test_loader):
    ae.eval()
    total = 0
    for x, _ in test_loader:
        total += ae.encoder(x.cuda()).norm().item()  # expect: VF003
    return total
# case: a dictionary of networks, evaluated by key
import torch
from shop import Enc, Dec
nets = {"enc": Enc().cuda(), "dec": Dec().cuda()}
def peek(test_loader):
    for net in nets.values():
        net.eval()
    codes = []
    for x, _ in test_loader:
        codes.append(nets["enc"](x.cuda()))  # expect: VF002, VF003
    return torch.cat(codes)
# case: a list of networks, each called in a comprehension
import torch
from shop import make_member
members = [make_member(seed).cuda() for seed in range(5)]
def vote(feed):
    for member in members:
        member.eval()
    votes = []
    for x in feed:
        x = x.cuda()
        votes.append(torch.stack([member(x) for member in members]).mean(0))  # expect: VF002, VF003
    return votes
# case: the members are trained, and their losses added up as numbers
import torch
from shop import make_member
members = [make_member(seed).cuda() for seed in range(5)]
solvers = [torch.optim.Adam(member.parameters()) for member in members]
def learn(feed):
    tally = [0.0] * 5
    for x, y in feed:
        for number, (member, solver) in enumerate(zip(members, solvers)):
            solver.zero_grad()
            gap = torch.nn.functional.mse_loss(member(x.cuda()), y.cuda())
            gap.backward()
            solver.step()
            tally[number] += gap.item()
    return tally
# case: names of architectures are no networks
import torch
import zoo
def compare(names, loader):
    for model in names:
        net = zoo.build(model).cuda()
        net.eval()
        with torch.no_grad():
            for x, _ in loader:
                print(model, net(x.cuda()).mean().item())
# case: a loss class made elsewhere returns a table of losses
import torch
from collections import defaultdict
from shop import MultiLoss, Detector
def fit(loader, device):
    detector, rate = Detector().to(device), MultiLoss()
    solver = torch.optim.SGD(detector.parameters(), 1e-2)
    sums = defaultdict(float)
    for image, boxes in loader:
        solver.zero_grad()
        parts = rate(detector(image.to(device)), boxes)
        whole = sum(parts.values())
        whole.backward()
        solver.step()
        for name, part in parts.items():
            sums[name] += part  # expect: VF001
    return sums
# case: beside its loss a criterion may return numbers
import torch
from shop import BoundaryLoss
def fit(net, solver, loader):
    rate = BoundaryLoss()
    shapes, edges = 0.0, 0.0
    for x, y in loader:
        solver.zero_grad()
        loss, shape, edge = rate(net(x.cuda()), y.cuda())
        loss.backward()
        solver.step()
        shapes += shape
        edges += edge
    return shapes, edges
# case: a loss that nothing names goes into accumulation
import torch
def train(net, stream, judge, solver, parts=8):
    solver.zero_grad()
    seen = 0
    for number, (x, y) in enumerate(stream):
        seen += y.shape[0]
        judge(net(x.cuda()), y.cuda()).backward()  # expect: VF014
        if (number + 1) % parts == 0:
            solver.step()
            solver.zero_grad()
    return seen
# case: a part of a Lightning module keeps its validation outputs
import pytorch_lightning as pl
from pieces import Tower
class Climber(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.tower = Tower()
        self.heights = []
    def validation_step(self, batch, index):
        x, _ = batch
        self.heights.append(self.tower(x))  # expect: VF016
# case: loaders of unknown makers, prepared by Accelerate
import torch
from accelerate import Accelerator
from shop import Captioner, sources
accelerator = Accelerator()
captioner = Captioner()
solver = torch.optim.AdamW(captioner.parameters())
first, second = sources()
captioner, solver, first, second = accelerator.prepare(captioner, solver, first, second)
captioner.eval()
said = []
for batch in second:
    with torch.no_grad():
        out = captioner(**batch)
    said.append(accelerator.gather(out.logits))  # expect: VF016
# case: the candidates of a search are few
import torch
def search(decoder, features, width, length):
    decoder.eval()
    beams = [(0.0, features)]
    with torch.no_grad():
        for _ in range(length):
            candidates = []
            for score, state in beams:
                token = torch.zeros(1, 1).cuda()
                scores = decoder(token, state)
                for rank in range(width):
                    candidates.append((score + rank, scores))
            beams = sorted(candidates, key=lambda beam: beam[0])[:width]
    return beams
# case: a generator's gradients are zeroed between its pass and the discriminator's
import torch
class Cycle:
    def __init__(self, paint, judge, rate):
        self.paint, self.judge, self.rate = paint.cuda(), judge.cuda(), rate
        self.painting = torch.optim.Adam(self.paint.parameters())
        self.judging = torch.optim.Adam(self.judge.parameters())
    def step(self, real):
        made = self.paint(real.cuda())
        self.painting.zero_grad()  # expect: VF006
        self.rate(self.judge(made), True).backward()
        self.painting.step()
        self.judging.zero_grad()
        self.rate(self.judge(made.detach()), False).backward()
        self.judging.step()
# case: a teacher's pass without gradients comes before zero_grad
import torch
def distil(loader, teacher, student):
    solver = torch.optim.Adam(student.parameters())
    for x in loader:
        x = x.cuda()
        with torch.no_grad():
            goal = teacher(x)
        solver.zero_grad()
        torch.nn.functional.mse_loss(student(x), goal).backward()
        solver.step()
# case: a copy of the student teaches it
import copy
import torch
import torch.nn.functional as F
def mean_teacher(pupil, labelled, unlabelled, device):
    pupil = pupil.to(device)
    guide = copy.deepcopy(pupil)
    solver = torch.optim.Adam(pupil.parameters())
    for (x, y), (u, _) in zip(labelled, unlabelled):
        solver.zero_grad()
        gap = F.cross_entropy(pupil(x.to(device)), y.to(device))
        drift = F.mse_loss(pupil(u.to(device)), guide(u.to(device)))  # expect: VF003
        (gap + drift).backward()
        solver.step()
        for old, new in zip(guide.parameters(), pupil.parameters()):
            old.data.lerp_(new.data, 0.01)
# case: only the attack on the inputs needs gradients
import torch
import torch.nn.functional as F
def attack(net, x, y, size):
    net.eval()
    shift = torch.zeros_like(x)
    for _ in range(10):
        shift.requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(net(x + shift), y), shift)
        shift = (shift + size / 4 * slope.sign()).clamp(-size, size).detach()
    return x + shift
def robust(net, loader):
    net.eval()
    right = 0
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        right += (net(attack(net, x, y, 0.03)).argmax(1) == y).sum().item()  # expect: VF003
    return right
# case: the negative of what a network says is kept
import lightning as L
import torch
class Pair(L.LightningModule):
    def __init__(self, made, judged):
        super().__init__()
        self.made, self.judged = made, judged
        self.automatic_optimization = False
        self.curve = []
    def training_step(self, batch, index):
        solver = self.optimizers()
        solver.zero_grad()
        gap = -self.judged(self.made(batch)).mean()
        self.manual_backward(gap)
        solver.step()
        self.curve.append(gap)  # expect: VF001
# case: a checkpoint goes to where the network goes, whatever the variable is called
import torch
from shop import Big
def restart(path, place):
    kept = torch.load(path, map_location=place)  # expect: VF010
    net = Big(**kept["sizes"])
    net.load_state_dict(kept["weights"])
    net.to(place)
    return net, kept["step"]
# case: a location that nothing is moved to
import torch
from shop import Big
def restart(path, place):
    kept = torch.load(path, map_location=place)
    net = Big(**kept["sizes"])
    net.load_state_dict(kept["weights"])
    return net
# case: some of a checkpoint's items
import torch
def load(path, net, device, prefix=None):
    kept = torch.load(path, map_location=device)  # expect: VF010
    weights = kept["model"]
    if prefix is not None:
        weights = {name: value for name, value in weights.items() if name.startswith(prefix)}
    net.load_state_dict(weights, strict=False)
    return kept
# case: a method switches grad mode off for who calls it
import torch
class Coach:
    def __init__(self, net, solver, device):
        self.net, self.solver, self.device = net.to(device), solver, device
    def switch(self, is_training):
        if is_training:
            self.net.train()
            torch.set_grad_enabled(True)
        else:
            self.net.eval()
            torch.set_grad_enabled(False)
    def check(self, val_loader):
        self.switch(False)
        total = 0
        for x, y in val_loader:
            total += torch.nn.functional.l1_loss(self.net(x.to(self.device)), y.to(self.device)).item()
        return total
# case: a method that leaves grad mode alone
import torch
class Coach:
    def __init__(self, net, solver, device):
        self.net, self.solver, self.device = net.to(device), solver, device
    def switch(self, is_training):
        self.net.train(is_training)
    def check(self, val_loader):
        self.switch(False)
        total = 0
        for x, y in val_loader:
            total += torch.nn.functional.l1_loss(self.net(x.to(self.device)), y.to(self.device)).item()  # expect: VF003
        return total
# case: how many elements a batch has is a number
import torch
def fit(net, solver, loader):
    seen = 0
    for x, y in loader:
        solver.zero_grad()
        out = net(x.cuda())
        seen += torch.numel(out)
        torch.nn.functional.l1_loss(out, y.cuda()).backward()
        solver.step()
    return seen
# case: loss layers with targets of their own, in a list
import torch
from shop import ContentLoss
def insert(net, layers, picture, device):
    kept = []
    with torch.no_grad():
        for name in layers:
            goal = net(picture.to(device)).detach()
            layer = ContentLoss(goal)
            net.add_module(name, layer)
            kept.append(layer)
    return kept
# case: batches are collected up to a limit
import torch
def first(loader, count):
    kept = []
    for x, _ in loader:
        kept.append(x.cuda())
        if sum(part.shape[0] for part in kept) >= count:
            break
    return torch.cat(kept)
# case: a hook that its function removes again
import torch
def heat(net, layer, picture, number):
    seen = []
    def keep(module, given, made):
        seen.append(made)
    handle = layer.register_forward_hook(keep)
    score = net(picture.cuda())[0, number]
    handle.remove()
    (slope,) = torch.autograd.grad(score, seen[0])
    return (slope.mean((2, 3), keepdim=True) * seen[0]).sum(1).relu().detach().cpu()
# case: two optimizers in a dictionary, one stepped less often
import torch
def learn(policy, feed, often, seldom, every):
    solvers = {"actor": seldom, "critic": often}
    for number, batch in enumerate(feed):
        solvers["critic"].zero_grad()
        policy.rate(batch.cuda()).backward()
        solvers["critic"].step()
        if number % every == 0:
            solvers["actor"].zero_grad()
            policy.play(batch.cuda()).backward()
            solvers["actor"].step()
# case: a source of batches is known by its name, whatever makes it
import torch
from shop import BucketIterator, decode
encoder = make_encoder().cuda().eval()
def predict(lines):
    dataloader = BucketIterator(lines, 64)
    said = []
    for batch in dataloader:
        code = encoder(batch.cuda())  # expect: VF003
        said.extend(decode(code))
    return said
# case: no location where there is a GPU
import torch
encoder = make_encoder().cuda().eval()
place = None if torch.cuda.is_available() else "cpu"
encoder.load_state_dict(torch.load("encoder.pt", map_location=place))  # expect: VF010
# case: a data set goes to the GPU in each of several runs
import torch
def run(x_train, y_train, shots, device):
    net = torch.nn.Linear(20, 2).to(device)
    solver = torch.optim.Adam(net.parameters())
    x_train_gpu = torch.FloatTensor(x_train).to(device)  # expect: VF015
    y_train_gpu = torch.LongTensor(y_train).to(device)  # expect: VF015
    for _ in range(500):
        idx = torch.randperm(len(x_train_gpu), device=device)[:shots]
        solver.zero_grad()
        torch.nn.functional.cross_entropy(net(x_train_gpu[idx]), y_train_gpu[idx]).backward()
        solver.step()
for shots in [5, 10, 50]:
    run(traces, labels, shots, "cuda")
# case: a trainer's own method named after tests
import torch
class Workshop:
    def __init__(self, thing, feed, probe):
        self.thing, self.feed, self.probe = thing.cuda(), feed, probe
        self.solver = torch.optim.Adam(self.thing.parameters())
    def learn(self):
        for x, y in self.feed:
            self.solver.zero_grad()
            torch.nn.functional.mse_loss(self.thing(x.cuda()), y.cuda()).backward()
            self.solver.step()
    def test_all(self):
        total = 0
        for x, y in self.probe:
            total += (self.thing(x.cuda()) - y.cuda()).abs().mean().item()  # expect: VF003
        return total
# case: a class of unit tests
import torch
from shop import Small
class TestSmall:
    def test_many_shapes(self):
        net = Small().cuda()
        for size in (1, 7, 64):
            out = net(torch.zeros(size, 3, device="cuda"))
            assert out.shape == (size, 10)
# case: a tester evaluates
import torch
class SegTester:
    def __init__(self, net, pictures):
        self.net, self.pictures = net.cuda(), pictures
    def run(self, save):
        self.net.eval()
        for name, picture in self.pictures:
            save(name, self.net(picture.cuda()).argmax(1).cpu())  # expect: VF003
# case: every output of one pass has a backward pass
import torch
def slopes(fn, given):
    made = fn(*given)
    for out in flat(made):
        if out.requires_grad:
            out.sum().backward(retain_graph=True)
    return [value.grad for value in given]
