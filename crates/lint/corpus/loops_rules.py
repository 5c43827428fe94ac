# case: accumulation without division
import torch

def train(model, loader, criterion, optimizer, accum=8):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()  # expect: VF014
        if (i + 1) % accum == 0 or (i + 1) == len(loader):
            optimizer.step()
            optimizer.zero_grad()

# case: accumulation right, partial group carried over into the next epoch
import torch

def train(model, loader, criterion, optimizer, epochs, accum=8):
    optimizer.zero_grad()
    n = 0
    for epoch in range(epochs):
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda()) / accum
            loss.backward()
            n += 1
            if n % accum == 0:
                optimizer.step()
                optimizer.zero_grad()

# case: accumulation: the last partial group is zeroed away each epoch
import torch

def train(model, loader, criterion, optimizer, epochs, accum_steps):
    for epoch in range(epochs):
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x.cuda()), y.cuda()) / accum_steps
            loss.backward()
            if (i + 1) % accum_steps == 0:
                optimizer.step()  # expect: VF014
                optimizer.zero_grad()

# case: accumulation: step on each micro-batch
import torch

def train(model, loader, criterion, optimizer, accumulation_steps=4):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x.cuda()), y.cuda()) / accumulation_steps
        loss.backward()
        optimizer.step()  # expect: VF014
        if (i + 1) % accumulation_steps == 0:
            optimizer.zero_grad()

# case: accumulation with scaler, divided inside the backward
import torch

def train(model, loader, criterion, optimizer, scaler, args):
    for step, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = criterion(model(x.cuda()), y.cuda())
        scaler.scale(loss / args.grad_accum).backward()
        if (step + 1) % args.grad_accum == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)

# case: empty_cache each iteration and each epoch
import gc
import torch

def train(model, loader, criterion, optimizer, epochs):
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
            del loss
            torch.cuda.empty_cache()  # expect: VF009
        gc.collect()

# case: empty_cache between folds
import torch
from sklearn.model_selection import KFold

def cross_validate(make_model, dataset, make_loader, criterion):
    for fold, (tr, va) in enumerate(KFold(5).split(dataset)):
        model = make_model().cuda()
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in make_loader(dataset, tr):
            optimizer.zero_grad()
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
        del model, optimizer
        torch.cuda.empty_cache()

# case: retry in the except block
import torch

def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        try:
            loss = run(model, criterion, x.cuda(), y.cuda())
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            half = x.size(0) // 2
            loss = run(model, criterion, x[:half].cuda(), y[:half].cuda())  # expect: VF011
        optimizer.step()

def run(model, criterion, x, y):
    loss = criterion(model(x), y)
    loss.backward()
    return loss

# case: retry after the except block
import torch

def train(model, loader, criterion, optimizer):
    for x, y in loader:
        oom = False
        optimizer.zero_grad()
        try:
            run(model, criterion, x.cuda(), y.cuda())
        except RuntimeError as e:
            if "out of memory" not in str(e):
                raise
            oom = True
        if oom:
            torch.cuda.empty_cache()
            for xs, ys in zip(x.chunk(2), y.chunk(2)):
                run(model, criterion, xs.cuda(), ys.cuda())
        optimizer.step()

def run(model, criterion, x, y):
    loss = criterion(model(x), y)
    loss.backward()  # expect: VF014

# case: checkpoint onto the device, cpu fine
import torch

def resume(model, optimizer, path, device):
    model.to(device)
    ckpt = torch.load(path, map_location=device)  # expect: VF010
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optimizer"])
    model.cuda()

def resume_cpu(model, path):
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state)
    return model.cuda()

# case: val loader of the whole set; test loader of twice the training batch
import torch
from torch.utils.data import DataLoader

def loaders(train_ds, val_ds, test_ds):
    train_loader = DataLoader(train_ds, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_ds, batch_size=len(val_ds))  # expect: VF004
    test_loader = DataLoader(test_ds, batch_size=64)
    return train_loader, val_loader, test_loader

# case: test loader of 1000 beside 32
import argparse
import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--test-batch-size", type=int, default=1000)
args = parser.parse_args()
train_loader = DataLoader(train_set, batch_size=args.batch_size)
test_loader = DataLoader(test_set, batch_size=args.test_batch_size)  # expect: VF004

# case: noise made on the CPU in the loop
import torch

def train(G, D, loader, opt_g, opt_d, device, nz):
    for real in loader:
        real = real.to(device)
        z = torch.randn(real.size(0), nz).to(device)  # expect: VF015
        fake = G(z)
        loss_d = torch.relu(1 - D(real)).mean() + torch.relu(1 + D(fake.detach())).mean()
        opt_d.zero_grad()  # expect: VF006
        loss_d.backward()
        opt_d.step()
        loss_g = -D(fake).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()

# case: whole data set on the GPU
import torch
from torch.utils.data import TensorDataset, DataLoader

X_train = torch.load("x.pt")
y_train = torch.load("y.pt")
ds = TensorDataset(X_train.cuda(), y_train.cuda())  # expect: VF015
loader = DataLoader(ds, batch_size=64)

# case: validation loop without no_grad inside the training function
import torch

def fit(model, train_loader, valid_loader, criterion, optimizer, epochs, device):
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        valid_loss = 0.0
        for x, y in valid_loader:
            x, y = x.to(device), y.to(device)
            output = model(x)  # expect: VF003
            valid_loss += criterion(output, y)  # expect: VF001
        print(valid_loss / len(valid_loader))

# case: evaluation function decorated
import torch

@torch.inference_mode()
def evaluate(model, loader, criterion, device):
    model.eval()
    total, n = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        total += criterion(model(x), y) * x.size(0)
        n += x.size(0)
    return (total / n).item()

# case: gradient penalty: create_graph used by the following backward
import torch

def critic_step(D, real, fake, opt, lam=10.0):
    alpha = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    inter = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    out = D(inter)
    g = torch.autograd.grad(out.sum(), inter, create_graph=True)[0]
    gp = ((g.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
    loss = D(fake).mean() - D(real).mean() + lam * gp
    opt.zero_grad()  # expect: VF006
    loss.backward()
    opt.step()
    return loss.item()

def train(D, G, loader, opt, nz):
    for real in loader:
        real = real.cuda()
        with torch.no_grad():
            fake = G(torch.randn(real.size(0), nz, 1, 1, device="cuda"))
        critic_step(D, real, fake, opt)

# case: two losses through one graph: retain on the first
import torch

def train(model, loader, opt, ce, aux):
    for x, y in loader:
        opt.zero_grad()
        feats = model(x.cuda())
        l1 = ce(feats, y.cuda())
        l2 = aux(feats)
        l1.backward(retain_graph=True)
        l2.backward()
        opt.step()

# case: retain_graph on both although the second is the last
import torch

def train(model, loader, opt, ce):
    for x, y in loader:
        opt.zero_grad()
        out = model(x.cuda())
        loss = ce(out, y.cuda())
        loss.backward(retain_graph=True)  # expect: VF007
        opt.step()

# case: dict log of tensors appended
import torch

def train(model, loader, criterion, optimizer):
    logs = []
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        out = model(x.cuda())
        loss = criterion(out, y.cuda())
        loss.backward()
        optimizer.step()
        logs.append({"step": step, "loss": loss})  # expect: VF001
    return logs

# case: features kept on self for plotting
import torch

class Runner:
    def __init__(self, model, opt, crit):
        self.model, self.opt, self.crit = model, opt, crit
        self.features = []
        self.total = 0.0

    def train(self, loader):
        for x, y in loader:
            self.opt.zero_grad()
            feats = self.model(x.cuda())
            loss = self.crit(feats, y.cuda())
            loss.backward()
            self.opt.step()
            self.features.append(feats)  # expect: VF002
            self.total = self.total + loss  # expect: VF001

# case: best loss kept for comparison: replaced, not grown
import torch

def train(model, loader, criterion, optimizer):
    best = float("inf")
    last = None
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        if loss < best:
            best = loss.item()
        last = loss
    return best, last

# case: no torch: numpy training
import numpy as np

def train(model, loader, optimizer, criterion):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
    return total
