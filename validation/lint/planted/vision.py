# case: detector fine-tuning, dictionary of losses accumulated with update
import torch
from torchvision.models.detection import fasterrcnn_resnet50_fpn
from coco import loader

def main():
    det = fasterrcnn_resnet50_fpn(num_classes=4).cuda()
    opt = torch.optim.SGD([p for p in det.parameters() if p.requires_grad], 5e-3, 0.9)
    logbook = {}
    for step, (imgs, targets) in enumerate(loader()):
        imgs = [i.cuda() for i in imgs]
        targets = [{k: v.cuda() for k, v in t.items()} for t in targets]
        parts = det(imgs, targets)
        total = sum(parts.values())
        opt.zero_grad(set_to_none=True)  # expect: VF006
        total.backward()
        opt.step()
        logbook.update({step: total})  # expect: VF001
    return logbook
# case: forward hooks store feature maps over the validation set
import torch
from torchvision.models import resnet50
from probe.data import val_dl

bank = []

def grab(module, args, output):
    bank.append(output.flatten(1))  # expect: VF016

net = resnet50(weights="DEFAULT").to("cuda").eval()
net.avgpool.register_forward_hook(grab)
with torch.no_grad():
    for img, _ in val_dl():
        net(img.to("cuda"))
torch.save(torch.cat(bank).cpu(), "bank.pt")
# case: face verification, checkpoint held while the network moves
import sys
import torch
from arcface import IResNet

def load(path):
    blob = torch.load(path)  # expect: VF010
    net = IResNet(100)
    net.load_state_dict(blob["backbone"])
    net = net.cuda()
    print("epoch", blob["epoch"])
    return net

def compare(net, a, b):
    net.eval()
    with torch.inference_mode():
        return torch.cosine_similarity(net(a.cuda()), net(b.cuda())).item()

if __name__ == "__main__":
    n = load(sys.argv[1])
    print(compare(n, torch.load("a.pt", map_location="cpu"), torch.load("b.pt", map_location="cpu")))
# case: MoCo queue as a buffer, zero_grad after forward
import torch
from torch import nn

class MoCo(nn.Module):
    def __init__(self, base, dim=128, K=65536, m=0.999):
        super().__init__()
        self.q, self.k = base(dim), base(dim)
        for a, b in zip(self.q.parameters(), self.k.parameters()):
            b.data.copy_(a.data)
            b.requires_grad = False
        self.m, self.K = m, K
        self.register_buffer("queue", nn.functional.normalize(torch.randn(dim, K), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        self.queue[:, self.ptr : self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.K

    def forward(self, xq, xk):
        q = nn.functional.normalize(self.q(xq), dim=1)
        with torch.no_grad():
            for a, b in zip(self.q.parameters(), self.k.parameters()):
                b.data = b.data * self.m + a.data * (1 - self.m)
            k = nn.functional.normalize(self.k(xk), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().detach()], 1)
        self.enqueue(k)
        return logits / 0.07

def train(model, loader, opt):
    model.cuda()
    for (a, b), _ in loader:
        logits = model(a.cuda(), b.cuda())
        loss = nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device="cuda"))
        opt.zero_grad()  # expect: VF006
        loss.backward()
        opt.step()
# case: perceptual loss network, gradients flow through it, clean
import torch
from torch import nn
from torchvision.models import vgg16

class Perceptual(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = vgg16(weights="DEFAULT").features[:16].eval()
        for p in self.f.parameters():
            p.requires_grad = False

    def forward(self, a, b):
        return nn.functional.l1_loss(self.f(a), self.f(b))

def train(sr, loader):
    sr, per = sr.cuda(), Perceptual().cuda()
    opt = torch.optim.Adam(sr.parameters(), 1e-4)
    avg = 0.0
    for lo, hi in loader:
        opt.zero_grad()
        out = sr(lo.cuda())
        loss = nn.functional.l1_loss(out, hi.cuda()) + 0.1 * per(out, hi.cuda())
        loss.backward()
        opt.step()
        avg = 0.9 * avg + 0.1 * loss.item()
# case: tracker with Kalman state, results kept on the CPU, clean
import torch
from track.net import SiamFC

class Tracker:
    def __init__(self, path):
        self.net = SiamFC()
        self.net.load_state_dict(torch.load(path, map_location=lambda s, l: s))
        self.net = self.net.cuda()
        self.net.eval()
        self.boxes = []

    @torch.no_grad()
    def init(self, img, box):
        self.kernel = self.net.feature(torch.from_numpy(img).cuda()[None])
        self.boxes = [box]

    @torch.no_grad()
    def update(self, img):
        resp = self.net.score(self.kernel, torch.from_numpy(img).cuda()[None])
        self.boxes.append(resp.flatten().argmax().item())
        return self.boxes[-1]
# case: knowledge-free pruning: sensitivity by magnitude, clean
import torch
from torch.nn.utils import prune

def sensitivity(net, test, grid):
    table = {}
    net.cuda()
    for name, mod in net.named_modules():
        if isinstance(mod, torch.nn.Conv2d):
            for r in grid:
                prune.l1_unstructured(mod, "weight", amount=r)
                table[name, r] = test(net)
                prune.remove(mod, "weight")
    return table
# case: image retrieval, gallery built on the device for matching once, clean
import torch
from reid.backbone import OSNet

@torch.no_grad()
def gallery(paths, read):
    net = OSNet().cuda().eval()
    rows = []
    for p in paths:
        rows.append(net(read(p).cuda()).squeeze(0).cpu())
    g = torch.stack(rows).cuda()
    return torch.nn.functional.normalize(g, dim=1)
# case: segmentation with deep supervision, gradients zeroed in place and outputs kept
import torch
from seg.net import UNetPP
from seg.data import Slices
from torch.utils.data import DataLoader

class Session:
    def __init__(self, root):
        self.dev = torch.device("cuda", 0)
        self.net = UNetPP(1, 5).to(self.dev)
        self.opt = torch.optim.AdamW(self.net.parameters(), 1e-3)
        self.dl = DataLoader(Slices(root), 8, shuffle=True)
        self.last = []

    def train_epoch(self):
        for img, gt in self.dl:
            self.opt.zero_grad(set_to_none=False)  # expect: VF005
            outs = self.net(img.to(self.dev))
            loss = sum(torch.nn.functional.cross_entropy(o, gt.to(self.dev)) for o in outs) / len(outs)
            loss.backward()
            self.opt.step()
            self.last.append(outs[-1])  # expect: VF002
# case: self-supervised rotation task: batch rotations made on the host each step
import torch
from ssl_net import RotNet

def pretext(loader, epochs):
    net = RotNet(4).cuda()
    opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True)
    ce = torch.nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, _ in loader:
            x = x.cuda()
            views = torch.cat([torch.rot90(x, k, (2, 3)) for k in range(4)])
            target = torch.arange(4).repeat_interleave(len(x)).cuda()  # expect: VF015
            opt.zero_grad()
            loss = ce(net(views), target)
            loss.backward()
            opt.step()
# case: video classifier over clips, scores averaged on the host, clean
import torch
from video.slowfast import build

def evaluate(cfg, clips):
    net = build(cfg).cuda()
    net.load_state_dict(torch.load(cfg.ckpt, map_location="cpu"), strict=False)
    net.eval()
    votes = {}
    for vid, clip, label in clips:
        with torch.no_grad():
            p = net(clip.cuda()).softmax(-1).cpu()
        votes.setdefault(vid, []).append(p)
    return {v: torch.stack(p).mean(0).argmax().item() for v, p in votes.items()}
# case: quantisation-aware training with a warm-up without gradients, clean
import torch
from torch.ao.quantization import get_default_qat_qconfig_mapping
from torch.ao.quantization.quantize_fx import prepare_qat_fx

def calibrate(net, loader, n=10):
    net.eval()
    with torch.no_grad():
        for i, (x, _) in enumerate(loader):
            if i == n:
                return
            net(x.cuda())

def qat(net, loader):
    net = prepare_qat_fx(net.train(), get_default_qat_qconfig_mapping("x86"), next(iter(loader))[0]).cuda()
    calibrate(net, loader)
    net.train()
    opt = torch.optim.SGD(net.parameters(), 1e-4)
    for x, y in loader:
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
        opt.step()
# case: ensemble that swaps weights without reloading to the GPU, clean
import glob
import torch
from ens.net import Head

def predict(x, pattern):
    net = Head().cuda().eval()
    total = None
    for f in sorted(glob.glob(pattern)):
        net.load_state_dict(torch.load(f, map_location="cpu"))
        with torch.no_grad():
            p = net(x.cuda()).softmax(1)
        total = p if total is None else total + p
    return (total / len(glob.glob(pattern))).cpu()
# case: counting with density maps, absolute errors summed on the device, clean
import torch
from count.csrnet import CSRNet

@torch.no_grad()
def mae(loader, weights):
    net = CSRNet()
    net.load_state_dict(torch.load(weights, map_location="cpu"))
    net.cuda().eval()
    err = torch.zeros((), device="cuda")
    for img, gt in loader:
        err += (net(img.cuda()).sum() - gt.sum().cuda()).abs()
    return err.item() / len(loader)
