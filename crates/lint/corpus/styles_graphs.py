# case: another value of the same graph is kept after backward
import torch
class Runner:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt
        self.errs = []
    def run(self, feed):
        for x, y in feed:
            self.opt.zero_grad()
            e = (self.net(x.cuda()) - y.cuda()).abs()
            e.mean().backward()
            self.opt.step()
            self.errs.append(e.amax())  # expect: VF002
        print(len(self.errs))
# case: a number of the same graph is kept after backward
import torch
class Runner:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt
        self.errs = []
    def run(self, feed):
        for x, y in feed:
            self.opt.zero_grad()
            e = (self.net(x.cuda()) - y.cuda()).abs()
            e.mean().backward()
            self.opt.step()
            self.errs.append(e.amax().item())
        print(max(self.errs))
# case: kept and read for printing in the function with the backward pass
import torch
class Runner:
    def run(self, feed):
        for x, y in feed:
            self.opt.zero_grad()
            e = torch.nn.functional.mse_loss(self.net(x.cuda()), y.cuda())
            e.backward()
            self.opt.step()
            self.curve.append(e)  # expect: VF001
            if len(self.curve) % 10 == 0:
                print(self.curve[-1])
# case: rewards and log-probabilities go into the loss of an episode
import torch
class Reinforce:
    def __init__(self, pi, opt):
        self.pi, self.opt, self.logps, self.rs = pi, opt, [], []
    def act(self, s):
        d = torch.distributions.Categorical(logits=self.pi(s.cuda()))
        a = d.sample()
        self.logps.append(d.log_prob(a))
        return a.item()
    def learn(self):
        e = -(torch.stack(self.logps) * torch.tensor(self.rs).cuda()).sum()
        self.opt.zero_grad()  # expect: VF006
        e.backward()
        self.opt.step()
        self.logps, self.rs = [], []
# case: create_graph for gradients that are only read
import torch
def saliency(net, feed):
    for x, y in feed:
        x = x.cuda().requires_grad_()
        s = net(x).sum()
        g, = torch.autograd.grad(s, x, create_graph=True)  # expect: VF007
        show(g.abs().max().item())
# case: create_graph for a penalty
import torch
def critic_step(d, opt, feed):
    for real in feed:
        opt.zero_grad()
        x = real.cuda().requires_grad_()
        s = d(x).sum()
        g, = torch.autograd.grad(s, x, create_graph=True)
        e = s + 10 * (g.flatten(1).norm(dim=1) - 1).pow(2).mean()
        e.backward()
        opt.step()
# case: create_graph for forces in a loss
import torch
def fit(net, opt, feed):
    for pos, energy, force in feed:
        opt.zero_grad()
        pos = pos.cuda().requires_grad_()
        en = net(pos)
        f = -torch.autograd.grad(en.sum(), pos, create_graph=True)[0]
        e = (en - energy.cuda()).pow(2).mean() + (f - force.cuda()).pow(2).mean()
        e.backward()
        opt.step()
# case: create_graph for forces in an evaluation
import torch
def check(net, feed):
    net.eval()
    err = 0.0
    for pos, energy, force in feed:
        pos = pos.cuda().requires_grad_()
        en = net(pos)
        f = -torch.autograd.grad(en.sum(), pos, create_graph=True)[0]  # expect: VF007
        err += (f - force.cuda()).abs().mean().item()
    return err
# case: anomaly detection left on
import torch
torch.autograd.set_detect_anomaly(True)  # expect: VF017
def fit(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        torch.nn.functional.mse_loss(net(x.cuda()), y.cuda()).backward()
        opt.step()
# case: anomaly detection on request
import torch
def fit(net, opt, feed, debug=False):
    torch.autograd.set_detect_anomaly(debug)
    for x, y in feed:
        opt.zero_grad()
        torch.nn.functional.mse_loss(net(x.cuda()), y.cuda()).backward()
        opt.step()
