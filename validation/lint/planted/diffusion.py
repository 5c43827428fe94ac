# case: DDPM sampler without no_grad, called from the training loop
import torch
import torch.nn.functional as F
from unet import UNet

T = 1000
beta = torch.linspace(1e-4, 0.02, T).cuda()
alpha_bar = torch.cumprod(1 - beta, 0)

def sample(net, shape):
    x = torch.randn(shape, device="cuda")
    for t in reversed(range(T)):
        tt = torch.full((shape[0],), t, device="cuda")
        eps = net(x, tt)  # expect: VF003
        x = (x - beta[t] / (1 - alpha_bar[t]).sqrt() * eps) / (1 - beta[t]).sqrt()
        if t:
            x = x + beta[t].sqrt() * torch.randn_like(x)
    return x

def main(loader):
    net = UNet(3, 128).cuda()
    opt = torch.optim.AdamW(net.parameters(), 2e-4)
    for step, (x0, _) in enumerate(loader):
        x0 = x0.cuda()
        t = torch.randint(0, T, (x0.size(0),), device="cuda")
        n = torch.randn_like(x0)
        ab = alpha_bar[t][:, None, None, None]
        loss = F.mse_loss(net(ab.sqrt() * x0 + (1 - ab).sqrt() * n, t), n)
        opt.zero_grad()  # expect: VF006
        loss.backward()
        opt.step()
        if step % 1000 == 0:
            net.eval()
            imgs = sample(net, (16, 3, 32, 32))
            torch.save(imgs.detach().cpu(), f"s{step}.pt")
            net.train()
# case: sampler under no_grad, class-based, clean
import torch
from torch import nn

class GaussianDiffusion(nn.Module):
    def __init__(self, model, steps=1000):
        super().__init__()
        self.model = model
        self.register_buffer("betas", torch.linspace(1e-4, 2e-2, steps))

    @torch.no_grad()
    def p_sample_loop(self, shape):
        img = torch.randn(shape, device=self.betas.device)
        imgs = []
        for i in reversed(range(len(self.betas))):
            img = self.model(img, torch.full((shape[0],), i, device=img.device, dtype=torch.long))
            if i % 100 == 0:
                imgs.append(img.cpu())
        return img, imgs

    def forward(self, x):
        t = torch.randint(0, len(self.betas), (x.shape[0],), device=x.device)
        noise = torch.randn_like(x)
        return (self.model(x + noise, t) - noise).pow(2).mean()

class Trainer:
    def __init__(self, diffusion, dl, lr=1e-4):
        self.diffusion = diffusion.cuda()
        self.dl = dl
        self.opt = torch.optim.Adam(self.diffusion.parameters(), lr)

    def train(self):
        for x in self.dl:
            self.opt.zero_grad()
            loss = self.diffusion(x.cuda())
            loss.backward()
            self.opt.step()
        _, imgs = self.diffusion.p_sample_loop((4, 3, 64, 64))
        return imgs
# case: latent diffusion, VAE encodes with gradients, text encoder frozen
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextModel

def train(args, loader):
    vae = AutoencoderKL.from_pretrained(args.base, subfolder="vae").to("cuda")
    text = CLIPTextModel.from_pretrained(args.base, subfolder="text_encoder").to("cuda")
    unet = UNet2DConditionModel.from_pretrained(args.base, subfolder="unet").to("cuda")
    text.requires_grad_(False)
    sched = DDPMScheduler.from_pretrained(args.base, subfolder="scheduler")
    opt = torch.optim.AdamW(unet.parameters(), lr=1e-5)
    running = 0.0
    for batch in loader:
        latents = vae.encode(batch["pixels"].cuda()).latent_dist.sample() * 0.18215  # expect: VF003
        latents = latents.detach()
        noise = torch.randn_like(latents)
        ts = torch.randint(0, 1000, (latents.shape[0],), device="cuda")
        hidden = text(batch["ids"].cuda())[0]
        pred = unet(sched.add_noise(latents, noise, ts), ts, hidden).sample
        loss = F.mse_loss(pred, noise)
        opt.zero_grad()  # expect: VF006
        loss.backward()
        opt.step()
        running += loss  # expect: VF001
# case: score matching in functional style with EMA loss as a tensor
import torch
from sde_lib import VPSDE
from score import ScoreNet

def loss_fn(net, sde, x):
    t = torch.rand(x.shape[0], device=x.device)
    mean, std = sde.marginal(x, t)
    z = torch.randn_like(x)
    return ((net(mean + std * z, t) * std + z) ** 2).sum((1, 2, 3)).mean()

def train(ds, steps):
    net = ScoreNet().to("cuda")
    sde = VPSDE()
    opt = torch.optim.Adam(net.parameters(), lr=2e-4)
    ema = None
    it = iter(ds)
    for _ in range(steps):
        x = next(it).to("cuda")
        opt.zero_grad(set_to_none=True)
        loss = loss_fn(net, sde, x)
        loss.backward()
        opt.step()
        ema = loss if ema is None else 0.99 * ema + 0.01 * loss  # expect: VF001
    return ema
# case: classifier guidance needs input gradients, clean
import torch
from guided import create_classifier, create_diffusion

def cond_fn(x, t, y, classifier, scale):
    with torch.enable_grad():
        x_in = x.detach().requires_grad_(True)
        logits = classifier(x_in, t)
        sel = torch.log_softmax(logits, -1)[range(len(logits)), y.view(-1)]
        return torch.autograd.grad(sel.sum(), x_in)[0] * scale

def main(args):
    classifier = create_classifier().cuda()
    classifier.load_state_dict(torch.load(args.path, map_location="cpu"))
    classifier.eval()
    diffusion = create_diffusion()
    out = []
    while len(out) * args.bs < args.n:
        y = torch.randint(0, 1000, (args.bs,), device="cuda")
        with torch.no_grad():
            s = diffusion.sample(lambda x, t: cond_fn(x, t, y, classifier, args.scale))
        out.append(s.cpu())
    return torch.cat(out)
# case: accumulation over a diffusion step without division
import torch
from tqdm import tqdm
from model import DiT
from diff import compute_loss

class DiTRunner:
    grad_accum = 8

    def __init__(self, cfg):
        self.net = DiT(cfg.depth).cuda()
        self.opt = torch.optim.AdamW(self.net.parameters(), cfg.lr)
        self.cfg = cfg

    def run_epoch(self, loader):
        self.opt.zero_grad()
        for n, (lat, y) in enumerate(tqdm(loader)):
            loss = compute_loss(self.net, lat.cuda(), y.cuda())
            loss.backward()  # expect: VF014
            if (n + 1) % self.grad_accum == 0 or n + 1 == len(loader):
                self.opt.step()
                self.opt.zero_grad()
# case: intermediate denoised images kept on the GPU in DDIM
import torch
from ldm import load_unet

@torch.no_grad()
def ddim(net, x, schedule):
    trace = []
    for a, b in zip(schedule[:-1], schedule[1:]):
        eps = net(x, a)
        x = x - (a - b) * eps
        trace.append(x)  # expect: VF016
    return x, trace

net = load_unet("celeba").cuda().eval()
xT = torch.randn(64, 3, 256, 256, device="cuda")
img, trace = ddim(net, xT, torch.linspace(1, 0, 500).cuda())
