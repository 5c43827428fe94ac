"""A physics-informed network: second derivatives by autograd.grad, optimised with L-BFGS."""
import torch

torch.manual_seed(0)
dev = "cuda" if torch.cuda.is_available() else "cpu"
net = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(dev)
inside = torch.rand(2000, 2, device=dev, requires_grad=True)
edge = torch.rand(400, 2, device=dev)
edge[:200, 0] = 0.0
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4, history_size=10)


def residual():
    u = net(inside)
    du = torch.autograd.grad(u.sum(), inside, create_graph=True)[0]
    uxx = torch.autograd.grad(du[:, 0].sum(), inside, create_graph=True)[0][:, 0]
    return uxx - du[:, 1]


def closure():
    optimizer.zero_grad()
    loss = residual().pow(2).mean() + net(edge).pow(2).mean()
    loss.backward()
    return loss


for step in range(3):
    value = optimizer.step(closure)
    print(step, value.item())
