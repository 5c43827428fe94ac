# case: counting examples does not divide the loss
import torch
def fit(net, opt, xs, ys, accum):
    seen = 0
    for x, y in zip(xs, ys):
        opt.zero_grad()
        for micro in range(accum):
            e = torch.nn.functional.mse_loss(net(x[micro].cuda()), y[micro].cuda())
            e.backward()  # expect: VF014
            seen += y[micro].shape[0]
        opt.step()
# case: counting examples beside a divided loss
import torch
def fit(net, opt, xs, ys, accum):
    seen = 0
    for x, y in zip(xs, ys):
        opt.zero_grad()
        for micro in range(accum):
            e = torch.nn.functional.mse_loss(net(x[micro].cuda()), y[micro].cuda()) / accum
            e.backward()
            seen += y[micro].shape[0]
        opt.step()
# case: a division of something else
import torch
def fit(net, opt, feed, n):
    for i, (x, y) in enumerate(feed):
        e = torch.nn.functional.cross_entropy(net(x.cuda() / 255), y.cuda())
        e.backward()  # expect: VF014
        print(e.item() / x.size(0))
        if (i + 1) % n == 0:
            opt.step()
            opt.zero_grad()
# case: a division of something else beside a divided loss
import torch
def fit(net, opt, feed, n):
    for i, (x, y) in enumerate(feed):
        e = torch.nn.functional.cross_entropy(net(x.cuda() / 255), y.cuda())
        (e / n).backward()
        print(e.item() / x.size(0))
        if (i + 1) % n == 0:
            opt.step()
            opt.zero_grad()
# case: a list of batches is one step
import torch
def fit(net, opt, groups):
    for group in groups:
        opt.zero_grad()
        for x, y in group:
            e = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
            e.backward()  # expect: VF014
        opt.step()
# case: a list of batches, each weighed
import torch
def fit(net, opt, groups):
    for group in groups:
        opt.zero_grad()
        for x, y in group:
            e = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
            (e / len(group)).backward()
        opt.step()
# case: several losses of different parts are a sum on purpose
import torch
def fit(net, opt, feed, heads):
    for x, ys in feed:
        opt.zero_grad()
        h = net(x.cuda())
        for k, head in enumerate(heads):
            e = torch.nn.functional.mse_loss(head(h), ys[k].cuda())
            e.backward(retain_graph=True)
        opt.step()
# case: gradients averaged by hand
import torch
def fit(net, opt, xs, ys, accum):
    for x, y in zip(xs, ys):
        opt.zero_grad()
        for micro in range(accum):
            e = torch.nn.functional.mse_loss(net(x[micro].cuda()), y[micro].cuda())
            e.backward()
        for p in net.parameters():
            p.grad.div_(accum)
        opt.step()
# case: chunks of a batch
import torch
def fit(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        for a, b in zip(x.chunk(4), y.chunk(4)):
            logits = net(a.cuda())
            e = torch.nn.functional.cross_entropy(logits, b.cuda())
            good = (logits.argmax(1) == b.cuda()).sum()
            e.backward()  # expect: VF014
        opt.step()
# case: chunks of a batch, divided
import torch
def fit(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        for a, b in zip(x.chunk(4), y.chunk(4)):
            logits = net(a.cuda())
            e = torch.nn.functional.cross_entropy(logits, b.cuda()) / 4
            good = (logits.argmax(1) == b.cuda()).sum()
            e.backward()
        opt.step()
# case: chunks of a batch with a summed loss
import torch
def fit(net, opt, feed):
    for x, y in feed:
        opt.zero_grad()
        for a, b in zip(x.chunk(4), y.chunk(4)):
            e = torch.nn.functional.cross_entropy(net(a.cuda()), b.cuda(), reduction="sum")
            e.backward()
        opt.step()
# case: per-example gradients of an episode
import torch
def fit(net, opt, episodes):
    for episode in episodes:
        opt.zero_grad()
        for logp, reward in episode:
            (-logp * reward).backward()
        opt.step()
