# case: a running total after backward
import torch
def train(model, loader, criterion, optimizer, device):
    total = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss  # expect: VF001
    return total / len(loader)
# case: the same with item
import torch
def train(model, loader, criterion, optimizer):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
# case: the same with detach
import torch
def train(model, loader, criterion, optimizer):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total
# case: total = total + loss
import torch
import torch.nn.functional as F
def train(model, loader, optimizer):
    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total = total + loss  # expect: VF001
    print(total)
# case: a list of losses
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(100):
    x = torch.randn(8, 4, device="cuda")
    y = torch.randn(8, 2, device="cuda")
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss)  # expect: VF001
# case: a list of numbers
import torch
from torch import nn
model = nn.Linear(4, 2)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(100):
    optimizer.zero_grad()
    loss = criterion(model(torch.randn(8, 4)), torch.randn(8, 2))
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
# case: through a dict
import torch
def fit(model, loader, loss_fn, optimizer):
    history = {"loss": [], "lr": []}
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        history["loss"].append(loss)  # expect: VF001
    return history
# case: through an attribute
import torch
class Runner:
    def __init__(self, model, loader, optimizer, criterion):
        self.model = model
        self.loader = loader
        self.optimizer = optimizer
        self.criterion = criterion
        self.running_loss = 0.0
    def run(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.running_loss += loss  # expect: VF001
# case: in a tuple
import torch
def train(model, loader, criterion, optimizer):
    log = []
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        log.append((i, loss))  # expect: VF001
    return log
# case: in a dict that goes into a list
import torch
def train(model, loader, criterion, optimizer):
    rows = []
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        rows.append({"step": i, "loss": loss})  # expect: VF001
    return rows
# case: after arithmetic
import torch
def train(model, loader, criterion, optimizer):
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss * x.size(0)  # expect: VF001
    return running
# case: moved to the CPU but not detached
import torch
def train(model, loader, criterion, optimizer):
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.cpu())  # expect: VF001
    return losses
# case: data is detached
import torch
def train(model, loader, criterion, optimizer):
    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.data
    return total
# case: losses summed up for one backward pass
import torch
def step(model, parts, criterion, optimizer):
    total = 0
    for x, y in parts:
        total += criterion(model(x), y)
    optimizer.zero_grad()  # expect: VF006
    total.backward()
    optimizer.step()
# case: losses of time steps summed up in every batch
import torch
def train(rnn, loader, criterion, optimizer):
    for x, y in loader:
        hidden = rnn.init_hidden()
        loss = 0
        optimizer.zero_grad()
        for t in range(x.size(1)):
            out, hidden = rnn(x[:, t], hidden)
            loss += criterion(out, y[:, t])
        loss.backward()
        optimizer.step()
# case: a list of losses stacked for backward
import torch
def train(model, tasks, criterion, optimizer, loader):
    for batch in loader:
        losses = []
        optimizer.zero_grad()
        for task in tasks:
            losses.append(criterion(model(batch, task), batch))
        torch.stack(losses).mean().backward()
        optimizer.step()
# case: mixed precision with a scaler
import torch
def train(model, loader, criterion, optimizer):
    scaler = torch.cuda.amp.GradScaler()
    epoch_loss = 0
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        epoch_loss += loss  # expect: VF001
    return epoch_loss
# case: an output of a Hugging Face model
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
optimizer = torch.optim.AdamW(model.parameters())
def train(train_dataloader):
    total_loss = 0
    for batch in train_dataloader:
        optimizer.zero_grad()
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()
        optimizer.step()
        total_loss += loss  # expect: VF001
    return total_loss
# case: accelerate, detached as its examples do
import torch
from accelerate import Accelerator
def train(model, optimizer, train_dataloader):
    accelerator = Accelerator()
    model, optimizer, train_dataloader = accelerator.prepare(model, optimizer, train_dataloader)
    total_loss = 0
    for batch in train_dataloader:
        optimizer.zero_grad()
        loss = model(**batch).loss
        total_loss += loss.detach().float()
        accelerator.backward(loss)
        optimizer.step()
# case: accelerate, with the graph
import torch
from accelerate import Accelerator
def train(model, optimizer, train_dataloader):
    accelerator = Accelerator()
    model, optimizer, train_dataloader = accelerator.prepare(model, optimizer, train_dataloader)
    total_loss = 0
    for batch in train_dataloader:
        optimizer.zero_grad()
        loss = model(**batch).loss
        total_loss += loss  # expect: VF001
        accelerator.backward(loss)
        optimizer.step()
# case: Lightning keeps it in an attribute
import torch
import pytorch_lightning as pl
import torch.nn.functional as F
class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
        self.losses = []
    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.losses.append(loss)  # expect: VF001
        return loss
# case: Lightning logs it
import torch
import pytorch_lightning as pl
import torch.nn.functional as F
class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss
# case: a Trainer subclass keeps it
from transformers import Trainer
class MyTrainer(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_history = []
    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(**inputs)
        loss = outputs.loss
        self.loss_history.append(loss)  # expect: VF001
        return (loss, outputs) if return_outputs else loss
# case: a Trainer subclass that only computes
from transformers import Trainer
class MyTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = self.loss_fn(outputs.logits, labels)
        return (loss, outputs) if return_outputs else loss
# case: two losses of a GAN
import torch
def train(netG, netD, optG, optD, loader, bce):
    G_losses, D_losses = [], []
    for real in loader:
        optD.zero_grad()
        fake = netG(torch.randn(8, 100, device=real.device))
        errD = bce(netD(real), 1) + bce(netD(fake.detach()), 0)
        errD.backward()
        optD.step()
        optG.zero_grad()
        errG = bce(netD(fake), 1)
        errG.backward()
        optG.step()
        G_losses.append(errG.item())
        D_losses.append(errD)  # expect: VF001
# case: once an epoch
import torch
def train(model, loader, criterion, optimizer, epochs):
    history = []
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        history.append(loss)  # expect: VF001
    return history
# case: what was added is told once
import torch
def train(model, loader, criterion, optimizer, epochs):
    history = []
    for epoch in range(epochs):
        total = 0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss  # expect: VF001
        history.append(total / len(loader))
    return history
# case: a helper of the file keeps it
import torch
history = []
def remember(loss):
    history.append(loss)  # expect: VF001
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        remember(loss)
# case: a helper of the file makes it
import torch
def compute(model, batch, criterion):
    x, y = batch
    return criterion(model(x), y)
def train(model, loader, criterion, optimizer):
    total = 0
    for batch in loader:
        optimizer.zero_grad()
        loss = compute(model, batch, criterion)
        loss.backward()
        optimizer.step()
        total += loss  # expect: VF001
# case: a helper of the file gives a number
import torch
def train_step(model, batch, criterion, optimizer):
    x, y = batch
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
def train(model, loader, criterion, optimizer):
    total = 0
    for batch in loader:
        total += train_step(model, batch, criterion, optimizer)
# case: evaluation under no_grad adds plain tensors
import torch
@torch.no_grad()
def evaluate(model, val_loader, criterion):
    model.eval()
    total = 0
    for x, y in val_loader:
        total += criterion(model(x), y)
    return total / len(val_loader)
# case: evaluation with the graph
import torch
def evaluate(model, val_loader, criterion):
    model.eval()
    total = 0
    for x, y in val_loader:
        out = model(x)  # expect: VF003
        total += criterion(out, y)  # expect: VF001
    return total / len(val_loader)
# case: a bounded window
import torch
from collections import deque
def train(model, loader, criterion, optimizer):
    window = deque(maxlen=100)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        window.append(loss)
# case: no PyTorch, no finding
import jax
def train(model, loader, criterion, optimizer):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
# case: distributed data parallel
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
def train(rank, net, train_loader, loss_fn):
    model = DDP(net.to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    epoch_loss = 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x.to(rank)), y.to(rank))
        loss.backward()
        optimizer.step()
        epoch_loss += loss  # expect: VF001
    return epoch_loss
# case: a table keyed by the step
import torch
def train(model, loader, criterion, optimizer):
    table = {}
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        table[step] = loss  # expect: VF001
    return table
# case: a meter of the file keeps it
import torch
class Meter:
    def __init__(self):
        self.sum = 0
        self.count = 0
    def update(self, value, n):
        self.sum += value * n  # expect: VF001
        self.count += n
def train(model, loader, criterion, optimizer):
    meter = Meter()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        meter.update(loss, x.size(0))
    return meter.sum / meter.count
# case: a meter of the file is given numbers
import torch
class Meter:
    def __init__(self):
        self.sum = 0
        self.count = 0
    def update(self, value, n):
        self.sum += value * n
        self.count += n
def train(model, loader, criterion, optimizer):
    meter = Meter()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        meter.update(loss.item(), x.size(0))
    return meter.sum / meter.count
# case: a loss of one's own that returns its parts as numbers
import torch
from torch import nn
class PartsLoss(nn.Module):
    def forward(self, prediction, target):
        first = nn.functional.mse_loss(prediction, target)
        second = nn.functional.l1_loss(prediction, target)
        return first + second, first.item(), second.item()
def train(model, loader, optimizer, device):
    criterion = PartsLoss().to(device)
    firsts, seconds = 0, 0
    for x, y in loader:
        optimizer.zero_grad()
        loss, first, second = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        firsts += first
        seconds += second
    return firsts, seconds
# case: a loss of one's own that returns its parts with their graphs
import torch
from torch import nn
class PartsLoss(nn.Module):
    def forward(self, prediction, target):
        first = nn.functional.mse_loss(prediction, target)
        return first * 2, first
def train(model, loader, optimizer, device):
    criterion = PartsLoss()
    firsts = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss, first = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        firsts += first  # expect: VF001
    return firsts
