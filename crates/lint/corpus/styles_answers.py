# case: an agent reads the answer of its network out as an array
import torch
class Agent:
    def __init__(self, actor, device):
        self.actor = actor.to(device)
        self.device = device
    def act(self, state):
        state = torch.as_tensor(state, device=self.device)
        action = self.actor(state)  # expect: VF003
        return action.cpu().data.numpy().flatten()
# case: an agent that acts without gradients, and one that returns its graph too
import torch
class Agent:
    def __init__(self, actor, device):
        self.actor = actor.to(device)
        self.device = device
    def act(self, state):
        with torch.no_grad():
            action = self.actor(torch.as_tensor(state, device=self.device))
        return action.cpu().numpy()
    def try_out(self, state):
        action = self.actor(torch.as_tensor(state, device=self.device))
        return action.detach().cpu().numpy(), action
# case: what a loss needs is also drawn
import torch
def show_step(net, x, y, criterion, optimizer, device):
    net.to(device)
    out = net(x.to(device))
    loss = criterion(out, y.to(device))
    optimizer.zero_grad(set_to_none=True)  # expect: VF006
    loss.backward()
    optimizer.step()
    return out.detach().cpu().numpy()
# case: a network that gets tensors in main memory is in main memory, whatever else is on the GPU
import torch
class Learner:
    def __init__(self, policy, simulator):
        self.policy = policy
        self.policy.eval()
        self.simulator = simulator.to("cuda")
    def ask(self, points, values):
        x = torch.from_numpy(points).to(torch.get_default_dtype())
        y = torch.from_numpy(values[..., 0]).to(torch.get_default_dtype())
        return self.policy(x, y).cpu().detach().numpy()
# case: a network that brings its inputs to its GPUs itself
import torch
from torch import nn
def ask(policy, points):
    policy = nn.DataParallel(policy).cuda()
    policy.eval()
    x = torch.from_numpy(points)
    return policy(x).cpu().detach().numpy()  # expect: VF003
# case: the validation set within the loop over training batches
import torch
import torch.nn.functional as F
def train(model, train_loader, val_x, val_y, optimizer, device):
    model.to(device)
    for i, (x, y) in enumerate(train_loader):
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        if i % 5 == 0:
            answer = model(torch.tensor(val_x).to(device))  # expect: VF003
            print(F.cross_entropy(answer, torch.tensor(val_y).to(device)).item())
# case: a training that is one arm of the program leaves anomaly detection on
import torch
def training(model, loader, optimizer):
    torch.autograd.set_detect_anomaly(True)  # expect: VF017
    for x, y in loader:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
def main(args, model, loader, optimizer):
    if args.test:
        model.eval()
    else:
        training(model, loader, optimizer)
# case: an arm that only switches anomaly detection on
import torch
def training(args, model, loader, optimizer):
    if args.test:
        return
    if args.find_nan:
        torch.autograd.set_detect_anomaly(True)
    for x, y in loader:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
# case: the cache is emptied where pictures are drawn now and then
import torch
def train(config, model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        if step % config["draw_steps"] == 0:
            torch.cuda.empty_cache()
        if step % 100 == 0:
            torch.cuda.empty_cache()
        if step % 50 == 0:
            torch.cuda.empty_cache()  # expect: VF009
# case: dead rows of a table of codes are replaced
import torch
from torch import nn
class Codes(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.table = nn.Embedding(count, 8)
    def replace(self, seen):
        dead = torch.randint(0, 8, (4,), device=seen.device)
        self.table.weight.data[dead] = seen[dead]
def train(encoder, loader, optimizer):
    codes = Codes(8).cuda()
    for x in loader:
        optimizer.zero_grad()
        z = encoder(x.cuda())
        z.pow(2).mean().backward()
        optimizer.step()
        codes.replace(z.detach())
# case: gradients are dropped on the way out of a step that has no backward pass
import torch
def train(model, loader, optimizer, device):
    model.to(device)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).pow(2).mean()
        if loss > 100:
            optimizer.zero_grad()
            continue
        optimizer.zero_grad()  # expect: VF006
        loss.backward()
        optimizer.step()
# case: a step in a method, which an arm calls before it returns
import torch
class Learner:
    def __init__(self, net, optimizer):
        self.net = net.cuda()
        self.optimizer = optimizer
    def update(self, x, y):
        loss = (self.net(x) - y).pow(2).mean()
        self.optimizer.zero_grad(set_to_none=True)  # expect: VF006
        loss.backward()
        self.optimizer.step()
        return loss.item()
def learn(net, optimizer, memory):
    learner = Learner(net, optimizer)
    for x, y in memory:
        if x is not None:
            learner.update(x, y)
            continue
# case: a checkpoint goes to the GPU where there is one, by a variable
import torch
def main(args, model, optimizer):
    model = torch.nn.DataParallel(model.cuda())
    place = "cuda:{}".format(args.rank) if torch.cuda.is_available() else "cpu"
    checkpoint = torch.load(args.resume, map_location=place)  # expect: VF010
    model.module.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
# case: an object whose device is the CPU unless a caller says otherwise
import torch
class Painter:
    def __init__(self, model, device="cpu"):
        self.model = model
        self.device = device
    def paint(self, picture):
        self.model.eval()
        picture = torch.from_numpy(picture).float().to(self.device)
        return self.model(picture).detach().numpy()
def main(model, picture):
    torch.zeros(1).to("cuda")
    return Painter(model).paint(picture)
# case: the device of an attribute is that of either arm
import torch
class Evaluation:
    def __init__(self, net, index):
        if torch.cuda.is_available():
            self.place = torch.device("cuda", index)
        else:
            self.place = torch.device("cpu")
        self.net = net
        self.net.to(self.place)
    def answer(self, points):
        self.net.eval()
        x = torch.tensor(points)
        return self.net(x.to(self.place)).detach().cpu().numpy()  # expect: VF003
# case: a loss function that differentiates its part and hands the gradient over
import torch
def train(model, loss_fn, loader, optimizer):
    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x.cuda())
        loss, gradient = loss_fn(out, y.cuda())
        out.backward(gradient)
        optimizer.step()
        total += loss
    return total
# case: a loss that is differentiated with a gradient of its own shape
import torch
def train(model, loss_fn, loader, optimizer):
    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x.cuda()), y.cuda())
        loss.backward(torch.ones_like(loss))
        optimizer.step()
        total += loss  # expect: VF001
    return total
