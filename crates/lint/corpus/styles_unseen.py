# case: the cache is emptied at every thousandth batch
import torch
def train(model, loader, criterion, optimizer):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        if i % 3000 == 0:
            torch.cuda.empty_cache()
# case: a file with the state of an optimizer alone
import torch
def resume(model, optimizer, path):
    model.cuda()
    optimizer.load_state_dict(torch.load(path / "optimizer.pt"))
# case: the state of an optimizer out of a whole checkpoint
import torch
def resume(trainer, path):
    checkpoint = torch.load(path, map_location="cuda")  # expect: VF010
    trainer.optimizer.load_state_dict(checkpoint["optimizer"])
# case: one of two branches loads onto the GPU
import torch
from nets import Reader
def restore(path, device, is_on_cpu):
    if is_on_cpu:
        state = torch.load(path, map_location=torch.device("cpu"))
    else:
        state = torch.load(path)  # expect: VF010
    net = Reader().to(device)
    net.load_state_dict(state["net"])
    return net.cuda()
# case: a whole network was saved
import torch
def resume(net, path, device):
    saved = torch.load(path, map_location=device)  # expect: VF010
    if isinstance(saved, torch.nn.DataParallel):
        weights = saved.module.state_dict()
    elif isinstance(saved, torch.nn.Module):
        weights = saved.state_dict()
    else:
        weights = saved
    net.load_state_dict(weights)
    return net.to(device)
# case: a factory leaves its network on the CPU
import torch
from nets import Inception
def inception(width, device="cuda"):
    model = Inception(width)
    state = torch.load("inception.pt", map_location=device)
    model.load_state_dict(state)
    return model
# case: a factory returns its network and the checkpoint
import torch
from nets import Inception
def inception(width, device="cuda"):
    model = Inception(width)
    state = torch.load("inception.pt", map_location=device)  # expect: VF010
    model.load_state_dict(state)
    return model, state
# case: a trainer gets the network while the checkpoint lives
import torch
from nets import Tracker
from work import Trainer
def main(path, device):
    net = Tracker(32)
    checkpoint = torch.load(path, map_location=device)  # expect: VF010
    net.load_state_dict(checkpoint["net"])
    trainer = Trainer(net, device)
    trainer.train()
# case: a part of a network that a factory leaves on the CPU
import torch
from nets import Poser
def build(config, device):
    model = Poser(config)
    weights = torch.load(config.weights, map_location=device)
    weights = {key[2:]: value for key, value in weights.items()}
    model.backbone.load_state_dict(weights)
    return model
# case: a class makes a network and puts it into another one
import torch
from nets import Base, Head
class Work:
    def build(self):
        self.base = Base(width=3)
        checkpoint = torch.load(self.path)
        self.base.load_state_dict(checkpoint["state_dict"])
        self.net = Head(base=self.base)
    def run(self, x):
        self.net.cuda()
        self.net.eval()
        with torch.no_grad():
            return self.net(x.cuda())
# case: a step that is rare as a whole
import torch
class Regulariser:
    def step(self, real):
        if self.count % self.every == 0:
            pred = self.critic(real)
            penalty = self.penalty(pred, real) * self.weight
            self.critic.zero_grad()  # expect: VF006
            penalty.backward()
            self.optimizer.step()
        self.count += 1
# case: a forward method of an object that is no network
import torch
class Saliency:
    def __init__(self, net):
        self.net = net
        self.net.eval()
    def forward(self, image):
        return self.net(image)
    def __call__(self, image, category):
        image = image.requires_grad_(True)
        self.forward(image)[0, category].backward()
        return image.grad
# case: a function that looks at the graph
import torch
def trace(model, example):
    model.eval()
    found = {}
    def note(module, given, out):
        found[out.grad_fn] = module
    hooks = [module.register_forward_hook(note) for module in model.modules()]
    out = model(example)
    for hook in hooks:
        hook.remove()
    return found, out.grad_fn
# case: results that become arrays as they are
import torch
def submit(net, loader, device):
    net.eval()
    rows = []
    for x, name in loader:
        out = net(x.to(device)).cpu()
        for row in out.permute(0, 2, 1):
            rows.append(row.numpy())
    return rows
# case: results that are detached first
import torch
def submit(net, loader, device):
    net.eval()
    rows = []
    for x, name in loader:
        out = net(x.to(device)).detach().cpu()  # expect: VF003
        rows.extend(out.numpy())
    return rows
# case: a test with parameters
import pytest
import torch
from nets import Wave
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_scales(device):
    x = torch.randn(1, 32).to(device)
    for scale in range(3):
        net = Wave(scale).to(device).eval()
        out = net(x)
        print(out.shape)
# case: a test with mocks
from unittest.mock import MagicMock
import torch
from work import Evaluator
def test_evaluate(loader):
    evaluator = Evaluator(model=MagicMock())
    kept = []
    for x, y in loader:
        kept.append(evaluator.model(x))
    assert kept
# case: a new network under the name of one in evaluation mode
import torch
from torchvision.models import resnet18
model = resnet18().eval()
with torch.no_grad():
    model(torch.randn(1, 3, 32, 32).cuda())
model = resnet18()
for step in range(5):
    prune(model)
    print(model(torch.randn(1, 3, 32, 32)).shape)
# case: an evaluation that goes by strides
import torch
from torch import nn
def eval_on_train_texts(model, texts, size, device):
    losses = []
    for i in range(0, len(texts), size):
        x = texts[i : i + size].to(device)
        out = model(x).logits  # expect: VF003
        loss = nn.CrossEntropyLoss()(out.flatten(0, 1), x.flatten())
        losses.append(loss.float() * len(x))  # expect: VF001
    return torch.stack(losses).sum().item()
# case: strides without gradients
import torch
from torch import nn
def perplexity(model, texts, size, device):
    with torch.no_grad():
        return total(model, texts, size, device)
def total(model, texts, size, device):
    losses = []
    for i in range(0, len(texts), size):
        x = texts[i : i + size].to(device)
        loss = nn.CrossEntropyLoss()(model(x).logits.flatten(0, 1), x.flatten())
        losses.append(loss)  # expect: VF016
    return torch.stack(losses).sum().item()
# case: parts of a computation on the GPU
import torch
@torch.no_grad()
def render(model, rays, size):
    parts = []
    for i in range(0, rays.shape[0], size):
        parts.append(model(rays[i : i + size]))
    return torch.cat(parts)
# case: numbers for the log in a table within the losses
import torch
def train(model, loader, criterion, optimizer, totals):
    for x, y in loader:
        optimizer.zero_grad()
        losses = criterion(model(x.cuda()), y.cuda())
        losses["total_loss"].backward()
        optimizer.step()
        for name, loss in losses["parts"].items():
            totals[name] += loss
# case: losses of one accumulated step
import torch
def train(model, batches, criterion, optimizer, parts):
    for step in range(1000):
        optimizer.zero_grad()
        losses = []
        for part in range(parts):
            x, y = next(batches)
            loss = criterion(model(x.cuda()), y.cuda()) / parts
            losses.append(loss)
            loss.backward()
        print(torch.stack(losses).sum().item())
        optimizer.step()
# case: gradients of each loss of a step
import torch
class Surgery:
    def gradients(self, losses):
        found = []
        for loss in losses:
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward(retain_graph=True)
            found.append(torch.cat([p.grad.flatten() for p in self.net.cuda().parameters()]))
        return found
# case: gradients with a graph, read from the parameters
import torch
def attack(model, target, x, y, optimizer):
    for step in range(100):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward(create_graph=True)
        found = [p.grad.clone() for p in model.parameters()]
        for p in model.parameters():
            p.grad = None
        distance = sum(((one - two) ** 2).sum() for one, two in zip(found, target))
        distance.backward()
        optimizer.step()
# case: a closure zeroes gradients through their data
import torch
def attack(model, x, target):
    optimizer = torch.optim.LBFGS([x])
    for step in range(100):
        def closure():
            if x.grad is not None:
                x.grad.data.zero_()
            loss = (model(x) - target).abs().mean()
            loss.backward()
            return loss
        optimizer.step(closure)
# case: a closure returns a loss with gradients in it
import torch
def attack(model, x, y, target):
    optimizer = torch.optim.LBFGS([x])
    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        slope = torch.autograd.grad(loss, x, create_graph=True)[0]
        return loss + (slope - target).pow(2).sum()
    for step in range(100):
        optimizer.step(closure)
# case: the cache is emptied where a loss is not finite
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        if torch.isnan(loss).any() or not torch.isfinite(loss):
            torch.cuda.empty_cache()
            continue
        loss.backward()
        optimizer.step()
# case: a file with the states of several optimizers
import torch
class Trainer:
    def __init__(self, painter, judge):
        self.painter, self.judge = painter.cuda(), judge.cuda()
        self.painter_optimizer = torch.optim.Adam(self.painter.parameters())
        self.judge_optimizer = torch.optim.Adam(self.judge.parameters())
    def resume(self, folder):
        states = torch.load(folder / "optimizers.pt")
        self.painter_optimizer.load_state_dict(states["painter"])
        self.judge_optimizer.load_state_dict(states["judge"])
# case: a checkpoint of a network and its optimizers
import torch
class Trainer:
    def __init__(self, painter, judge):
        self.painter, self.judge = painter.cuda(), judge.cuda()
        self.painter_optimizer = torch.optim.Adam(self.painter.parameters())
        self.judge_optimizer = torch.optim.Adam(self.judge.parameters())
    def resume(self, folder):
        states = torch.load(folder / "all.pt")  # expect: VF010
        self.painter.load_state_dict(states["painter_weights"])
        self.painter_optimizer.load_state_dict(states["painter"])
        self.judge_optimizer.load_state_dict(states["judge"])
# case: an assignment without blanks makes a network on the CPU
import torch
from transformers import AutoModelForMaskedLM
device = torch.device("cuda")
model=AutoModelForMaskedLM.from_pretrained("reader")
model.load_state_dict(torch.load("reader.pt"))
model.to(device)
# case: an assignment without blanks makes a network on the GPU
import torch
from transformers import AutoModelForMaskedLM
device = torch.device("cuda")
model=AutoModelForMaskedLM.from_pretrained("reader").to(device)
model.load_state_dict(torch.load("reader.pt"))  # expect: VF010
model.to(device)
# case: a mask is drawn on the CPU
import torch
def train(model, loader, criterion, optimizer, device):
    for x, y in loader:
        optimizer.zero_grad()
        kept = 1 - torch.bernoulli(torch.ones(len(x), 1) * 0.1).long().to(device)  # expect: VF015
        criterion(model(x.to(device) * kept), y.to(device)).backward()
        optimizer.step()
# case: a mask is drawn from probabilities of the data
import torch
def train(model, loader, criterion, optimizer, device):
    for x, y in loader:
        optimizer.zero_grad()
        kept = 1 - torch.bernoulli(x.sigmoid() * 0.1).long().to(device)
        criterion(model(x.to(device) * kept), y.to(device)).backward()
        optimizer.step()
# case: each task's gradients come from a forward pass of their own
import torch
from surgery import project
def gradients(model, loss_fn, x, y, tasks, shared):
    found = []
    for task in torch.unique(tasks):
        loss = loss_fn(model(x, tasks), y)[tasks == task].mean()
        parts = torch.autograd.grad(loss, shared, retain_graph=True)  # expect: VF007
        found.append(torch.cat([part.view(-1) for part in parts]))
    return project(found)
# case: the losses of the tasks leave with their graphs
import torch
def gradients(model, loss_fn, x, y, tasks, shared):
    found, losses = [], []
    for task in torch.unique(tasks):
        loss = loss_fn(model(x, tasks), y)[tasks == task].mean()
        found.append(torch.autograd.grad(loss, shared, retain_graph=True))
        losses.append(loss)
    return found, losses
# case: a detector of a library that switches gradients off itself
import torch
from ultralytics import YOLO
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = YOLO("animals.pt").to(device)
def evaluate(images):
    return [float(model(image)[0].boxes.conf[0]) for image in images]
def predict(path, model):
    for image in sorted(path.iterdir()):
        results = model(image)
        print(results[0].boxes)
predict("images", model)
# case: features of every batch are computed on the GPU and kept there
import torch
def spectra(loader, device, path):
    window = torch.hann_window(400, device=device)
    found = {}
    for number, batch in enumerate(loader):
        spectrum = torch.abs(torch.stft(batch.to(device), 400, window=window, return_complex=True))
        found[number] = spectrum.transpose(1, 2)  # expect: VF016
    torch.save(found, path)
# case: features of every batch are computed on the GPU and kept in main memory
import torch
def spectra(loader, device, path):
    window = torch.hann_window(400, device=device)
    found = {}
    for number, batch in enumerate(loader):
        spectrum = torch.abs(torch.stft(batch.to(device), 400, window=window, return_complex=True))
        found[number] = spectrum.transpose(1, 2).cpu()
    torch.save(found, path)
# case: an evaluation within a training makes its tensors on the CPU
import torch
def evaluate(model, valid_set, device):
    model.eval()
    right = 0
    for batch in valid_set.parts():
        with torch.no_grad():
            scores = model(batch["x"].to(device))
            right += (scores.argmax(1) == torch.arange(10).to(device)).sum().item()
    model.train()
    return right
def train(model, loader, valid_set, criterion, optimizer, device):
    for number, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        if number % 500 == 0:
            print(evaluate(model, valid_set, device))
# case: a table of loaders has one entry of features for each
import torch
def features(model, loader, device):
    total = torch.zeros(64, device=device)
    for x, _ in loader:
        with torch.no_grad():
            total += model(x.to(device)).sum(0)
    return total
def evaluate(model, loaders, device):
    model.eval()
    found = {}
    for name, loader in loaders.items():
        with torch.no_grad():
            found[name] = features(model, loader, device)
    return {name: values.mean().item() for name, values in found.items()}
# case: the loaders of a table are gone through one after the other
import torch
def evaluate(model, loaders, device):
    model.eval()
    found = []
    for loader in loaders.values():
        for x, _ in loader:
            with torch.no_grad():
                found.append(model(x.to(device)))  # expect: VF016
    return torch.cat(found).mean().item()
# case: unit tests of a few steps
import unittest
import torch
class TestAverage(unittest.TestCase):
    def test_average(self):
        model = torch.nn.Linear(32, 32).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(32).cuda()
            loss = model(x).sum()
            loss.backward(retain_graph=True)
            optimizer.step()
        self.assertTrue(torch.isfinite(loss))
# case: a training of the same steps
import torch
def train(loader, model, optimizer):
    for _ in loader:
        x = torch.randn(32).cuda()  # expect: VF015
        loss = model(x).sum()
        loss.backward(retain_graph=True)  # expect: VF007
        optimizer.step()  # expect: VF005
# case: a pattern is searched again after an error
import re
import torch
def measure(model, files, sizes):
    found = []
    for name in files:
        try:
            found.append((re.search(r"\d+", name).group(0), perplexity(model, name)))
        except torch.cuda.OutOfMemoryError:
            found.append((re.search(r"\d+", name).group(0), None))
    return found
# case: a base class evaluates with methods of the classes derived from it
import torch
class Evaluator:
    def run(self, loaders):
        with torch.no_grad():
            for name in loaders:
                self.evaluate_translation(name, loaders[name])
class Translator(Evaluator):
    def evaluate_translation(self, name, loader):
        self.encoder.eval()
        for x, y in loader:
            score = self.encoder(x.cuda())
            print(name, (score.argmax(1) == y.cuda()).sum().item())
# case: a base class evaluates so with gradients on
import torch
class Evaluator:
    def run(self, loaders):
        for name in loaders:
            self.evaluate_translation(name, loaders[name])
class Translator(Evaluator):
    def evaluate_translation(self, name, loader):
        self.encoder.eval()
        for x, y in loader:
            score = self.encoder(x.cuda())  # expect: VF003
            print(name, (score.argmax(1) == y.cuda()).sum().item())
# case: a softmax of results without a graph
import torch
from torch import nn
def evaluate(model, test_loader, device):
    model.eval()
    right = 0
    for x, y in test_loader:
        with torch.no_grad():
            scores = model(x.to(device))
        chances = nn.Softmax(dim=1)(scores)
        right += (chances.argmax(1) == y.to(device)).sum().item()
    return right
# case: a softmax of results with their graph
import torch
from torch import nn
def evaluate(model, test_loader, device):
    model.eval()
    right = 0
    for x, y in test_loader:
        scores = model(x.to(device))  # expect: VF003
        chances = nn.Softmax(dim=1)(scores)
        right += (chances.argmax(1) == y.to(device)).sum().item()
    return right
# case: networks in a table are on the CPU while their weights load
import torch
from nets import Clips
class Trainer:
    def build(self, streams, device):
        for stream in streams:
            stream["net"] = Clips(width=64)
            stream["net"].load_state_dict(torch.load(stream["file"]))
        for stream in streams:
            stream["net"].to(device)
# case: networks in a table are on the GPU while their weights load
import torch
from nets import Clips
class Trainer:
    def build(self, streams, device):
        for stream in streams:
            stream["net"] = Clips(width=64).to(device)
            stream["net"].load_state_dict(torch.load(stream["file"]))  # expect: VF010
# case: a class loads its own weights
import torch
from torch import nn
class Clips(nn.Module):
    @classmethod
    def from_file(cls, path, width):
        model = cls(width)
        model.load_state_dict(torch.load(path, map_location="cuda"))
        return model
# case: gradients are read in a comment alone
import torch
def train(net, loader, criterion, optimizer):
    for x, y in loader:
        criterion(net(x.cuda()), y.cuda()).backward()
        # print(net.head.weight.grad)
        optimizer.step()  # expect: VF005
