# case: a network is tried out on random tensors
import torch
from nets import Clips
if __name__ == "__main__":
    net = Clips(width=64).cuda()
    net.eval()
    batch = torch.autograd.Variable(torch.rand(2, 3, 16, 224, 224)).cuda()
    out = net(batch)
    print(out.size())
# case: two networks are compared on constants
import torch
from nets import Boxes
net = Boxes().cuda()
net.eval()
pair = torch.tensor([[0.8, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2]]).cuda()
output = net(pair)
share = output / pair
assert share.max() < 2
# case: a sample of a generator is saved
import torch
from torchvision.utils import save_image
from nets import Painter
painter = Painter().cuda()
painter.eval()
noise = torch.randn(64, 100).cuda()
pictures = painter(noise)  # expect: VF003
save_image(pictures, "pictures.png")
# case: a network is tried out on a picture
import torch
from nets import Clips
from data import picture
net = Clips(width=64).cuda()
net.eval()
out = net(picture("cat.png").cuda())  # expect: VF003
print(out.size())
# case: a network is timed on random tensors
import torch
from nets import Clips
net = Clips(width=64).cuda()
net.eval()
batch = torch.rand(2, 3, 224, 224).cuda()
for _ in range(100):
    out = net(batch)  # expect: VF003
    print(out.size())
# case: a variable has the context of grad mode
import torch
class Runner:
    def epoch(self, loader, is_training):
        self.net.train(is_training)
        context = torch.enable_grad if is_training else torch.no_grad
        with context():
            for x, y in loader:
                if is_training:
                    self.optimizer.zero_grad()
                loss = self.criterion(self.net(x.cuda()), y.cuda())
                if is_training:
                    loss.backward()
                    self.optimizer.step()
# case: a variable has the context of something else
import torch
def score(net, valid_loader, context):
    net.eval()
    right = 0
    with context():
        for x, y in valid_loader:
            right += (net(x.cuda()).argmax(1) == y.cuda()).sum().item()  # expect: VF003
    return right
# case: a method that the file calls in inference mode alone
import torch
from nets import Looker
class Backend:
    def __init__(self):
        self.model = Looker().cuda()
        self.model.eval()
    def encode(self, picture):
        return self.model(picture.cuda()).cpu()
@torch.inference_mode()
def describe(backends, pictures):
    return [backend.encode(picture) for backend in backends for picture in pictures]
# case: a method that the file calls with gradients
import torch
from nets import Looker
class Backend:
    def __init__(self):
        self.model = Looker().cuda()
        self.model.eval()
    def encode(self, picture):
        return self.model(picture.cuda()).cpu()  # expect: VF003
def describe(backends, pictures):
    return [backend.encode(picture) for backend in backends for picture in pictures]
# case: a layer without weights
import torch
from nets import Mixer
def mix(train_matrix, targets):
    softmin = torch.nn.Softmin(dim=1)
    mixer = Mixer().cuda()
    optimizer = torch.optim.Adam(mixer.parameters())
    for _ in range(40):
        optimizer.zero_grad()
        shares = softmin(mixer(train_matrix.cuda()))
        loss = (shares @ targets).square().mean()
        loss.backward()
        optimizer.step()
# case: a network is evaluated by a method of its own
import torch
from torch import nn
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(64, 64)
    def forward(self, x):
        return self.cell(x)[0]
    def search(self, x):
        out = []
        for _ in range(10):
            x = self.cell(x)[0]
            out.append(x)
        return torch.cat(out)
def validate(model, valid_loader):
    model.eval()
    total = 0
    for x, y in valid_loader:
        total += (model.search(x.cuda()).argmax(-1) == y.cuda()).sum().item()  # expect: VF003
    return total
# case: the method switches gradients off itself
import torch
from torch import nn
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(64, 64)
    def forward(self, x):
        return self.cell(x)[0]
    @torch.no_grad()
    def search(self, x):
        return self.cell(x)[0]
    def describe(self):
        return sum(weight.numel() for weight in self.parameters())
def validate(model, valid_loader):
    model.eval()
    total = 0
    for x, y in valid_loader:
        total += (model.search(x.cuda()).argmax(-1) == y.cuda()).sum().item() + model.describe()
    return total
# case: a method of a network that is constructed here
import torch
from torch import nn
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 2)
    def forward(self, x):
        return self.body(x)
    def act(self, x):
        return self(x).tanh()
def play(game, device):
    policy = Policy().to(device)
    policy.eval()
    state = game.reset()
    while not game.is_over():
        action = policy.act(state.to(device))  # expect: VF003
        state = game.step(action.detach().cpu().numpy())
# case: a network fills its parts in its constructor
import torch
from torch import nn
class Classifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.backbone = make_backbone(config)
        weights = torch.load("backbone.pth", map_location="cuda")
        own = self.backbone.state_dict()
        own.update({name: weight for name, weight in weights.items() if name in own})
        self.backbone.load_state_dict(own)
# case: a network moves its parts before it fills them
import torch
from torch import nn
class Classifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.backbone = make_backbone(config).cuda()
        weights = torch.load("backbone.pth", map_location="cuda")  # expect: VF010
        self.backbone.load_state_dict(weights)
# case: a library makes the network, and a wrapper leaves it where it is
import torch
import hydra
def load(config, path, device):
    net = hydra.utils.instantiate(config)
    net = torch.nn.DataParallel(net)
    weights = torch.load(path, map_location=torch.device(device))["net"]
    net.load_state_dict(weights)
    return net
# case: a wrapper around a network that was moved
import torch
import hydra
def load(config, path, device):
    net = hydra.utils.instantiate(config).to(device)
    net = torch.nn.DataParallel(net)
    weights = torch.load(path, map_location=torch.device(device))["net"]  # expect: VF010
    net.load_state_dict(weights)
    return net
# case: a helper that loads onto the CPU unless it is told otherwise
import torch
def load_checkpoint(model, path, device="cpu"):
    state = torch.load(path, map_location=device)
    model.load_state_dict(state)
    return model
# case: a helper that moves its network to the same place
import torch
def load_checkpoint(model, path, device="cpu"):
    model = model.to(device)
    state = torch.load(path, map_location=device)  # expect: VF010
    model.load_state_dict(state)
    return model
# case: a network stays on the CPU
import torch
class Runner:
    def __init__(self, path, container):
        self.saved = torch.load(path)
        self.model = container
        self.model.load_state_dict(self.saved)
        self.model = self.model.to("cpu")
        self.has_gpu = torch.cuda.is_available()
# case: a network that was saved whole is evaluated
import torch
def score(path, valid_loader):
    model = torch.load(path)
    model.eval()
    right = 0
    for x, y in valid_loader:
        right += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()  # expect: VF003
    return right
# case: a part of a file is a network
import torch
def score(path, valid_loader):
    saved = torch.load(path)
    encoder = saved["encoder"]
    encoder.eval()
    right = 0
    for x, y in valid_loader:
        right += (encoder(x.cuda()).argmax(1) == y.cuda()).sum().item()  # expect: VF003
    return right
# case: a helper that hands its device on
import torch
from nets import Net, Planner
def make(path, device="cpu"):
    state = torch.load(path, map_location=device)  # expect: VF010
    model = make_net(state["size"])
    model.load_state_dict(state["model"])
    return Planner(model=model, device=device)
