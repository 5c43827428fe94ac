# case: plain loop, list of losses averaged with torch.stack at epoch end
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

def fit(model, train_dl, epochs=3):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ce = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        epoch_losses = []
        for batch in train_dl:
            images, labels = batch["image"].cuda(), batch["label"].cuda()
            opt.zero_grad()
            logits = model(images)
            loss = ce(logits, labels)
            loss.backward()
            opt.step()
            epoch_losses.append(loss)  # expect: VF001
        print(torch.stack(epoch_losses).mean())

# case: AMP with scaler, running loss multiplied by batch size without item
import torch
from torch.cuda.amp import autocast, GradScaler

def train_one_epoch(model, loader, optimizer, criterion, device):
    scaler = GradScaler()
    running = 0.0
    seen = 0
    model.train()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            out = model(x)
            loss = criterion(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        running += loss * x.size(0)  # expect: VF001
        seen += x.size(0)
    return running / seen

# case: AMP correct
import torch
from torch.amp import autocast, GradScaler

scaler = GradScaler("cuda")
def train_one_epoch(model, loader, optimizer, criterion, device):
    running = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad(set_to_none=True)
        with autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        running += loss.item() * x.size(0)
    return running

# case: DCGAN, both losses logged with item, fake detached
import torch
import torch.nn as nn
import torch.optim as optim

def train_gan(netG, netD, dataloader, device, nz, num_epochs):
    criterion = nn.BCELoss()
    optD = optim.Adam(netD.parameters(), lr=2e-4)
    optG = optim.Adam(netG.parameters(), lr=2e-4)
    G_losses, D_losses = [], []
    for epoch in range(num_epochs):
        for i, data in enumerate(dataloader, 0):
            netD.zero_grad()
            real = data[0].to(device)
            b = real.size(0)
            label = torch.full((b,), 1.0, device=device)
            output = netD(real).view(-1)
            errD_real = criterion(output, label)
            errD_real.backward()
            noise = torch.randn(b, nz, 1, 1, device=device)
            fake = netG(noise)
            label.fill_(0.0)
            output = netD(fake.detach()).view(-1)
            errD_fake = criterion(output, label)
            errD_fake.backward()
            optD.step()
            netG.zero_grad()
            label.fill_(1.0)
            output = netD(fake).view(-1)
            errG = criterion(output, label)
            errG.backward()
            optG.step()
            G_losses.append(errG.item())
            D_losses.append((errD_real + errD_fake).item())

# case: DCGAN keeps the losses themselves
import torch
import torch.nn as nn
import torch.optim as optim

def train_gan(netG, netD, dataloader, device, nz, num_epochs):
    bce = nn.BCEWithLogitsLoss()
    optD = optim.Adam(netD.parameters(), lr=2e-4)
    optG = optim.Adam(netG.parameters(), lr=2e-4)
    history = {"g": [], "d": []}
    for epoch in range(num_epochs):
        for real, _ in dataloader:
            real = real.to(device)
            z = torch.randn(real.size(0), nz, device=device)
            fake = netG(z)
            d_real = netD(real)
            d_fake = netD(fake.detach())
            d_loss = bce(d_real, torch.ones_like(d_real)) + bce(d_fake, torch.zeros_like(d_fake))
            optD.zero_grad()  # expect: VF006
            d_loss.backward()
            optD.step()
            g_out = netD(fake)
            g_loss = bce(g_out, torch.ones_like(g_out))
            optG.zero_grad()
            g_loss.backward()
            optG.step()
            history["g"].append(g_loss)  # expect: VF001
            history["d"].append(d_loss)  # expect: VF001

# case: TBPTT with retain_graph instead of detach
import torch
import torch.nn as nn

def train(rnn, decoder, chunks, optimizer, loss_fn):
    hidden = None
    for inp, tgt in chunks:
        optimizer.zero_grad()
        out, hidden = rnn(inp, hidden)
        loss = loss_fn(decoder(out), tgt)
        loss.backward(retain_graph=True)  # expect: VF007
        optimizer.step()

# case: TBPTT done right: repackaged hidden
import torch
import torch.nn as nn

def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)

def train(model, corpus, optimizer, criterion, bptt, ntokens):
    model.train()
    total_loss = 0.0
    hidden = model.init_hidden(20)
    for batch, i in enumerate(range(0, corpus.size(0) - 1, bptt)):
        data, targets = corpus[i:i + bptt], corpus[i + 1:i + 1 + bptt].view(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output.view(-1, ntokens), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        total_loss += loss.item()

# case: RNN steps sum their loss within one sequence, then backward once
import torch
import torch.nn.functional as F

def train(cell, head, loader, optimizer, device):
    for seq, target in loader:
        seq, target = seq.to(device), target.to(device)
        optimizer.zero_grad()
        h = torch.zeros(seq.size(0), 128, device=device)
        loss = 0
        outs = []
        for t in range(seq.size(1)):
            h = cell(seq[:, t], h)
            outs.append(h)
            loss = loss + F.cross_entropy(head(h), target[:, t])
        loss.backward()
        optimizer.step()

# case: replay buffer keeps the online network's q values
import random
import torch
import torch.nn.functional as F

class Agent:
    def __init__(self, net, target_net, device):
        self.net = net.to(device)
        self.target_net = target_net.to(device)
        self.memory = []
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-4)
        self.device = device

    def run(self, env, steps):
        state = env.reset()
        for step in range(steps):
            s = torch.as_tensor(state, dtype=torch.float32, device=self.device)
            q = self.net(s)
            action = q.argmax().item()
            nxt, reward, done, _ = env.step(action)
            self.memory.append((s, q, reward, nxt))  # expect: VF002
            self.learn()
            state = env.reset() if done else nxt

    def learn(self):
        batch = random.sample(self.memory, 32)
        s = torch.stack([b[0] for b in batch])
        r = torch.tensor([b[2] for b in batch], device=self.device)
        q = self.net(s).max(1).values
        loss = F.smooth_l1_loss(q, r)
        self.optimizer.zero_grad()  # expect: VF006
        loss.backward()
        self.optimizer.step()

# case: replay buffer of numpy states, deque with maxlen, target under no_grad
import random
from collections import deque
import torch
import torch.nn.functional as F

def dqn(env, policy_net, target_net, optimizer, device, episodes, gamma=0.99):
    memory = deque(maxlen=10000)
    for ep in range(episodes):
        state, _ = env.reset()
        done = False
        while not done:
            with torch.no_grad():
                a = policy_net(torch.tensor(state, device=device)).argmax().item()
            nxt, r, done, _, _ = env.step(a)
            memory.append((state, a, r, nxt, done))
            state = nxt
            if len(memory) < 64:
                continue
            s, a, r, n, d = zip(*random.sample(memory, 64))
            s = torch.tensor(s, device=device)
            n = torch.tensor(n, device=device)
            r = torch.tensor(r, device=device)
            q = policy_net(s).max(1).values
            with torch.no_grad():
                target = r + gamma * target_net(n).max(1).values
            loss = F.mse_loss(q, target)
            optimizer.zero_grad()  # expect: VF006
            loss.backward()
            optimizer.step()

# case: REINFORCE: log probs of the episode are needed for its backward
import torch
from torch.distributions import Categorical

def reinforce(env, policy, optimizer, episodes):
    for ep in range(episodes):
        log_probs, rewards = [], []
        state, done = env.reset(), False
        while not done:
            probs = policy(torch.from_numpy(state).float().cuda())
            dist = Categorical(probs)
            action = dist.sample()
            log_probs.append(dist.log_prob(action))
            state, r, done, _ = env.step(action.item())
            rewards.append(r)
        returns = torch.tensor(rewards, device="cuda")
        loss = -(torch.stack(log_probs) * returns).sum()
        optimizer.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()

# case: DDP: reduced loss detached; validation under no_grad
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

def main(rank, model, train_loader, val_loader, epochs):
    model = DDP(model.cuda(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = torch.nn.CrossEntropyLoss().cuda(rank)
    for epoch in range(epochs):
        model.train()
        for images, target in train_loader:
            images, target = images.cuda(rank), target.cuda(rank)
            output = model(images)
            loss = criterion(output, target)
            reduced = loss.detach().clone()
            dist.all_reduce(reduced)
            optimizer.zero_grad()  # expect: VF006
            loss.backward()
            optimizer.step()
        validate(model, val_loader, criterion, rank)

@torch.no_grad()
def validate(model, val_loader, criterion, rank):
    model.eval()
    losses = []
    for images, target in val_loader:
        output = model(images.cuda(rank))
        losses.append(criterion(output, target.cuda(rank)).item())
    return sum(losses) / len(losses)

# case: Lightning module: outputs kept by hand on self
import torch
import torch.nn.functional as F
import lightning as L

class Lit(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.train_losses = []
        self.val_preds = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.train_losses.append(loss)  # expect: VF001
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.val_preds.append(self.net(x))  # expect: VF016
        return None

    def on_validation_epoch_end(self):
        preds = torch.cat(self.val_preds)
        self.log("m", preds.mean())

# case: Lightning module: step outputs cleared at epoch end and detached
import torch
import torch.nn.functional as F
import pytorch_lightning as pl

class Lit(pl.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.outs = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.outs.append(loss.item())
        self.log("train_loss", loss.detach(), prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("val_loss", loss)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

# case: Trainer subclass keeps logits in compute_loss
import torch
from transformers import Trainer

class MyTrainer(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.history = []

    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs.logits, labels)
        self.history.append(outputs.logits)  # expect: VF002
        return (loss, outputs) if return_outputs else loss

# case: Trainer subclass keeps the loss
import torch
from transformers import Trainer

class WeightedTrainer(Trainer):
    losses = []
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        loss = outputs.loss * self.weight
        self.losses.append(loss)  # expect: VF001
        return (loss, outputs) if return_outputs else loss

# case: Accelerate with accumulate: right
import torch
from accelerate import Accelerator

def main(model, optimizer, train_dataloader, eval_dataloader, scheduler):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    model, optimizer, train_dataloader, eval_dataloader = accelerator.prepare(model, optimizer, train_dataloader, eval_dataloader)
    for epoch in range(3):
        model.train()
        total_loss = 0
        for batch in train_dataloader:
            with accelerator.accumulate(model):
                outputs = model(**batch)
                loss = outputs.loss
                total_loss += loss.detach().float()
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        model.eval()
        for batch in eval_dataloader:
            with torch.no_grad():
                outputs = model(**batch)
            predictions = outputs.logits.argmax(dim=-1)

# case: Accelerate evaluation without no_grad, gathered predictions kept on the GPU
import torch
from accelerate import Accelerator

accelerator = Accelerator()
def evaluate(model, eval_dataloader):
    model, eval_dataloader = accelerator.prepare(model, eval_dataloader)
    model.eval()
    samples_seen = 0
    correct = 0
    for step, batch in enumerate(eval_dataloader):
        outputs = model(**batch)  # expect: VF003
        predictions = outputs.logits.argmax(dim=-1)
        predictions, references = accelerator.gather_for_metrics((predictions, batch["labels"]))
        correct += (predictions == references).sum().item()
    return correct

# case: GNN full batch: data on the GPU as a whole, no loader
import torch
import torch.nn.functional as F
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import GCNConv

dataset = Planetoid(root=".", name="Cora")
device = torch.device("cuda")
data = dataset[0].to(device)
model = GCNConv(dataset.num_features, dataset.num_classes).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def train():
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.nll_loss(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return loss

@torch.no_grad()
def test():
    model.eval()
    return model(data.x, data.edge_index).argmax(-1)

for epoch in range(200):
    loss = train()
    acc = test()
    print(float(loss), acc)

# case: GNN test without no_grad
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv

def train(model, data, optimizer):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.nll_loss(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return float(loss)

def test(model, data):
    model.eval()
    pred = model(data.x, data.edge_index).argmax(dim=1)  # expect: VF003
    return (pred[data.test_mask] == data.y[data.test_mask]).float().mean().item()
