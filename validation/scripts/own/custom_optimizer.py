"""An optimizer of one's own (sign descent with momentum) and a custom autograd function."""
import torch
from torch import nn
from torch.optim import Optimizer


class SignMomentum(Optimizer):
    def __init__(self, params, lr=1e-3, beta=0.9):
        super().__init__(params, dict(lr=lr, beta=beta))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"]
                m.mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                p.add_(torch.sign(m), alpha=-group["lr"])


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() <= 1)


class Binary(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(256, 2048), nn.Linear(2048, 32)

    def forward(self, x):
        return self.b(StraightThrough.apply(self.a(x)))


model = Binary().to("cuda")
optimizer = SignMomentum(model.parameters())
for step in range(5):
    x, y = torch.randn(512, 256, device="cuda"), torch.randn(512, 32, device="cuda")
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
