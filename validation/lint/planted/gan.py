# case: spectral-norm GAN with hinge loss, critic score history
import argparse
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from sngan.archs import ResGen, ResDisc
from sngan.data import LSUNCrops

def hinge_d(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()

def main(opt):
    device = torch.device("cuda")
    G = ResGen(opt.nz).to(device)
    D = ResDisc().to(device)
    og = torch.optim.Adam(G.parameters(), 2e-4, betas=(0.0, 0.9))
    od = torch.optim.Adam(D.parameters(), 2e-4, betas=(0.0, 0.9))
    dl = DataLoader(LSUNCrops(opt.root), 64, shuffle=True, num_workers=8, drop_last=True)
    history = {"d": [], "g": []}
    for ep in range(opt.epochs):
        for real in dl:
            real = real.to(device, non_blocking=True)
            for _ in range(opt.n_critic):
                z = torch.randn(real.size(0), opt.nz, device=device)
                od.zero_grad(set_to_none=True)
                ld = hinge_d(D(real), D(G(z).detach()))
                ld.backward()
                od.step()
            og.zero_grad(set_to_none=True)
            lg = -D(G(torch.randn(real.size(0), opt.nz, device=device))).mean()
            lg.backward()
            og.step()
            history["d"].append(ld)  # expect: VF001
            history["g"].append(lg.item())
    return history

if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--root"); p.add_argument("--nz", type=int, default=128)
    p.add_argument("--epochs", type=int, default=50); p.add_argument("--n-critic", type=int, default=5)
    main(p.parse_args())
# case: WGAN-GP as a class, penalty graph is needed, noise made on the host
import torch
from torch import autograd, nn

class Critic(nn.Module):
    def __init__(self, c=64):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, c, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(c, 1, 4, 2, 1))

    def forward(self, x):
        return self.body(x).flatten(1).mean(1)

class WassersteinTrainer:
    def __init__(self, gen, lambda_gp=10.0):
        self.gen = gen.cuda()
        self.critic = Critic().cuda()
        self.opt_c = torch.optim.RMSprop(self.critic.parameters(), lr=5e-5)
        self.opt_g = torch.optim.RMSprop(self.gen.parameters(), lr=5e-5)
        self.lambda_gp = lambda_gp

    def penalty(self, a, b):
        t = torch.rand(a.size(0), 1, 1, 1, device=a.device)
        mix = (t * a + (1 - t) * b).requires_grad_(True)
        g, = autograd.grad(self.critic(mix).sum(), mix, create_graph=True)
        return ((g.flatten(1).norm(2, 1) - 1) ** 2).mean()

    def fit(self, stream, steps):
        for it, real in zip(range(steps), stream):
            real = real.cuda()
            z = torch.randn(real.shape[0], 100, 1, 1).cuda()  # expect: VF015
            fake = self.gen(z).detach()
            self.opt_c.zero_grad()
            loss = self.critic(fake).mean() - self.critic(real).mean() + self.lambda_gp * self.penalty(real, fake)
            loss.backward()
            self.opt_c.step()
            if it % 5 == 0:
                self.opt_g.zero_grad()
                g_loss = -self.critic(self.gen(torch.randn(real.shape[0], 100, 1, 1, device="cuda"))).mean()
                g_loss.backward()
                self.opt_g.step()
# case: fixed-noise previews of a generator collected over epochs
import torch
import torchvision.utils as vutils
from nets import Generator, Discriminator

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
netG = Generator(100, 64, 3).to(device)
netD = Discriminator(64, 3).to(device)
bce = torch.nn.BCEWithLogitsLoss()
optG = torch.optim.Adam(netG.parameters(), lr=2e-4)
optD = torch.optim.Adam(netD.parameters(), lr=2e-4)
fixed = torch.randn(64, 100, 1, 1, device=device)

def run(loader, epochs):
    frames = []
    for epoch in range(epochs):
        for imgs, _ in loader:
            imgs = imgs.to(device)
            ones = torch.ones(imgs.size(0), 1, device=device)
            zeros = torch.zeros_like(ones)
            fake = netG(torch.randn(imgs.size(0), 100, 1, 1, device=device))
            optD.zero_grad()
            (bce(netD(imgs), ones) + bce(netD(fake.detach()), zeros)).backward()
            optD.step()
            optG.zero_grad()
            bce(netD(fake), ones).backward()
            optG.step()
        frames.append(netG(fixed))  # expect: VF002
    return vutils.make_grid(torch.cat([f.detach().cpu() for f in frames]))
# case: two-timescale GAN, retain_graph where graphs do not meet
import torch
from models import build_pair
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T

gen, disc = build_pair("dcgan")
gen.cuda(); disc.cuda()
g_opt = torch.optim.AdamW(gen.parameters(), 1e-4)
d_opt = torch.optim.AdamW(disc.parameters(), 4e-4)
data = datasets.CelebA("data", transform=T.ToTensor())
for x, _ in DataLoader(data, batch_size=128, shuffle=True):
    x = x.cuda()
    noise = torch.randn(len(x), 128, device="cuda")
    d_opt.zero_grad()
    d_loss = torch.nn.functional.softplus(-disc(x)).mean() + torch.nn.functional.softplus(disc(gen(noise).detach())).mean()
    d_loss.backward(retain_graph=True)  # expect: VF007
    d_opt.step()
    g_opt.zero_grad()
    g_loss = torch.nn.functional.softplus(-disc(gen(noise))).mean()
    g_loss.backward()
    g_opt.step()
    print(d_loss.item(), g_loss.item())
# case: StyleGAN-like trainer, EMA copy samples with autograd on
import copy
import torch
from torchvision.utils import save_image
from stylegan.model import StyledGenerator, Discriminator

def requires_grad(m, flag):
    for p in m.parameters():
        p.requires_grad = flag

def accumulate(ema, live, decay=0.999):
    live = dict(live.named_parameters())
    for name, p in ema.named_parameters():
        p.data.mul_(decay).add_(live[name].data, alpha=1 - decay)

def train(args, loader):
    g = StyledGenerator(args.code).cuda()
    d = Discriminator().cuda()
    g_running = StyledGenerator(args.code).cuda()
    g_running.eval()
    accumulate(g_running, g, 0)
    go = torch.optim.Adam(g.parameters(), lr=args.lr, betas=(0.0, 0.99))
    do = torch.optim.Adam(d.parameters(), lr=args.lr, betas=(0.0, 0.99))
    for i, real in enumerate(loader):
        real = real.cuda()
        z = torch.randn(real.shape[0], args.code, device="cuda")
        requires_grad(d, True)
        do.zero_grad()
        loss = d(g(z).detach()).mean() - d(real).mean()
        loss.backward()
        do.step()
        requires_grad(d, False)
        go.zero_grad()
        (-d(g(z)).mean()).backward()
        go.step()
        accumulate(g_running, g)
        if i % 100 == 0:
            sample = g_running(torch.randn(16, args.code, device="cuda"))  # expect: VF003
            save_image(sample.data.cpu(), f"sample/{i:06d}.png", nrow=4)
# case: CycleGAN resume puts checkpoints onto the GPU
import itertools
import torch
from networks import ResnetGenerator

class CycleModel:
    def __init__(self, opt):
        self.opt = opt
        self.dev = torch.device(f"cuda:{opt.gpu}")
        self.netA = ResnetGenerator(3, 3).to(self.dev)
        self.netB = ResnetGenerator(3, 3).to(self.dev)
        self.optimizer = torch.optim.Adam(itertools.chain(self.netA.parameters(), self.netB.parameters()), lr=opt.lr)

    def resume(self, tag):
        blob = torch.load(f"{self.opt.ckpt}/{tag}.pt", map_location=self.dev)  # expect: VF010
        self.netA.load_state_dict(blob["A"])
        self.netB.load_state_dict(blob["B"])

    def step(self, a, b):
        a, b = a.to(self.dev), b.to(self.dev)
        self.optimizer.zero_grad()
        rec = (self.netB(self.netA(a)) - a).abs().mean() + (self.netA(self.netB(b)) - b).abs().mean()
        rec.backward()
        self.optimizer.step()
        return rec.item()
# case: R1 penalty whose graph is thrown away
import torch

def d_regularise(disc, real, opt):
    real = real.detach().requires_grad_()
    opt.zero_grad()
    score = disc(real).sum()
    g = torch.autograd.grad(score, real, create_graph=True)[0]
    loss = g.pow(2).flatten(1).sum(1).mean() * 5
    loss.backward()
    opt.step()

def train(disc, gen, batches, d_opt, g_opt):
    norms = []
    for real in batches:
        real = real.cuda()
        d_regularise(disc, real, d_opt)
        probe = real.detach().requires_grad_()
        g = torch.autograd.grad(disc(probe).sum(), probe, create_graph=True)[0]  # expect: VF007
        norms.append(g.norm().item())
        g_opt.zero_grad()
        (-disc(gen(torch.randn(len(real), 64, device="cuda"))).mean()).backward()
        g_opt.step()
    return norms
# case: FID features collected on the device in generator evaluation
import torch
from torchvision.models import inception_v3

@torch.inference_mode()
def activations(gen, n_batches, device="cuda"):
    inception = inception_v3(weights="DEFAULT").to(device).eval()
    inception.fc = torch.nn.Identity()
    feats = None
    for _ in range(n_batches):
        imgs = gen(torch.randn(50, 128, device=device))
        f = inception(imgs)
        feats = f if feats is None else torch.cat((feats, f))  # expect: VF016
    return feats.cpu().numpy()
