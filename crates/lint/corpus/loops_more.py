# case: segmentation: dice scores as tensors in a list, loss in a meter dict
import torch
import torch.nn as nn
class SegTrainer:
    def __init__(self, net, loaders, device):
        self.net = net.to(device)
        self.loaders = loaders
        self.device = device
        self.opt = torch.optim.Adam(self.net.parameters(), 1e-4)
        self.bce = nn.BCEWithLogitsLoss()
        self.meters = {"loss": [], "dice": []}
    def step(self, batch):
        img, mask = batch["image"].to(self.device), batch["mask"].to(self.device)
        pred = self.net(img)  # expect: VF003
        return self.bce(pred, mask), pred
    def epoch(self):
        self.net.train()
        for batch in self.loaders["train"]:
            self.opt.zero_grad()
            loss, pred = self.step(batch)
            loss.backward()
            self.opt.step()
            self.meters["loss"].append(loss)  # expect: VF001
    def validate(self):
        self.net.eval()
        for batch in self.loaders["val"]:
            loss, pred = self.step(batch)
            self.meters["dice"].append(loss.item())

# case: the same class, validated right
import torch
import torch.nn as nn
class SegTrainer:
    def __init__(self, net, loaders, device):
        self.net = net.to(device)
        self.loaders = loaders
        self.device = device
        self.opt = torch.optim.Adam(self.net.parameters(), 1e-4)
        self.bce = nn.BCEWithLogitsLoss()
        self.history = []
    def step(self, batch):
        img, mask = batch["image"].to(self.device), batch["mask"].to(self.device)
        pred = self.net(img)
        return self.bce(pred, mask), pred
    def epoch(self):
        self.net.train()
        total = 0.0
        for batch in self.loaders["train"]:
            self.opt.zero_grad()
            loss, pred = self.step(batch)
            loss.backward()
            self.opt.step()
            total += loss.item()
        self.history.append(total)
    @torch.no_grad()
    def validate(self):
        self.net.eval()
        total = 0.0
        for batch in self.loaders["val"]:
            loss, _ = self.step(batch)
            total += loss
        return total

# case: module level script, MNIST style
import torch
import torch.nn.functional as F
from torchvision import datasets, transforms
train_loader = torch.utils.data.DataLoader(datasets.MNIST(".", train=True, transform=transforms.ToTensor()), batch_size=64)
test_loader = torch.utils.data.DataLoader(datasets.MNIST(".", train=False, transform=transforms.ToTensor()), batch_size=2048)  # expect: VF004
device = "cuda"
model = torch.nn.Linear(784, 10).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    model.train()
    for x, y in train_loader:
        x, y = x.to(device).flatten(1), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    correct = 0
    for x, y in test_loader:
        x, y = x.to(device).flatten(1), y.to(device)
        correct += (model(x).argmax(1) == y).sum().item()  # expect: VF003
    print(correct)

# case: sequence to sequence with teacher forcing: outputs within a sequence
import random
import torch
def train_iter(encoder, decoder, src, tgt, enc_opt, dec_opt, criterion):
    enc_opt.zero_grad()
    dec_opt.zero_grad()
    out, hidden = encoder(src)
    loss = 0
    inp = tgt[0]
    outputs = []
    for t in range(1, tgt.size(0)):
        pred, hidden = decoder(inp, hidden)
        outputs.append(pred)
        loss += criterion(pred, tgt[t])
        inp = tgt[t] if random.random() < 0.5 else pred.argmax(1)
    loss.backward()
    enc_opt.step()
    dec_opt.step()
    return loss.item() / tgt.size(0)
def train_iters(encoder, decoder, pairs, enc_opt, dec_opt, criterion):
    plot_losses = []
    total = 0
    for src, tgt in pairs:
        l = train_iter(encoder, decoder, src.cuda(), tgt.cuda(), enc_opt, dec_opt, criterion)
        total += l
        plot_losses.append(l)

# case: WGAN: critic steps in an inner loop
import torch
def train(G, D, loader, opt_g, opt_d, n_critic, nz):
    data = iter(loader)
    for it in range(10000):
        for _ in range(n_critic):
            real = next(data)[0].cuda()
            opt_d.zero_grad()
            with torch.no_grad():
                fake = G(torch.randn(real.size(0), nz, device="cuda"))
            loss_d = D(fake).mean() - D(real).mean()
            loss_d.backward()
            opt_d.step()
        opt_g.zero_grad()
        loss_g = -D(G(torch.randn(64, nz, device="cuda"))).mean()
        loss_g.backward()
        opt_g.step()
        if it % 100 == 0:
            print(loss_d.item(), loss_g.item())

# case: SAC update with several optimizers, nothing wrong but zeroing after the forward
import torch
import torch.nn.functional as F
class SAC:
    def __init__(self, actor, critic, target, buffer, device):
        self.actor, self.critic, self.target = actor.to(device), critic.to(device), target.to(device)
        self.actor_opt = torch.optim.Adam(self.actor.parameters())
        self.critic_opt = torch.optim.Adam(self.critic.parameters())
        self.buffer = buffer
    def update(self):
        s, a, r, n, d = self.buffer.sample(256)
        with torch.no_grad():
            na, logp = self.actor(n)
            target = r + (1 - d) * (self.target(n, na) - logp)
        self.critic_opt.zero_grad()
        critic_loss = F.mse_loss(self.critic(s, a), target)
        critic_loss.backward()
        self.critic_opt.step()
        self.actor_opt.zero_grad()
        pa, logp = self.actor(s)
        actor_loss = (logp - self.critic(s, pa)).mean()
        actor_loss.backward()
        self.actor_opt.step()
        return critic_loss.item(), actor_loss.item()
    def run(self, env, steps):
        for t in range(steps):
            self.update()

# case: SimSiam with metric history of cosine similarities
import torch
import torch.nn.functional as F
def train(model, loader, optimizer, device):
    sims = []
    for (x1, x2), _ in loader:
        x1, x2 = x1.to(device), x2.to(device)
        p1, p2, z1, z2 = model(x1, x2)
        loss = -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) * 0.5
        optimizer.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()
        sims.append(F.cosine_similarity(p1, z2).mean())  # expect: VF002

# case: gradient accumulation with no_sync in DDP
import contextlib
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
def train(model, loader, optimizer, criterion, rank, accum=4):
    model = DDP(model.to(rank), device_ids=[rank])
    optimizer.zero_grad(set_to_none=True)
    for i, (x, y) in enumerate(loader):
        is_last = (i + 1) % accum == 0
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss = criterion(model(x.to(rank)), y.to(rank)) / accum
            loss.backward()
        if is_last:
            optimizer.step()  # expect: VF014
            optimizer.zero_grad(set_to_none=True)

# case: test time augmentation: list within one batch is let go
import torch
@torch.no_grad()
def predict(model, loader, device, n=4):
    model.eval()
    results = []
    for x in loader:
        x = x.to(device)
        views = []
        for k in range(n):
            views.append(model(torch.rot90(x, k, (2, 3))))
        results.append(torch.stack(views).mean(0).cpu())
    return torch.cat(results)

# case: influence function: gradients at evaluation
import torch
def grads_of(model, loss_fn, test_loader, device):
    model.eval()
    params = [p for p in model.parameters() if p.requires_grad]
    out = []
    for x, y in test_loader:
        loss = loss_fn(model(x.to(device)), y.to(device))
        g = torch.autograd.grad(loss, params)
        out.append([t.cpu() for t in g])
    return out

# case: checkpointed resume: optimizer state too, onto the GPU by string
import torch
def resume(path, model, optimizer):
    model = model.to("cuda:0")
    checkpoint = torch.load(path, map_location="cuda:0")  # expect: VF010
    model.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"]

# case: checkpoint of numbers only
import torch
def load_stats(path):
    stats = torch.load(path, map_location="cuda")
    return stats["mean"], stats["std"]

# case: OOM handler that skips the batch and retries it on the CPU
import torch
def run(model, x):
    return model(x)
def serve(model, batches):
    model.eval()
    for x in batches:
        with torch.inference_mode():
            try:
                y = run(model, x.cuda())
            except torch.cuda.OutOfMemoryError:
                model.cpu()
                y = run(model, x.cpu())
            yield y.cpu()

# case: OOM handler as a decorator calls the function again
import functools
import torch
def retry_on_oom(fn):
    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            return fn(*args, **kwargs)  # expect: VF011
    return wrapped

# case: hidden state carried on self, detached
import torch
class Stateful:
    def __init__(self, rnn, head, opt, crit):
        self.rnn, self.head, self.opt, self.crit = rnn, head, opt, crit
        self.hidden = None
    def train(self, loader):
        for x, y in loader:
            self.opt.zero_grad()
            out, hidden = self.rnn(x.cuda(), self.hidden)
            self.hidden = tuple(h.detach() for h in hidden)
            loss = self.crit(self.head(out), y.cuda())
            loss.backward()
            self.opt.step()

# case: tensorboard and wandb get numbers
import torch
import wandb
from torch.utils.tensorboard import SummaryWriter
def train(model, loader, criterion, optimizer, device):
    writer = SummaryWriter()
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, step)
        wandb.log({"loss": loss.item()}, step=step)

# case: two phase trick: loss of the epoch summed in a tensor on purpose, detached
import torch
def train(model, loader, criterion, optimizer, device):
    epoch_loss = torch.zeros(1, device=device)
    n_correct = torch.zeros(1, device=device, dtype=torch.long)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.detach()
        n_correct += (out.argmax(1) == y).sum()
    return epoch_loss.item(), n_correct.item()

# case: in-place add to a tensor without detach
import torch
def train(model, loader, criterion, optimizer, device):
    epoch_loss = torch.zeros(1, device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        epoch_loss += loss  # expect: VF001
    return epoch_loss

# case: generator of predictions without no_grad
import torch
def predict(model, loader, device):
    model.eval()
    for x in loader:
        yield model(x.to(device)).cpu()  # expect: VF003

# case: fabric
import torch
from lightning.fabric import Fabric
def main(model, optimizer, dataloader):
    fabric = Fabric(accelerator="cuda")
    fabric.launch()
    model, optimizer = fabric.setup(model, optimizer)
    dataloader = fabric.setup_dataloaders(dataloader)
    losses = []
    for batch in dataloader:
        optimizer.zero_grad()
        loss = model(batch)
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss)  # expect: VF001

# case: evaluation during training every N steps, helper without no_grad
import torch
def evaluate(model, val_loader, criterion, device):
    total = 0.0
    for x, y in val_loader:
        total += criterion(model(x.to(device)), y.to(device)).item()  # expect: VF003
    return total
def train(model, loader, val_loader, criterion, optimizer, device):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        if i % 500 == 0:
            model.eval()
            evaluate(model, val_loader, criterion, device)
            model.train()

# case: k-fold training keeps scores only
import torch
from sklearn.model_selection import StratifiedKFold
def run(make, X, y, epochs):
    scores = []
    for fold, (a, b) in enumerate(StratifiedKFold(5).split(X, y)):
        model = make().cuda()
        opt = torch.optim.AdamW(model.parameters())
        crit = torch.nn.CrossEntropyLoss()
        for epoch in range(epochs):
            for i in range(0, len(a), 64):
                xb = torch.as_tensor(X[a[i:i + 64]]).cuda()
                yb = torch.as_tensor(y[a[i:i + 64]]).cuda()
                opt.zero_grad()
                loss = crit(model(xb), yb)
                loss.backward()
                opt.step()
        model.eval()
        with torch.no_grad():
            scores.append((model(torch.as_tensor(X[b]).cuda()).argmax(1).cpu().numpy() == y[b]).mean())
        torch.cuda.empty_cache()
    return scores

# case: gradient accumulation where the counter is a while condition
import torch
def train(model, batches, criterion, optimizer, accumulation_steps):
    step = 0
    model.zero_grad()
    while step < 1000:
        for x, y in batches:
            loss = criterion(model(x.cuda()), y.cuda())
            loss = loss / accumulation_steps
            loss.backward()
            step += 1
            if step % accumulation_steps == 0:
                optimizer.step()
                model.zero_grad()

# case: meta data only: a dataset class that loads lazily
import torch
from torch.utils.data import Dataset, DataLoader
class Images(Dataset):
    def __init__(self, files):
        self.files = files
        self.cache = {}
    def __getitem__(self, i):
        if i not in self.cache:
            self.cache[i] = torch.load(self.files[i])
        return self.cache[i]
    def __len__(self):
        return len(self.files)
loader = DataLoader(Images([]), batch_size=32)

# case: HF Trainer used plainly
from transformers import Trainer, TrainingArguments, AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
trainer = Trainer(model=model, args=TrainingArguments("out", fp16=True), train_dataset=None)
trainer.train()
metrics = trainer.evaluate()

# case: prediction_step override under no_grad of its own
import torch
from transformers import Trainer
class T(Trainer):
    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        with torch.no_grad():
            out = model(**inputs)
        return out.loss, out.logits, inputs["labels"]
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        out = model(**inputs)
        return (out.loss, out) if return_outputs else out.loss

# case: style transfer: the image is optimized, the network only scores
import torch
def transfer(cnn, img, target, steps):
    cnn.eval()
    img = img.cuda().requires_grad_(True)
    optimizer = torch.optim.LBFGS([img])
    run = [0]
    while run[0] < steps:
        def closure():
            optimizer.zero_grad()
            loss = ((cnn(img) - target) ** 2).mean()
            loss.backward()
            run[0] += 1
            return loss
        optimizer.step(closure)
    return img

# case: loss components in a namedtuple list
import torch
from collections import namedtuple
Row = namedtuple("Row", "step rec kl")
def train(vae, loader, optimizer):
    rows = []
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        rec, mu, logvar = vae(x.cuda())
        rec_loss = torch.nn.functional.mse_loss(rec, x.cuda())
        kl_loss = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
        loss = rec_loss + kl_loss
        loss.backward()
        optimizer.step()
        rows.append(Row(step, rec_loss, kl_loss))  # expect: VF001

# case: loss averaged over a group: accumulate then one backward
import torch
def train(model, tasks, optimizer, criterion):
    for epoch in range(10):
        optimizer.zero_grad()
        total = 0
        for x, y in tasks:
            total = total + criterion(model(x.cuda()), y.cuda())
        (total / len(tasks)).backward()
        optimizer.step()
