# case: the location through a formatted variable
import torch
def resume(net, path, rank):
    where = "cuda:%d" % rank
    net.to(where)
    state = torch.load(path, map_location=where)  # expect: VF010
    net.load_state_dict(state)
# case: the location through a variable that is the CPU
import torch
def resume(net, path, rank):
    where = "cpu"
    net.to("cuda:%d" % rank)
    state = torch.load(path, map_location=where)
    net.load_state_dict(state)
# case: the location through format
import torch
def resume(net, path, rank):
    target = "cuda:{}".format(rank)
    net = net.to(target)
    blob = torch.load(path, target)  # expect: VF010
    net.load_state_dict(blob["weights"])
# case: the location through a dict in a variable
import torch
def resume(net, path, rank):
    net.cuda(rank)
    swap = {"cuda:0": f"cuda:{rank}"}
    blob = torch.load(path, map_location=swap)  # expect: VF010
    net.load_state_dict(blob)
# case: a dict that maps to the CPU
import torch
def resume(net, path):
    net.cuda()
    blob = torch.load(path, map_location={"cuda:0": "cpu"})
    net.load_state_dict(blob)
# case: a device that comes in as an argument
import torch
def load_weights(module, path, device):
    obj = torch.load(path, map_location=device)  # expect: VF010
    module.load_state_dict(obj["model"], strict=False)
    return obj.get("epoch", 0)
# case: a checkpoint stays bound while the network moves
import torch
from zoo import Net
net = Net()
state = torch.load("w.pt", map_location="cuda")  # expect: VF010
net.load_state_dict(state["net"])
net.cuda()
train(net)
# case: a checkpoint on the CPU stays bound while the network moves
import torch
from zoo import Net
net = Net()
state = torch.load("w.pt", map_location="cpu")
net.load_state_dict(state["net"])
net.cuda()
train(net)
# case: only matching weights are copied
import torch
def warm(net, path, device):
    net.to(device)
    given = torch.load(path, map_location=device)  # expect: VF010
    own = net.state_dict()
    fitting = {k: v for k, v in given.items() if k in own and v.shape == own[k].shape}
    own.update(fitting)
    net.load_state_dict(own)
# case: renamed weights
import torch
from collections import OrderedDict
def warm(net, path):
    net.cuda()
    given = torch.load(path, map_location="cuda:0")  # expect: VF010
    clean = OrderedDict()
    for k, v in given["state"].items():
        clean[k.replace("module.", "")] = v
    net.load_state_dict(clean)
# case: renamed weights on the CPU
import torch
from collections import OrderedDict
def warm(net, path):
    net.cuda()
    given = torch.load(path, map_location=torch.device("cpu"))
    clean = OrderedDict()
    for k, v in given["state"].items():
        clean[k.replace("module.", "")] = v
    net.load_state_dict(clean)
# case: a loader function returns the checkpoint
import torch
def fetch(path):
    return torch.load(path, map_location="cuda")  # expect: VF010
def main(net, path):
    net.cuda()
    net.load_state_dict(fetch(path)["model"])
# case: a loader function returns the checkpoint from the CPU
import torch
def fetch(path):
    return torch.load(path, map_location="cpu")
def main(net, path):
    net.cuda()
    net.load_state_dict(fetch(path)["model"])
# case: a device object
import torch
dev = torch.device("cuda", 0)
def load(net):
    net.to(dev)
    net.load_state_dict(torch.load("a.pt", map_location=dev))  # expect: VF010
