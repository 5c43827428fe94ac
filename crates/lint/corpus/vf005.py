# case: zeroed in place
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)  # expect: VF005
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
# case: let go
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
# case: never
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()  # expect: VF005
# case: once before the loop
import torch
def train(model, loader, criterion, optimizer):
    optimizer.zero_grad()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()  # expect: VF005
# case: the model zeroes
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        model.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
# case: by hand
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        for p in model.parameters():
            p.grad = None
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
# case: in a helper of the file
import torch
def update(optimizer, loss):
    optimizer.zero_grad()  # expect: VF006
    loss.backward()
    optimizer.step()
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        update(optimizer, criterion(model(x), y))
# case: a step in a helper, and nobody zeroes
import torch
def update(optimizer, loss):
    loss.backward()
    optimizer.step()  # expect: VF005
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        update(optimizer, criterion(model(x), y))
# case: a closure
import torch
def fit(model, x, y, criterion, steps):
    optimizer = torch.optim.LBFGS(model.parameters())
    for step in range(steps):
        def closure():
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            return loss
        optimizer.step(closure)
# case: an engine zeroes by itself
import torch
import deepspeed
def train(model_engine, loader):
    for batch in loader:
        loss = model_engine(batch)
        model_engine.backward(loss)
        model_engine.step()
# case: a scaler steps and nobody zeroes
import torch
def train(model, loader, criterion, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)  # expect: VF005
        scaler.update()
# case: a schedule steps
import torch
def train(model, loader, criterion, optimizer, scheduler):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        scheduler.step()
# case: a step function whose caller is elsewhere
import torch
def train_step(model, batch, optimizer):
    loss = model(batch).loss
    loss.backward()
    optimizer.step()
    return loss.item()
# case: no backward pass in the loop
import torch
def anneal(optimizer, n):
    for _ in range(n):
        optimizer.step()
# case: one of two optimizers is never zeroed
import torch
def train(netG, netD, optimizer_G, optimizer_D, loader, bce_loss, z):
    while True:
        real = next(loader)
        optimizer_D.zero_grad()
        d_loss = bce_loss(netD(real), 1)
        d_loss.backward()
        optimizer_D.step()
        g_loss = bce_loss(netD(netG(z)), 1)
        g_loss.backward()
        optimizer_G.step()  # expect: VF005
