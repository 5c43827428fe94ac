# case: the plain loop
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)  # expect: VF008
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
# case: let go
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        del out, loss
# case: a step in a function
import torch
def step(model, x, y, criterion, optimizer):
    optimizer.zero_grad()
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        step(model, x, y, criterion, optimizer)
# case: a loop that counts
import torch
def train(model, x, y, criterion, optimizer):
    for step in range(100):
        optimizer.zero_grad()
        logits = model(x)  # expect: VF008
        loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
