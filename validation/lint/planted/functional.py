# case: functional training state in a dictionary, losses kept by a reducer
import functools
import torch
from torch.func import functional_call

def init(net, lr):
    params = {k: v.detach().cuda().requires_grad_() for k, v in net.named_parameters()}
    return {"params": params, "opt": torch.optim.Adam(params.values(), lr), "log": ()}

def step(net, state, batch):
    x, y = (b.cuda() for b in batch)
    loss = torch.nn.functional.cross_entropy(functional_call(net, state["params"], (x,)), y)
    state["opt"].zero_grad()  # expect: VF006
    loss.backward()
    state["opt"].step()
    return {**state, "log": (*state["log"], loss)}  # expect: VF001

def train(net, loader):
    return functools.reduce(lambda s, b: step(net, s, b), loader, init(net, 1e-3))
# case: MAML with torch.func, second derivatives are needed, clean
import torch
from torch.func import functional_call, grad, vmap

def inner(net, params, x, y, lr):
    def loss(p):
        return torch.nn.functional.mse_loss(functional_call(net, p, (x,)), y)
    g = grad(loss)(params)
    return {k: params[k] - lr * g[k] for k in params}

def meta_train(net, tasks, steps):
    net.cuda()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(steps):
        xs, ys, xq, yq = (t.cuda() for t in tasks())
        opt.zero_grad()
        params = dict(net.named_parameters())
        def one(a, b, c, d):
            fast = inner(net, params, a, b, 0.01)
            return torch.nn.functional.mse_loss(functional_call(net, fast, (c,)), d)
        vmap(one)(xs, ys, xq, yq).mean().backward()
        opt.step()
# case: MAML by hand, clean
import torch

def adapt(model, x, y, lr, steps):
    fast = list(model.parameters())
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model.functional_forward(x, fast), y)
        grads = torch.autograd.grad(loss, fast, create_graph=True)
        fast = [w - lr * g for w, g in zip(fast, grads)]
    return fast

def outer(model, episodes, opt):
    model.cuda()
    for tasks in episodes:
        opt.zero_grad()
        total = 0.0
        for xs, ys, xq, yq in tasks:
            fast = adapt(model, xs.cuda(), ys.cuda(), 0.4, 5)
            total = total + torch.nn.functional.cross_entropy(model.functional_forward(xq.cuda(), fast), yq.cuda())
        (total / len(tasks)).backward()
        opt.step()
# case: physics-informed network with nested derivatives, history with graph
import torch

def mlp(widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])

def residual(u, x, t):
    ut, ux = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    uxx, = torch.autograd.grad(ux.sum(), x, create_graph=True)
    return ut + u * ux - 0.01 / torch.pi * uxx

def solve(n):
    net = mlp([2, 64, 64, 64, 1]).to("cuda")
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    trace = torch.empty(0, device="cuda")
    for k in range(n):
        x = torch.rand(10000, 1, device="cuda", requires_grad=True)
        t = torch.rand(10000, 1, device="cuda", requires_grad=True)
        r = residual(net(torch.cat([x, t], 1)), x, t).square().mean()
        opt.zero_grad()  # expect: VF006
        r.backward()
        opt.step()
        trace = torch.cat([trace, r.view(1)])  # expect: VF001|VF002
    return trace
# case: NeRF fitting by rays with psnr over test views
import torch
from nerf.fields import Field
from nerf.render import render_rays

def fit(rays, colours, views):
    field = Field().cuda()
    optim = torch.optim.Adam(field.parameters(), 5e-4)
    for it in range(200000):
        pick = torch.randint(0, len(rays), (1024,))
        rgb = render_rays(field, rays[pick].cuda())
        mse = (rgb - colours[pick].cuda()).pow(2).mean()
        optim.zero_grad()  # expect: VF006
        mse.backward()
        optim.step()
        if it % 10000 == 9999:
            psnr = []
            for r, c in views:
                img = torch.cat([render_rays(field, chunk.cuda()) for chunk in r.split(4096)])
                psnr.append(-10 * torch.log10((img - c.cuda()).pow(2).mean()))  # expect: VF001|VF002|VF003
            print(torch.stack(psnr).mean().item())
# case: bilevel optimisation with a hypergradient, clean
import torch

def hyper(model, w_opt, lam, train_batches, val_batches):
    model.cuda()
    h_opt = torch.optim.Adam([lam], 1e-2)
    for (xt, yt), (xv, yv) in zip(train_batches, val_batches):
        loss = torch.nn.functional.cross_entropy(model(xt.cuda()), yt.cuda()) + lam.exp() * sum(p.square().sum() for p in model.parameters())
        ps = list(model.parameters())
        g = torch.autograd.grad(loss, ps, create_graph=True)
        val = torch.nn.functional.cross_entropy(model(xv.cuda()), yv.cuda())
        gv = torch.autograd.grad(val, ps)
        h_opt.zero_grad()
        lam.grad = -torch.autograd.grad(g, lam, grad_outputs=gv)[0]
        h_opt.step()
        w_opt.zero_grad()
        with torch.no_grad():
            for p, a in zip(ps, g):
                p -= 0.1 * a
# case: Fisher information by per-sample gradients, clean
import torch

def fisher(model, loader):
    model.cuda().eval()
    f = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    for x, y in loader:
        model.zero_grad()
        out = torch.log_softmax(model(x.cuda()), 1)
        torch.nn.functional.nll_loss(out, y.cuda()).backward()
        for n, p in model.named_parameters():
            f[n] += p.grad.detach() ** 2 / len(loader)
    return f
# case: adversarial training with PGD, clean except where the attack evaluates
import torch
import torch.nn.functional as F

def pgd(net, x, y, eps, alpha, n):
    adv = x + torch.empty_like(x).uniform_(-eps, eps)
    for _ in range(n):
        adv.requires_grad_(True)
        g, = torch.autograd.grad(F.cross_entropy(net(adv), y), adv)
        adv = (x + (adv.detach() + alpha * g.sign() - x).clamp(-eps, eps)).clamp(0, 1)
    return adv.detach()

def robust_accuracy(net, test_loader):
    net.eval()
    hits = n = 0
    for x, y in test_loader:
        x, y = x.cuda(), y.cuda()
        adv = pgd(net, x, y, 8 / 255, 2 / 255, 10)
        hits += (net(adv).argmax(1) == y).sum().item()  # expect: VF003
        n += len(y)
    return hits / n

def train(net, train_loader, opt):
    net.cuda().train()
    for x, y in train_loader:
        x, y = x.cuda(), y.cuda()
        adv = pgd(net, x, y, 8 / 255, 2 / 255, 7)
        opt.zero_grad()
        F.cross_entropy(net(adv), y).backward()
        opt.step()
