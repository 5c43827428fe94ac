# case: a growing list of predictions
import torch
@torch.no_grad()
def evaluate(model, val_loader, device):
    model.eval()
    predictions = []
    for x, y in val_loader:
        out = model(x.to(device))
        predictions.append(out.argmax(1))  # expect: VF016
    return torch.cat(predictions)
# case: moved to the CPU
import torch
@torch.no_grad()
def evaluate(model, val_loader, device):
    predictions = []
    for x, y in val_loader:
        out = model(x.to(device))
        predictions.append(out.argmax(1).cpu())
    return torch.cat(predictions)
# case: one tensor is added up
import torch
@torch.no_grad()
def evaluate(model, val_loader, device):
    correct = 0
    for x, y in val_loader:
        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
    return correct.item()
# case: numbers
import torch
@torch.no_grad()
def evaluate(model, val_loader, device):
    correct = []
    for x, y in val_loader:
        correct.append((model(x.to(device)).argmax(1) == y.to(device)).sum().item())
    return sum(correct)
# case: a list of counts
import torch
@torch.no_grad()
def evaluate(model, val_loader, device):
    correct = []
    for x, y in val_loader:
        correct.append((model(x.to(device)).argmax(1) == y.to(device)).sum())  # expect: VF016
    return torch.stack(correct).sum()
# case: detached losses of a training
import torch
def train(model, loader, criterion, optimizer, device):
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # expect: VF016
    return torch.stack(losses).mean()
# case: accuracies of a training
import torch
def train(model, loader, criterion, optimizer, device):
    hits = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        _, predicted = torch.max(out, 1)
        hits.append((predicted == y).float().mean())  # expect: VF016
    return torch.stack(hits).mean()
# case: numpy arrays
import torch
@torch.no_grad()
def predict(model, test_loader):
    all_outputs = []
    for x in test_loader:
        all_outputs.append(model(x.cuda()).cpu().numpy())
    return all_outputs
# case: on the CPU
import torch
@torch.no_grad()
def predict(model, test_loader):
    all_outputs = []
    for x in test_loader:
        all_outputs.append(model(x))
    return torch.cat(all_outputs)
# case: gathered by accelerate
import torch
from accelerate import Accelerator
accelerator = Accelerator()
def evaluate(model, eval_dataloader, batch_size):
    model.eval()
    losses = []
    for batch in eval_dataloader:
        with torch.no_grad():
            outputs = model(**batch)
        losses.append(accelerator.gather(outputs.loss.repeat(batch_size)))  # expect: VF016
    return torch.cat(losses).mean()
# case: Lightning's validation outputs
import torch
import lightning as L
class Lit(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.outputs = []
    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.outputs.append(self.net(x))  # expect: VF016
# case: a bounded window
import collections
import torch
def train(model, loader, criterion, optimizer):
    window = collections.deque(maxlen=20)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        window.append(loss.detach())
# case: emptied by a new list from time to time
import torch
@torch.no_grad()
def export(model, loader, device, write):
    model.eval()
    waiting, rows = [], torch.tensor([]).to(device)
    for number, x in enumerate(loader):
        out = model(x.to(device))
        waiting.append(out)
        rows = torch.cat((rows, out))
        if number % 8 == 7:
            write(waiting, rows)
            waiting = []
            rows = torch.tensor([], dtype=torch.float).to(device)
# case: a new list for each epoch does not empty the one of the batches
import torch
@torch.no_grad()
def evaluate(model, val_loader, device, epochs):
    model.eval()
    kept = []
    for epoch in range(epochs):
        kept = []
        for x, y in val_loader:
            kept.append(model(x.to(device)))  # expect: VF016
    return kept
