# case: full precision on the GPU
import torch
def train(model, loader, criterion, optimizer):
    model.cuda()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())  # expect: VF012
        loss.backward()
        optimizer.step()
# case: under autocast
import torch
def train(model, loader, criterion, optimizer):
    model.cuda()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
# case: half without a scaler
import torch
def train(model, loader, criterion, optimizer):
    model = model.cuda().half()  # expect: VF012
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda().half()), y.cuda())
        loss.backward()
        optimizer.step()
# case: on the CPU
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
