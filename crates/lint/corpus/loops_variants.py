# case: exponential moving average of the loss with its graph
import torch
def train(model, loader, criterion, optimizer):
    smooth = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        smooth = 0.9 * smooth + 0.1 * loss  # expect: VF001
    return smooth

# case: setdefault and defaultdict
import torch
from collections import defaultdict
def train(model, loader, criterion, optimizer):
    logs, hist = defaultdict(list), {}
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        logs["loss"].append(loss)  # expect: VF001
        hist.setdefault("loss", []).append(loss)  # expect: VF001
    return logs

# case: the graph survives cpu and clone
import torch
def train(model, loader, criterion, optimizer):
    a, b = [], []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        a.append(loss.cpu())  # expect: VF001
        b.append(loss.clone())  # expect: VF001
    return a

# case: numbers by all ways
import torch
def train(model, loader, criterion, optimizer):
    a, b, c, d, total, t2 = [], [], [], [], 0.0, 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        a.append(loss.item())
        b.append(float(loss))
        c.append(loss.detach().cpu().numpy())
        d.append(f"{loss:.3f}")
        total += loss.data
        t2 += loss.detach()
        print(loss, loss.item())
    return a

# case: loss rebound to a number before it is kept
import torch
def train(model, loader, criterion, optimizer):
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        loss = loss.item()
        losses.append(loss)
    return losses

# case: detached losses still grow on the GPU
import torch
def train(model, loader, criterion, optimizer):
    losses, accs = [], []
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # expect: VF016
        accs.append((out.argmax(1) == y).float().mean())  # expect: VF016
    return losses

# case: list addition, extend, insert, store by step
import torch
def train(model, loader, criterion, optimizer):
    a, b, c, table = [], [], [], {}
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        a += [loss]  # expect: VF001
        b.extend([loss])  # expect: VF001
        c.insert(0, loss)  # expect: VF001
        table[step] = loss  # expect: VF001

# case: global accumulator
import torch
total = 0
def train(model, loader, criterion, optimizer):
    global total
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        total += loss  # expect: VF001

# case: bounded by hand
import torch
def train(model, loader, criterion, optimizer):
    recent = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        recent.append(loss.detach())
        if len(recent) > 20:
            recent.pop(0)

# case: bounded by slicing
import torch
def train(model, loader, criterion, optimizer):
    recent = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        recent.append(loss.detach())
        recent = recent[-20:]

# case: two heads: loss dict summed, each kept
import torch
def train(model, loader, optimizer):
    sums = {"cls": 0.0, "box": 0.0}
    for images, targets in loader:
        loss_dict = model(images, targets)
        losses = sum(loss for loss in loss_dict.values())
        optimizer.zero_grad()  # expect: VF006
        losses.backward()
        optimizer.step()
        for k, v in loss_dict.items():
            sums[k] += v  # expect: VF001

# case: two heads: numbers
import torch
def train(model, loader, optimizer):
    sums = {"cls": 0.0, "box": 0.0}
    for images, targets in loader:
        optimizer.zero_grad()
        loss_dict = model(images, targets)
        losses = sum(loss for loss in loss_dict.values())
        losses.backward()
        optimizer.step()
        for k, v in loss_dict.items():
            sums[k] += v.item()

# case: phases with set_grad_enabled
import torch
def fit(model, dataloaders, criterion, optimizer, device):
    for epoch in range(3):
        for phase in ["train", "val"]:
            model.train() if phase == "train" else model.eval()
            running_loss, running_corrects = 0.0, 0
            for inputs, labels in dataloaders[phase]:
                inputs, labels = inputs.to(device), labels.to(device)
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(preds == labels.data)

# case: evaluation called under the caller's no_grad
import torch
def evaluate(model, loader, device):
    model.eval()
    hits = 0
    for x, y in loader:
        hits += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
    return hits
def main(model, val_loader, device):
    with torch.no_grad():
        print(evaluate(model, val_loader, device))

# case: prediction of one input without a loop
import torch
from torchvision import models
model = models.resnet50(weights="DEFAULT").cuda()
model.eval()
def predict(image):
    with torch.no_grad():
        return model(image.cuda()).argmax()

# case: inference script without no_grad
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
tok = AutoTokenizer.from_pretrained("x")
model = AutoModelForSequenceClassification.from_pretrained("x").to("cuda")
model.eval()
for text in open("texts"):
    inputs = tok(text, return_tensors="pt").to("cuda")
    logits = model(**inputs).logits  # expect: VF003
    print(logits.argmax(-1).item())

# case: global switch
import torch
torch.set_grad_enabled(False)
def test(model, test_loader):
    model.eval()
    for x, y in test_loader:
        print(model(x.cuda()).argmax(1))

# case: gradients set to none by hand
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        for p in model.parameters():
            p.grad = None
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()

# case: zero_grad in a helper
import torch
def backward_and_step(loss, optimizer):
    optimizer.zero_grad()  # expect: VF006
    loss.backward()
    optimizer.step()
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        backward_and_step(loss, optimizer)

# case: positional False
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad(False)  # expect: VF005
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()

# case: only one of two optimizers is zeroed
import torch
def train(enc, dec, loader, criterion, opt_enc, opt_dec):
    for x, y in loader:
        opt_enc.zero_grad()
        loss = criterion(dec(enc(x.cuda())), y.cuda())
        loss.backward()
        opt_enc.step()
        opt_dec.step()  # expect: VF005

# case: empty_cache imported by name, in a helper
import torch
from torch.cuda import empty_cache
def free():
    empty_cache()  # expect: VF009
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        free()

# case: empty_cache in evaluation or every epoch
import torch
def main(model, loader, val_loader, criterion, optimizer):
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
    torch.cuda.empty_cache()

# case: empty_cache in an OOM handler
import torch
def main(model, loader, criterion, optimizer):
    for x, y in loader:
        try:
            optimizer.zero_grad()
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
        except torch.OutOfMemoryError:
            print("skipped")
            torch.cuda.empty_cache()
            continue

# case: load into a model on the GPU, no map_location
import torch
from models import Net
model = Net().cuda()
model.load_state_dict(torch.load("best.pt"))  # expect: VF010
model.eval()

# case: map_location by lambda: to the CPU and to the GPU
import torch
from models import Net
model = Net().cuda()
model.load_state_dict(torch.load("best.pt", map_location=lambda storage, loc: storage))
model.load_state_dict(torch.load("b.pt", map_location=lambda storage, loc: storage.cuda(0)))  # expect: VF010

# case: recursion in the handler
import torch
def forward_chunked(model, x, chunk):
    try:
        return torch.cat([model(part) for part in x.split(chunk)])
    except RuntimeError as e:
        if "out of memory" in str(e) and chunk > 1:
            torch.cuda.empty_cache()
            return forward_chunked(model, x, chunk // 2)  # expect: VF011
        raise

# case: while loop that retries outside
import torch
def forward_chunked(model, x, chunk):
    while chunk > 0:
        try:
            return torch.cat([model(part) for part in x.split(chunk)])
        except torch.cuda.OutOfMemoryError:
            chunk //= 2
        torch.cuda.empty_cache()

# case: accumulation by early continue
import torch
def train(model, loader, criterion, optimizer, accum):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()  # expect: VF014
        if (i + 1) % accum != 0:
            continue
        optimizer.step()
        optimizer.zero_grad()

# case: accumulation by a named test
import torch
def train(model, loader, criterion, optimizer, accum):
    for i, (x, y) in enumerate(loader):
        is_update = (i + 1) % accum == 0
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()  # expect: VF014
        if is_update:
            optimizer.step()
            optimizer.zero_grad()

# case: micro-batches in an inner loop, not divided
import torch
def train(model, loader, criterion, optimizer, accum):
    for x, y in loader:
        optimizer.zero_grad()
        for xs, ys in zip(x.chunk(accum), y.chunk(accum)):
            loss = criterion(model(xs.cuda()), ys.cuda())
            loss.backward()  # expect: VF014
        optimizer.step()

# case: micro-batches in an inner loop, divided
import torch
def train(model, loader, criterion, optimizer, accum):
    for x, y in loader:
        optimizer.zero_grad()
        for xs, ys in zip(x.chunk(accum), y.chunk(accum)):
            loss = criterion(model(xs.cuda()), ys.cuda()) / accum
            loss.backward()
        optimizer.step()

# case: step rarely for logging is no accumulation
import torch
def train(model, loader, criterion, optimizer, scheduler):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        if i % 100 == 0:
            scheduler.step()
            print(loss.item())

# case: accumulation, modulo as truth
import torch
def train(model, loader, criterion, optimizer, n):
    for i, (x, y) in enumerate(loader, 1):
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()  # expect: VF014
        if not i % n:
            optimizer.step()
            optimizer.zero_grad()

# case: whole epochs gathered on the GPU
import torch
from torch.utils.data import DataLoader
def preload(train_loader):
    batches = [(x.cuda(), y.cuda()) for x, y in train_loader]  # expect: VF015
    return batches

# case: mask made on the CPU in the loop
import torch
def train(model, loader, criterion, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        mask = torch.ones(x.size(0), 77).bool().to(device)  # expect: VF015
        pos = torch.arange(77).to(device)  # expect: VF015
        optimizer.zero_grad()
        loss = criterion(model(x, pos, mask), y)
        loss.backward()
        optimizer.step()

# case: full data set sliced by permutation
import torch
def train(model, criterion, optimizer, train_x, train_y, batch_size):
    train_x = train_x.cuda()  # expect: VF015
    train_y = train_y.cuda()  # expect: VF015
    for epoch in range(10):
        perm = torch.randperm(train_x.size(0), device="cuda")
        for i in range(0, train_x.size(0), batch_size):
            idx = perm[i:i + batch_size]
            optimizer.zero_grad()
            loss = criterion(model(train_x[idx]), train_y[idx])
            loss.backward()
            optimizer.step()

# case: MAML inner loop: create_graph is used by the meta backward
import torch
import torch.nn.functional as F
from torch.func import functional_call
def maml(model, tasks, meta_opt, lr):
    for task in tasks:
        meta_opt.zero_grad()
        meta_loss = 0
        params = dict(model.named_parameters())
        for sx, sy, qx, qy in task:
            loss = F.mse_loss(functional_call(model, params, sx), sy)
            grads = torch.autograd.grad(loss, params.values(), create_graph=True)
            fast = {k: p - lr * g for (k, p), g in zip(params.items(), grads)}
            meta_loss = meta_loss + F.mse_loss(functional_call(model, fast, qx), qy)
        meta_loss.backward()
        meta_opt.step()

# case: create_graph in backward without use
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward(create_graph=True)  # expect: VF007
        optimizer.step()

# case: retain as long as needed
import torch
def train(model, loader, losses, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x.cuda())
        for i, fn in enumerate(losses):
            fn(out, y.cuda()).backward(retain_graph=i < len(losses) - 1)
        optimizer.step()

# case: Lightning manual optimization GAN
import torch
import lightning.pytorch as pl
class GAN(pl.LightningModule):
    def __init__(self, g, d):
        super().__init__()
        self.automatic_optimization = False
        self.g, self.d = g, d
    def training_step(self, batch, batch_idx):
        opt_g, opt_d = self.optimizers()
        real, _ = batch
        z = torch.randn(real.size(0), 100, device=self.device)
        fake = self.g(z)
        d_loss = self.loss(self.d(real), 1) + self.loss(self.d(fake.detach()), 0)
        opt_d.zero_grad()  # expect: VF006
        self.manual_backward(d_loss)
        opt_d.step()
        g_loss = self.loss(self.d(fake), 1)
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        self.log_dict({"g": g_loss, "d": d_loss})

# case: Lightning automatic: nothing to say
import torch
import torch.nn.functional as F
from pytorch_lightning import LightningModule
class M(LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.save_hyperparameters()
    def training_step(self, batch, _):
        x, y = batch
        out = self.net(x)
        loss = F.cross_entropy(out, y)
        self.log("loss", loss)
        return {"loss": loss, "n": len(x)}
    def test_step(self, batch, _):
        x, y = batch
        return {"pred": self.net(x).argmax(1)}

# case: PPO: rollouts under no_grad kept for the epoch, cleared afterwards
import torch
def ppo(env, policy, optimizer, updates, horizon, device):
    for update in range(updates):
        obs_buf, act_buf, logp_buf = [], [], []
        obs = env.reset()
        for t in range(horizon):
            with torch.no_grad():
                dist = policy(torch.as_tensor(obs, device=device))
                act = dist.sample()
                logp = dist.log_prob(act)
            obs_buf.append(obs)
            act_buf.append(act)
            logp_buf.append(logp)
            obs, _, _, _ = env.step(act.cpu().numpy())
        acts, logps = torch.stack(act_buf), torch.stack(logp_buf)
        for _ in range(4):
            optimizer.zero_grad()
            new = policy(torch.as_tensor(obs_buf, device=device)).log_prob(acts)
            loss = -(new - logps).exp().mean()
            loss.backward()
            optimizer.step()

# case: actor critic keeps values with graph past the update
import torch
def a2c(env, actor, critic, optimizer, steps):
    values_log = []
    obs = env.reset()
    for step in range(steps):
        s = torch.as_tensor(obs).float().cuda()
        probs, value = actor(s), critic(s)
        dist = torch.distributions.Categorical(probs)
        a = dist.sample()
        obs, r, done, _ = env.step(a.item())
        advantage = r - value
        loss = -dist.log_prob(a) * advantage.detach() + advantage.pow(2)
        optimizer.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()
        values_log.append(value)  # expect: VF002

# case: diffusion training with EMA model class and accumulation by accelerate
import torch
import torch.nn.functional as F
from accelerate import Accelerator
def main(unet, vae, noise_scheduler, optimizer, train_dataloader, ema, args):
    accelerator = Accelerator(gradient_accumulation_steps=args.gas)
    unet, optimizer, train_dataloader = accelerator.prepare(unet, optimizer, train_dataloader)
    vae.requires_grad_(False)
    train_loss = 0.0
    for step, batch in enumerate(train_dataloader):
        with accelerator.accumulate(unet):
            latents = vae.encode(batch["pixel_values"]).latent_dist.sample() * 0.18
            noise = torch.randn_like(latents)
            t = torch.randint(0, 1000, (latents.shape[0],), device=latents.device)
            noisy = noise_scheduler.add_noise(latents, noise, t)
            pred = unet(noisy, t).sample
            loss = F.mse_loss(pred.float(), noise.float())
            avg_loss = accelerator.gather(loss.repeat(8)).mean()
            train_loss += avg_loss.item() / args.gas
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            ema.step(unet.parameters())

# case: knowledge of attention maps kept through hooks
import torch
class Probe:
    def __init__(self, model):
        self.model = model
        self.acts = []
        model.layer4.register_forward_hook(self.hook)
    def hook(self, module, inp, out):
        self.acts.append(out)
    def train(self, loader, criterion, optimizer):
        for x, y in loader:
            self.acts.clear()
            optimizer.zero_grad()
            loss = criterion(self.model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()

# case: outputs gathered for an epoch metric in training
import torch
def train(model, loader, criterion, optimizer):
    for epoch in range(5):
        outs, ys = [], []
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x.cuda())
            loss = criterion(out, y.cuda())
            loss.backward()
            optimizer.step()
            outs.append(out)  # expect: VF002
            ys.append(y)
        print(auc(torch.cat(outs), torch.cat(ys)))

# case: torch.cat growing
import torch
def test(model, test_loader, device):
    preds = torch.tensor([], device=device)
    model.eval()
    with torch.no_grad():
        for x, y in test_loader:
            preds = torch.cat([preds, model(x.to(device))])  # expect: VF016
    return preds
