# case: retained for nothing
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward(retain_graph=True)  # expect: VF007
        optimizer.step()
# case: a second backward pass through the same graph
import torch
def train(model, loader, criterion, other, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        first = criterion(out, y)
        second = other(out, y)
        first.backward(retain_graph=True)
        second.backward()
        optimizer.step()
# case: two graphs that have nothing in common
import torch
def train(model_a, model_b, loader, loss_fn, opt_a, opt_b):
    for x, y in loader:
        opt_a.zero_grad()
        opt_b.zero_grad()
        loss_a = loss_fn(model_a(x), y)
        loss_b = loss_fn(model_b(x), y)
        loss_a.backward(retain_graph=True)  # expect: VF007
        loss_b.backward()
        opt_a.step()
        opt_b.step()
# case: rows of a Jacobian
import torch
def jacobian(model, x):
    y = model(x)
    rows = []
    for i in range(y.shape[0]):
        y[i].backward(retain_graph=True)
        rows.append(x.grad.clone())
    return rows
# case: a gradient penalty
import torch
def train(D, loader, loss_fn, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        x.requires_grad_()
        score = D(x)
        grad = torch.autograd.grad(score.sum(), x, create_graph=True)[0]
        loss = loss_fn(score, y) + grad.pow(2).mean()
        loss.backward()
        optimizer.step()
# case: second derivatives that nobody takes
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward(create_graph=True)  # expect: VF007
        optimizer.step()
# case: an RNN that should detach its state
import torch
def train(rnn, loader, criterion, optimizer):
    hidden = None
    for x, y in loader:
        optimizer.zero_grad()
        out, hidden = rnn(x, hidden)
        loss = criterion(out, y)
        loss.backward(retain_graph=True)  # expect: VF007
        optimizer.step()
# case: truncated backpropagation through time
import torch
def train(rnn, loader, criterion, optimizer):
    hidden = None
    for x, y in loader:
        optimizer.zero_grad()
        out, hidden = rnn(x, hidden)
        hidden = hidden.detach()
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
# case: GAN, the discriminator's graph is used again
import torch
def train(G, D, opt_G, opt_D, loader, bce):
    for real in loader:
        z = torch.randn(8, 64, device=real.device)
        fake = G(z)
        opt_D.zero_grad()
        d_loss = bce(D(real), 1) + bce(D(fake), 0)
        d_loss.backward(retain_graph=True)
        opt_D.step()
        opt_G.zero_grad()
        g_loss = bce(D(fake), 1)
        g_loss.backward()
        opt_G.step()
# case: Lightning by hand
import torch
import lightning as L
class Lit(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.automatic_optimization = False
    def training_step(self, batch, batch_idx):
        opt = self.optimizers()
        opt.zero_grad()
        loss = self.net(batch).mean()
        self.manual_backward(loss, retain_graph=True)  # expect: VF007
        opt.step()
# case: outside any loop
import torch
def once(model, x):
    loss = model(x).sum()
    loss.backward(retain_graph=True)
