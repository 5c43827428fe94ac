# case: a part of a network is called while the whole is evaluated
import torch
from torch import nn
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lines = nn.Linear(8, 8)
    def forward(self, x):
        return self.lines(x)
class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.reader = Reader()
    def forward(self, x):
        return self.reader(x)
def caption(frames):
    net = Captioner().to("cuda")
    net.eval()
    seen = net.reader(frames)  # expect: VF003
    return [seen.argmax().item() for _ in range(9)]
# case: a network that differentiates in its own forward pass
import torch
from torch import nn
class Salience(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def slopes(self, x):
        return torch.autograd.grad(self.net(x).sum(), x)[0]
    def forward(self, x):
        return self.slopes(x).abs()
def salience(net, loader):
    measure = Salience(net).cuda()
    measure.eval()
    total = 0
    for x, _ in loader:
        total = total + measure(x.cuda()).detach()
    return total
# case: a callable that is named after what it does is no network
import torch
class Search:
    def __init__(self, test_policy, net):
        self.test_policy = test_policy
        self.net = net.cuda()
    def fit(self, batches, solver):
        rewards = []
        for x, y in batches:
            solver.zero_grad()
            torch.nn.functional.mse_loss(self.net(x), y).backward()
            solver.step()
            stats = self.test_policy(self.net)
            rewards.append(stats[0])
        return rewards
# case: test data within the training loop, without eval()
import torch
from nets import Tagger
def run(X_train, Y_train, X_test, Y_test, criterion):
    net = Tagger().cuda()
    solver = torch.optim.Adam(net.parameters())
    for epoch in range(100):
        for x, y in zip(X_train, Y_train):
            solver.zero_grad()
            criterion(net(x), y).backward()
            solver.step()
        said = net(X_test)  # expect: VF003
        print(epoch, (said.argmax(1) == Y_test).float().mean().item())
# case: the loss of test data goes into the backward pass
import torch
from nets import Tagger
def adapt(x_test, criterion):
    net = Tagger().cuda()
    solver = torch.optim.Adam(net.parameters())
    for epoch in range(100):
        solver.zero_grad()
        said = net(x_test)
        loss = criterion(said)
        loss.backward()
        solver.step()
# case: the CPU is the one device of the file
import torch
from nets import Tagger
def score(loader):
    net = Tagger()
    net.load_state_dict(torch.load("tagger.pt", map_location=torch.device("cpu")))
    net.eval()
    for x, y in loader:
        said = net(x)
        print((said.argmax(1) == y).float().mean().item())
# case: a result that becomes an array as it is was never on the GPU
import torch
def project(model, points, device):
    model.eval()
    flat = model(points).detach().numpy()
    return flat
# case: what a network says is brought to main memory
import torch
def project(model, points, device):
    model.eval()
    flat = model(points).detach().cpu().numpy()  # expect: VF003
    return flat
# case: a shape check at the end of a file whose functions have variables of the same name
import torch
from nets import Block
def make(x):
    out = Block(3)(x)
    return torch.cat([out, x])
if __name__ == "__main__":
    net = torch.nn.DataParallel(Block(3)).cuda()
    net = net.eval()
    data = torch.rand(2, 3)
    out = net(data)
    print(out.size())
# case: a script that follows the device of its tensors and names none
import torch
class Grid(torch.nn.Module):
    def forward(self, x):
        return x + torch.arange(3).to(x.device)
class Head(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
        self.line = torch.nn.Linear(3, 1)
    def forward(self, x):
        return self.line(self.body(x))
body = Grid()
head = Head(body)
solver = torch.optim.Adam(head.parameters())
for _ in range(9):
    solver.zero_grad()
    head(torch.rand(5, 3)).sum().backward()
    solver.step()
head.eval()
said = [head(x).item() for x in graphs]
# case: the network is put on the CPU before its weights are loaded
import torch
from nets import Net
def make_net(size):
    net = Net(size)
    return net
def main(loader):
    device = torch.device("cuda")
    net = make_net(3)
    net.to(torch.device("cpu"))
    net.load_state_dict(torch.load("net.pt"))
    net.eval()
    return net
# case: a function frees the checkpoint before its caller moves the network
import torch
from hydra.utils import instantiate
def load_net(conf):
    net = instantiate(conf.net)
    state = torch.load(conf.net.weights)
    if "net" in state:
        state = state["net"]
    net.load_state_dict(state)
    return net
def main(conf):
    net = load_net(conf).to("cuda")
    return net
# case: the caller moves the network while a variable of its own holds the checkpoint
import torch
from nets import Net
def main(path):
    net = Net(3)
    state = torch.load(path)  # expect: VF010
    net.load_state_dict(state)
    return net.to("cuda")
# case: a network that fills itself where nothing shows its device
import torch
class Flow(torch.nn.Module):
    def count(self, x):
        return torch.zeros(3, device=x.device)
    def load(self, path):
        self.load_state_dict(torch.load(path))
def main(x):
    return x.cuda()
# case: a script that never moves its network
import torch
from nets import Net
net = Net(3)
state = torch.load("net.pt")
net.load_state_dict(state["net"])
net.eval()
with torch.no_grad():
    said = net(torch.rand(3).unsqueeze(0))
words = torch.rand(3).cuda()
