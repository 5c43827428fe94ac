# case: a helper that switches to eval, called from the training loop
import torch
def preview(net, z, path):
    net.eval()
    save(net(z), path)  # expect: VF003
    net.train()
def main(net, opt, feed, z):
    for i, (x, y) in enumerate(feed):
        opt.zero_grad()
        e = (net(x.cuda()) - y.cuda()).square().mean()
        e.backward()
        opt.step()
        if i % 500 == 0:
            preview(net, z, f"{i}.png")
# case: a helper that switches to eval without gradients, called from the training loop
import torch
@torch.no_grad()
def preview(net, z, path):
    net.eval()
    save(net(z), path)
    net.train()
def main(net, opt, feed, z):
    for i, (x, y) in enumerate(feed):
        opt.zero_grad()
        e = (net(x.cuda()) - y.cuda()).square().mean()
        e.backward()
        opt.step()
        if i % 500 == 0:
            preview(net, z, f"{i}.png")
# case: evaluation inline in the training loop
import torch
from torch import nn, optim
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
opt = optim.Adam(net.parameters())
for step in range(10000):
    net.train()
    opt.zero_grad()
    x, y = batch("train")
    nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
    opt.step()
    if step % 100 == 0:
        net.eval()
        x, y = batch("dev")
        acc = (net(x.cuda()).argmax(1) == y.cuda()).float().mean()  # expect: VF003
        print(step, acc.item())
# case: evaluation inline in the training loop without gradients
import torch
from torch import nn, optim
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
opt = optim.Adam(net.parameters())
for step in range(10000):
    net.train()
    opt.zero_grad()
    x, y = batch("train")
    nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
    opt.step()
    if step % 100 == 0:
        net.eval()
        x, y = batch("dev")
        with torch.inference_mode():
            acc = (net(x.cuda()).argmax(1) == y.cuda()).float().mean()
        print(step, acc.item())
# case: eval chained on construction
import torch
from zoo import Segmenter
seg = Segmenter(21).cuda().eval()
for name in names():
    mask = seg(read(name).cuda()).argmax(1)  # expect: VF003
    write(name, mask.cpu())
# case: eval chained on construction, under inference_mode
import torch
from zoo import Segmenter
seg = Segmenter(21).cuda().eval()
with torch.inference_mode():
    for name in names():
        mask = seg(read(name).cuda()).argmax(1)
        write(name, mask.cpu())
# case: eval in a factory
import torch
from zoo import Detector
def load_detector(path):
    d = Detector()
    d.load_state_dict(torch.load(path, map_location="cpu"))
    d.to("cuda")
    d.eval()
    return d
def main(path, frames):
    d = load_detector(path)
    for frame in frames:
        boxes = d(frame.unsqueeze(0).cuda())  # expect: VF003
        show(boxes[0].tolist())
# case: eval in a factory that freezes
import torch
from zoo import Detector
def load_detector(path):
    d = Detector()
    d.load_state_dict(torch.load(path, map_location="cpu"))
    d.to("cuda")
    d.eval()
    d.requires_grad_(False)
    return d
def main(path, frames):
    d = load_detector(path)
    for frame in frames:
        boxes = d(frame.unsqueeze(0).cuda())
        show(boxes[0].tolist())
# case: eval in __init__
import torch
from zoo import Recognizer
class Service:
    def __init__(self, path):
        self.rec = Recognizer()
        self.rec.cuda()
        self.rec.eval()
    def answer(self, wave):
        text = self.rec(wave.cuda())  # expect: VF003
        return text.argmax(-1).tolist()
# case: eval in __init__, answered without gradients
import torch
from zoo import Recognizer
class Service:
    def __init__(self, path):
        self.rec = Recognizer()
        self.rec.cuda()
        self.rec.eval()
    def answer(self, wave):
        with torch.no_grad():
            text = self.rec(wave.cuda())
        return text.argmax(-1).tolist()
# case: a method named test
import torch
class Session:
    def test_epoch(self, rows):
        self.net.eval()
        good = 0
        for x, y in rows:
            good += (self.net(x.cuda()).argmax(1).cpu() == y).sum().item()  # expect: VF003
        return good
# case: a method named test without gradients
import torch
class Session:
    def test_epoch(self, rows):
        self.net.eval()
        good = 0
        with torch.no_grad():
            for x, y in rows:
                good += (self.net(x.cuda()).argmax(1).cpu() == y).sum().item()
        return good
# case: a teacher in a Trainer
import torch
import torch.nn.functional as F
from transformers import Trainer
class Distiller(Trainer):
    def __init__(self, *args, guide=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.guide = guide.eval()
    def compute_loss(self, model, inputs, return_outputs=False):
        out = model(**inputs)
        aim = self.guide(**inputs).logits  # expect: VF003
        loss = F.kl_div(out.logits.log_softmax(-1), aim.softmax(-1))
        return (loss, out) if return_outputs else loss
# case: a teacher in a Trainer without gradients
import torch
import torch.nn.functional as F
from transformers import Trainer
class Distiller(Trainer):
    def __init__(self, *args, guide=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.guide = guide.eval()
    def compute_loss(self, model, inputs, return_outputs=False):
        out = model(**inputs)
        with torch.no_grad():
            aim = self.guide(**inputs).logits
        loss = F.kl_div(out.logits.log_softmax(-1), aim.softmax(-1))
        return (loss, out) if return_outputs else loss
# case: a teacher before eval is called
import torch
import torch.nn.functional as F
from zoo import big, small
big_net = big().cuda()
little = small().cuda()
opt = torch.optim.Adam(little.parameters())
for x in feed():
    opt.zero_grad()
    aim = big_net(x.cuda())  # expect: VF003
    e = F.mse_loss(little(x.cuda()), aim)
    e.backward()
    opt.step()
# case: a teacher before eval is called, detached by no_grad
import torch
import torch.nn.functional as F
from zoo import big, small
big_net = big().cuda()
little = small().cuda()
opt = torch.optim.Adam(little.parameters())
for x in feed():
    opt.zero_grad()
    with torch.no_grad():
        aim = big_net(x.cuda())
    e = F.mse_loss(little(x.cuda()), aim)
    e.backward()
    opt.step()
# case: a perceptual network that passes gradients to its input
import torch
import torch.nn.functional as F
from torchvision.models import vgg16
from zoo import small
eye = vgg16(weights="DEFAULT").features.cuda().eval()
little = small().cuda()
opt = torch.optim.Adam(little.parameters())
for x in feed():
    opt.zero_grad()
    made = little(x.cuda())
    with torch.no_grad():
        aim = eye(x.cuda())
    e = F.mse_loss(eye(made), aim)
    e.backward()
    opt.step()
# case: an adversarial example needs gradients in eval mode
import torch
import torch.nn.functional as F
def attack(net, feed, eps):
    net.eval()
    for x, y in feed:
        x = x.cuda()
        x.requires_grad_(True)
        e = F.cross_entropy(net(x), y.cuda())
        g, = torch.autograd.grad(e, x)
        yield x + eps * g.sign()
# case: frozen batch norm during fine-tuning
import torch
import torch.nn.functional as F
def tune(net, opt, feed):
    net.eval()
    for x, y in feed:
        opt.zero_grad()
        e = F.cross_entropy(net(x.cuda()), y.cuda())
        e.backward()
        opt.step()
