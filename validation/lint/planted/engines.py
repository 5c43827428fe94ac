# case: registry and config engine, hooks read outputs, loss meter gets tensors
import torch
from engine.config import load
from engine.registry import MODELS, OPTIMS, DATA

class Meter:
    def __init__(self):
        self.values = []

    def push(self, v):
        self.values.append(v)  # expect: VF001

class Engine:
    def __init__(self, cfg):
        self.model = MODELS.build(cfg.model).cuda()
        self.optim = OPTIMS.build(cfg.optim, params=self.model.parameters())
        self.data = DATA.build(cfg.data)
        self.meter = Meter()

    def run_step(self, batch):
        losses = self.model(batch["img"].cuda(), batch["gt"].cuda())
        loss = sum(losses.values())
        self.optim.zero_grad()  # expect: VF006
        loss.backward()
        self.optim.step()
        self.meter.push(loss)

    def run(self):
        for epoch in range(12):
            for batch in self.data:
                self.run_step(batch)

if __name__ == "__main__":
    Engine(load("cfg.yaml")).run()
# case: ignite-like engine with update and evaluation functions
import torch
from ignite.engine import Engine, Events
from nets import build

def create(cfg, train_dl, val_dl):
    net = build(cfg).to("cuda")
    opt = torch.optim.SGD(net.parameters(), cfg.lr)
    crit = torch.nn.CrossEntropyLoss()

    def update(engine, batch):
        net.train()
        opt.zero_grad()
        x, y = (b.to("cuda") for b in batch)
        loss = crit(net(x), y)
        loss.backward()
        opt.step()
        return loss.item()

    def infer(engine, batch):
        net.eval()
        x, y = (b.to("cuda") for b in batch)
        return net(x), y  # expect: VF003

    trainer, evaluator = Engine(update), Engine(infer)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda e: evaluator.run(val_dl))
    trainer.run(train_dl, max_epochs=cfg.epochs)
# case: LightningModule that stores losses of steps
import lightning as L
import torch

class LitSegmenter(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.train_losses = []
        self.val_scores = []

    def training_step(self, batch, idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.train_losses.append(loss)  # expect: VF001
        return loss

    def validation_step(self, batch, idx):
        x, y = batch
        iou = (self.net(x).argmax(1) == y).float().mean()
        self.val_scores.append(iou.item())

    def on_validation_epoch_end(self):
        self.log("iou", sum(self.val_scores) / len(self.val_scores))
        self.val_scores.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)
# case: LightningModule with outputs cleared each epoch, clean
import pytorch_lightning as pl
import torch
from torch import nn

class AutoEncoder(pl.LightningModule):
    def __init__(self, d):
        super().__init__()
        self.enc, self.dec = nn.Linear(784, d), nn.Linear(d, 784)
        self.outs = []

    def training_step(self, batch, _):
        x = batch[0].flatten(1)
        loss = (self.dec(self.enc(x)) - x).pow(2).mean()
        self.log("train", loss)
        return loss

    def validation_step(self, batch, _):
        x = batch[0].flatten(1)
        self.outs.append((self.dec(self.enc(x)) - x).pow(2).mean().cpu())

    def on_validation_epoch_end(self):
        self.log("val", torch.stack(self.outs).mean())
        self.outs.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
# case: accelerate script with gathered predictions, clean
import torch
from accelerate import Accelerator
from transformers import AutoModelForSequenceClassification, get_scheduler

def main(train_dl, eval_dl, metric):
    acc = Accelerator(gradient_accumulation_steps=4)
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
    opt = torch.optim.AdamW(model.parameters(), 2e-5)
    sched = get_scheduler("linear", opt, 0, 1000)
    model, opt, train_dl, eval_dl, sched = acc.prepare(model, opt, train_dl, eval_dl, sched)
    for epoch in range(3):
        model.train()
        for batch in train_dl:
            with acc.accumulate(model):
                loss = model(**batch).loss
                acc.backward(loss)
                opt.step()
                sched.step()
                opt.zero_grad()
        model.eval()
        for batch in eval_dl:
            with torch.no_grad():
                pred = model(**batch).logits.argmax(-1)
            p, r = acc.gather_for_metrics((pred, batch["labels"]))
            metric.add_batch(predictions=p, references=r)
# case: DeepSpeed engine evaluates with its own step, forgotten no_grad
import deepspeed
import torch
from lm.model import build_model

def main(args, train_dl, val_dl):
    model = build_model(args)
    engine, optimizer, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    for step, batch in enumerate(train_dl):
        ids = batch.to(engine.device)
        loss = engine(ids, labels=ids).loss
        engine.backward(loss)
        engine.step()
        if step % 500 == 0:
            engine.eval()
            total = 0.0
            for vb in val_dl:
                vb = vb.to(engine.device)
                total += engine(vb, labels=vb).loss.item()  # expect: VF003
            engine.train()
            print(total / len(val_dl))
# case: callback-driven fastai-style learner, predictions kept on the device with graph in callbacks
import torch

class Callback:
    def before_fit(self, learn): pass
    def after_pred(self, learn): pass
    def after_batch(self, learn): pass

class CollectPreds(Callback):
    def before_fit(self, learn):
        self.preds = []

    def after_pred(self, learn):
        self.preds.append(learn.pred)  # expect: VF002

class Learner:
    def __init__(self, model, dls, loss_func, cbs, lr=1e-3):
        self.model = model.cuda()
        self.dls, self.loss_func, self.cbs = dls, loss_func, cbs
        self.opt = torch.optim.SGD(self.model.parameters(), lr)

    def __call__(self, name):
        for cb in self.cbs:
            getattr(cb, name)(self)

    def fit(self, n):
        self("before_fit")
        for _ in range(n):
            for xb, yb in self.dls.train:
                self.pred = self.model(xb.cuda())
                self("after_pred")
                self.loss = self.loss_func(self.pred, yb.cuda())
                self.loss.backward()
                self.opt.step()
                self.opt.zero_grad()
                self("after_batch")
# case: base trainer with abstract step, subclass computes the loss, clean
import abc
import torch
from omegaconf import OmegaConf

class BaseTrainer(abc.ABC):
    def __init__(self, cfg, model):
        self.cfg = cfg
        self.device = torch.device(cfg.device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), cfg.lr)

    @abc.abstractmethod
    def compute_loss(self, batch): ...

    def fit(self, loader):
        for epoch in range(self.cfg.epochs):
            running = 0.0
            for i, batch in enumerate(loader):
                loss = self.compute_loss(batch) / self.cfg.accum
                loss.backward()
                running += loss.detach()
                if (i + 1) % self.cfg.accum == 0 or i + 1 == len(loader):
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
            print(epoch, running.item())

class DepthTrainer(BaseTrainer):
    def compute_loss(self, batch):
        pred = self.model(batch["image"].to(self.device))
        return (pred - batch["depth"].to(self.device)).abs().mean()

if __name__ == "__main__":
    DepthTrainer(OmegaConf.load("depth.yaml"), torch.hub.load("isl-org/MiDaS", "MiDaS")).fit([])
# case: base trainer whose validation forgets no_grad and keeps probabilities
import torch

class Base:
    def __init__(self, net, loaders):
        self.net = net.to("cuda")
        self.train_loader, self.val_loader = loaders
        self.opt = torch.optim.Adam(self.net.parameters())

    def fit(self, epochs):
        for e in range(epochs):
            self.net.train()
            for b in self.train_loader:
                self.opt.zero_grad()
                self.step(b).backward()
                self.opt.step()
            self.net.eval()
            self.validate()

class Classifier(Base):
    def step(self, b):
        return torch.nn.functional.cross_entropy(self.net(b[0].to("cuda")), b[1].to("cuda"))

    def validate(self):
        probs = []
        for x, y in self.val_loader:
            p = self.net(x.to("cuda")).softmax(1)  # expect: VF003
            probs.append(p)  # expect: VF002
        self.auc = torch.cat(probs).max(1).values.mean().item()
# case: trainer state machine with mixed precision, clean
import torch
from torch.cuda.amp import GradScaler, autocast

class State:
    def __init__(self, **kw):
        self.__dict__.update(kw)

def phase(state, loader, train):
    state.model.train(train)
    losses, n = 0.0, 0
    with torch.set_grad_enabled(train):
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            if train:
                state.opt.zero_grad()
            with autocast():
                loss = state.crit(state.model(x), y)
            if train:
                state.scaler.scale(loss).backward()
                state.scaler.step(state.opt)
                state.scaler.update()
            losses += loss.item() * x.size(0)
            n += x.size(0)
    return losses / n

def main(model, loaders):
    model.cuda()
    s = State(model=model, crit=torch.nn.CrossEntropyLoss(), opt=torch.optim.SGD(model.parameters(), 0.1), scaler=GradScaler())
    for epoch in range(90):
        phase(s, loaders["train"], True)
        print(phase(s, loaders["val"], False))
# case: federated simulation keeps client models on the GPU with data moved up front
import copy
import torch
from fl.models import CNN
from fl.split import clients

def local(model, x, y, epochs):
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(epochs):
        for i in range(0, len(x), 32):
            opt.zero_grad()
            torch.nn.functional.cross_entropy(model(x[i : i + 32]), y[i : i + 32]).backward()
            opt.step()
    return {k: v.cpu() for k, v in model.state_dict().items()}

def server(rounds):
    model = CNN().cuda()
    for r in range(rounds):
        states = []
        for x, y in clients():
            states.append(local(copy.deepcopy(model), x.cuda(), y.cuda(), 5))  # expect: VF015
        model.load_state_dict({k: sum(s[k] for s in states) / len(states) for k in states[0]})
