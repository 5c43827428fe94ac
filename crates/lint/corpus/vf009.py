# case: every step
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()  # expect: VF009
# case: every tenth step
import torch
def train(model, loader, criterion, optimizer):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if i % 10 == 0:
            torch.cuda.empty_cache()  # expect: VF009
# case: between folds
import torch
def cross_validate(make, folds, loader, criterion):
    for fold in folds:
        model = make()
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        del model, optimizer
        torch.cuda.empty_cache()
# case: in a handler of an out-of-memory error
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        try:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            continue
# case: after training
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    torch.cuda.empty_cache()
# case: imported by its name
import torch
from torch.cuda import empty_cache
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        empty_cache()  # expect: VF009
# case: in a helper
import gc
import torch
def tidy():
    gc.collect()
    torch.cuda.empty_cache()  # expect: VF009
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        tidy()
# case: in an evaluation
import torch
@torch.no_grad()
def evaluate(model, test_loader):
    for x, y in test_loader:
        print(model(x).mean().item())
        torch.cuda.empty_cache()
# case: Lightning's training step
import torch
import lightning as L
class Lit(L.LightningModule):
    def training_step(self, batch, batch_idx):
        loss = self(batch).mean()
        torch.cuda.empty_cache()  # expect: VF009
        return loss
# case: once an epoch
import torch
def train(model, loader, criterion, optimizer, epochs):
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        torch.cuda.empty_cache()
