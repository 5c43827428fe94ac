# case: distillation: teacher forward with gradients
import torch
import torch.nn.functional as F

def distill(student, teacher, loader, optimizer, device, T=4.0):
    teacher.eval()
    student.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        t_logits = teacher(x)  # expect: VF003
        s_logits = student(x)
        loss = F.kl_div(F.log_softmax(s_logits / T, 1), F.softmax(t_logits / T, 1), reduction="batchmean")
        loss.backward()
        optimizer.step()

# case: distillation: frozen teacher, caller holds no_grad
import torch
import torch.nn.functional as F

def teacher_targets(teacher, x):
    return F.softmax(teacher(x), dim=1)

def distill(student, teacher, train_loader, optimizer, device):
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad_(False)
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)
        with torch.no_grad():
            targets = teacher_targets(teacher, x)
        loss = F.cross_entropy(student(x), targets)
        optimizer.zero_grad(set_to_none=True)  # expect: VF006
        loss.backward()
        optimizer.step()

# case: adversarial evaluation needs gradients
import torch
import torch.nn.functional as F

def fgsm_eval(model, test_loader, device, epsilon):
    model.eval()
    correct = 0
    for data, target in test_loader:
        data, target = data.to(device), target.to(device)
        data.requires_grad = True
        output = model(data)
        loss = F.nll_loss(output, target)
        model.zero_grad()
        loss.backward()
        adv = data + epsilon * data.grad.sign()
        with torch.no_grad():
            pred = model(adv).argmax(1)
        correct += (pred == target).sum().item()
    return correct

# case: PGD training: inner autograd.grad, outer backward
import torch
import torch.nn.functional as F

def pgd(model, x, y, eps, alpha, steps):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(steps):
        loss = F.cross_entropy(model(x + delta), y)
        grad, = torch.autograd.grad(loss, delta)
        delta = (delta + alpha * grad.sign()).clamp(-eps, eps).detach().requires_grad_(True)
    return delta.detach()

def train(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        delta = pgd(model, x, y, 8 / 255, 2 / 255, 7)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x + delta), y)
        loss.backward()
        optimizer.step()

# case: EMA update under no_grad; ema evaluated right
import copy
import torch

def train(model, loader, criterion, optimizer, decay=0.999):
    ema = copy.deepcopy(model)
    for p in ema.parameters():
        p.requires_grad_(False)
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for pe, p in zip(ema.parameters(), model.parameters()):
                pe.mul_(decay).add_(p, alpha=1 - decay)
    return ema

# case: contrastive queue: keys of the key encoder with grad enqueued
import torch
import torch.nn.functional as F

def moco(encoder_q, encoder_k, loader, optimizer, queue_size):
    queue = []
    for im_q, im_k in loader:
        im_q, im_k = im_q.cuda(), im_k.cuda()
        optimizer.zero_grad()
        q = F.normalize(encoder_q(im_q), dim=1)
        k = F.normalize(encoder_k(im_k), dim=1)
        l_pos = (q * k).sum(1, keepdim=True)
        logits = l_pos / 0.07
        loss = F.cross_entropy(logits, torch.zeros(logits.size(0), dtype=torch.long, device="cuda"))
        loss.backward()
        optimizer.step()
        queue.append(k)  # expect: VF002

# case: contrastive queue as a buffer written under no_grad
import torch
import torch.nn as nn
import torch.nn.functional as F

class MoCo(nn.Module):
    def __init__(self, q, k, K=65536, dim=128):
        super().__init__()
        self.encoder_q, self.encoder_k = q, k
        self.register_buffer("queue", torch.randn(dim, K))
        self.ptr = 0
        self.K = K

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        self.queue[:, self.ptr:self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        self._dequeue_and_enqueue(k)
        return torch.cat([l_pos, l_neg], dim=1) / 0.07

# case: metrics: counters as small tensors fine, list of predictions not
import torch

def evaluate(model, test_loader, device):
    model.eval()
    correct = torch.zeros((), device=device)
    all_preds = []
    with torch.inference_mode():
        for x, y in test_loader:
            x, y = x.to(device), y.to(device)
            pred = model(x).argmax(dim=1)
            correct += (pred == y).sum()
            all_preds.append(pred)  # expect: VF016
    return correct, torch.cat(all_preds)

# case: metrics: predictions on the CPU
import torch

def evaluate(model, test_loader, device):
    model.eval()
    preds, labels = [], []
    with torch.no_grad():
        for x, y in test_loader:
            preds.append(model(x.to(device)).softmax(-1).cpu())
            labels.append(y)
    return torch.cat(preds), torch.cat(labels)

# case: LBFGS closure zeroes inside
import torch

def fit(model, x, y, loss_fn):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1)
    history = []
    for i in range(50):
        def closure():
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            return loss
        loss = optimizer.step(closure)
        history.append(loss.item())

# case: LBFGS closure, losses kept
import torch

def fit(model, x, y, loss_fn):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1)
    history = []
    for i in range(50):
        def closure():
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            history.append(loss)  # expect: VF001
            return loss
        optimizer.step(closure)

# case: helper functions: the step returns its loss, caller adds it up
import torch

def train_step(model, batch, criterion, optimizer, device):
    x, y = batch
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

def train(model, loader, criterion, optimizer, device):
    total = 0.0
    for batch in loader:
        loss = train_step(model, batch, criterion, optimizer, device)
        total += loss  # expect: VF001
    return total / len(loader)

# case: helper returns a float
import torch

def train_step(model, batch, criterion, optimizer, device):
    x, y = (t.to(device) for t in batch)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return float(loss)

def train(model, loader, criterion, optimizer, device):
    total = 0.0
    history = []
    for batch in loader:
        value = train_step(model, batch, criterion, optimizer, device)
        total += value
        history.append(value)
    return total / len(loader)

# case: class trainer with self.*, the meter gets the tensor
import torch

class AverageMeter:
    def __init__(self):
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.sum += val * n  # expect: VF001
        self.count += n

class Trainer:
    def __init__(self, model, loader, lr):
        self.model = model.cuda()
        self.loader = loader
        self.criterion = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def run_epoch(self):
        meter = AverageMeter()
        self.model.train()
        for x, y in self.loader:
            x, y = x.cuda(), y.cuda()
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            meter.update(loss, x.size(0))
        return meter.sum / meter.count

# case: class trainer: the meter gets numbers
import torch

class AverageMeter:
    def __init__(self):
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

class Trainer:
    def __init__(self, model, loader, lr):
        self.model = model.cuda()
        self.loader = loader
        self.criterion = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def run_epoch(self):
        meter = AverageMeter()
        for x, y in self.loader:
            x, y = x.cuda(), y.cuda()
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            meter.update(loss.item(), x.size(0))
        return meter.sum / meter.count

# case: while loop, iterator by hand, never zeroes
import torch

def train(model, loader, optimizer, criterion, max_iters):
    it = iter(loader)
    n = 0
    while n < max_iters:
        try:
            x, y = next(it)
        except StopIteration:
            it = iter(loader)
            x, y = next(it)
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()  # expect: VF005
        n += 1

# case: zip of two loaders and tqdm, zeroed in place
import torch
from tqdm import tqdm

def train(model, source_loader, target_loader, optimizer, criterion, device):
    for (xs, ys), (xt, _) in tqdm(zip(source_loader, target_loader), total=len(source_loader)):
        xs, ys, xt = xs.to(device), ys.to(device), xt.to(device)
        optimizer.zero_grad(set_to_none=False)  # expect: VF005
        loss = criterion(model(xs), ys) + model(xt).var()
        loss.backward()
        optimizer.step()

# case: walrus in while, accumulated history
import torch

def train(model, stream, optimizer, loss_fn):
    history = []
    while (batch := stream.next_batch()) is not None:
        optimizer.zero_grad()
        if (loss := loss_fn(model(batch.x.cuda()), batch.y.cuda())) is None:
            continue
        loss.backward()
        optimizer.step()
        history.append(loss)  # expect: VF001

# case: comprehension over the test loader with gradients
import torch

def predict(model, test_loader, device):
    model.eval()
    outs = [model(x.to(device)) for x, _ in test_loader]  # expect: VF002, VF003
    return torch.cat(outs)

# case: match statement picks the loss
import torch
import torch.nn.functional as F

def train(model, loader, optimizer, kind):
    total = 0.0
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        out = model(x)
        match kind:
            case "mse":
                loss = F.mse_loss(out, y)
            case "l1":
                loss = F.l1_loss(out, y)
            case _:
                raise ValueError(kind)
        loss.backward()
        optimizer.step()
        total += loss  # expect: VF001
    return total

# case: async loop
import torch

async def train(model, source, optimizer, criterion):
    seen = []
    async for x, y in source:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        seen.append(loss)  # expect: VF001
