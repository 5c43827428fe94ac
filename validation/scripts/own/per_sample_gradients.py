"""Per-sample gradients with torch.func, clipped and averaged by hand."""
import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap

device = "cuda"
model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 5)).to(device)
params = {name: p.detach() for name, p in model.named_parameters()}


def loss_of_one(weights, x, y):
    out = functional_call(model, weights, (x.unsqueeze(0),))
    return nn.functional.cross_entropy(out, y.unsqueeze(0))


per_sample = vmap(grad(loss_of_one), in_dims=(None, 0, 0))
for step in range(4):
    x, y = torch.randn(48, 64, device=device), torch.randint(5, (48,), device=device)
    grads = per_sample(params, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
    scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
    with torch.no_grad():
        for name, p in params.items():
            g = grads[name]
            p -= 0.1 * (g * scale.view(-1, *[1] * (g.dim() - 1))).mean(0)
    print(step, norms.mean().item())
