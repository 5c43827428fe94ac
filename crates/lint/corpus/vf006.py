# case: between forward and backward
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()
# case: at the top
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
# case: after the step
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
# case: between the model and the loss
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        out = model(x)
        optimizer.zero_grad()  # expect: VF006
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
# case: a loss from elsewhere
import torch
from mine import compute_loss
def train(model, loader, optimizer):
    for batch in loader:
        loss = compute_loss(model, batch)
        optimizer.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()
# case: twice, the first in time
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
# case: a GAN's second optimizer
import torch
def train(G, D, opt_G, opt_D, loader, bce):
    for real in loader:
        opt_D.zero_grad()
        z = torch.randn(8, 64, device=real.device)
        fake = G(z)
        d_loss = bce(D(real), 1) + bce(D(fake.detach()), 0)
        d_loss.backward()
        opt_D.step()
        g_loss = bce(D(fake), 1)
        opt_G.zero_grad()
        g_loss.backward()
        opt_G.step()
# case: with a scaler
import torch
def train(model, loader, criterion, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        optimizer.zero_grad()  # expect: VF006
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
# case: a step in a function of its own
import torch
def train_step(model, x, y, criterion, optimizer):
    loss = criterion(model(x), y)
    optimizer.zero_grad()  # expect: VF006
    loss.backward()
    optimizer.step()
    return loss.item()
# case: one step at the module's level
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(3, 4)).sum()
optimizer.zero_grad()
loss.backward()
optimizer.step()
# case: the model's own zero_grad
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        out = model(x)
        loss = criterion(out, y)
        model.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()
