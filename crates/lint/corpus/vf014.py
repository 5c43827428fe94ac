# case: done right
import torch
def train(model, loader, criterion, optimizer, accum):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / accum
        loss.backward()
        if (i + 1) % accum == 0 or (i + 1) == len(loader):
            optimizer.step()
            optimizer.zero_grad()
# case: not divided
import torch
def train(model, loader, criterion, optimizer, accum):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()  # expect: VF014
        if (i + 1) % accum == 0 or (i + 1) == len(loader):
            optimizer.step()
            optimizer.zero_grad()
# case: divided in place
import torch
def train(model, loader, criterion, optimizer, accum):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss /= accum
        loss.backward()
        if (i + 1) % accum == 0 or i == len(loader) - 1:
            optimizer.step()
            optimizer.zero_grad()
# case: divided in the call
import torch
def train(model, loader, criterion, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        scaler.scale(loss / 4).backward()
        if (i + 1) % 4 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
# case: a step on every micro-batch
import torch
def train(model, loader, criterion, optimizer, accum_steps):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / accum_steps
        loss.backward()
        optimizer.step()  # expect: VF014
        if (i + 1) % accum_steps == 0:
            optimizer.zero_grad()
# case: the rest is lost every epoch
import torch
def train(model, loader, criterion, optimizer, accum, epochs):
    for epoch in range(epochs):
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / accum
            loss.backward()
            if (i + 1) % accum == 0:
                optimizer.step()  # expect: VF014
                optimizer.zero_grad()
# case: the rest goes into the next epoch
import torch
def train(model, loader, criterion, optimizer, accum, epochs):
    step = 0
    optimizer.zero_grad()
    for epoch in range(epochs):
        for x, y in loader:
            loss = criterion(model(x), y) / accum
            loss.backward()
            step += 1
            if step % accum == 0:
                optimizer.step()
                optimizer.zero_grad()
# case: the rest is stepped after the loop
import torch
def train(model, loader, criterion, optimizer, accum):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / accum
        loss.backward()
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()
# case: a GAN trains its generator every fifth time
import torch
def train(G, D, opt_G, opt_D, loader, n_critic):
    for i, real in enumerate(loader):
        opt_D.zero_grad()
        z = torch.randn(8, 64, device=real.device)
        d_loss = D(G(z).detach()).mean() - D(real).mean()
        d_loss.backward()
        opt_D.step()
        if i % n_critic == 0:
            opt_G.zero_grad()
            g_loss = -D(G(z)).mean()
            g_loss.backward()
            opt_G.step()
# case: accelerate divides by itself
from accelerate import Accelerator
def train(model, optimizer, loader, criterion):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = criterion(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
# case: micro-batches in an inner loop
import torch
def train(model, loader, criterion, optimizer, accum):
    for x, y in loader:
        optimizer.zero_grad()
        for part, target in zip(x.chunk(accum), y.chunk(accum)):
            loss = criterion(model(part), target) / accum
            loss.backward()
        optimizer.step()
# case: a plain loop that logs
import torch
def train(model, loader, criterion, optimizer):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if i % 10 == 0:
            print(loss.item())
