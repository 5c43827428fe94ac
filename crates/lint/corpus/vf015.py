# case: noise made on the CPU in the loop
import torch
def train(G, loader, loss_fn, optimizer):
    for real in loader:
        optimizer.zero_grad()
        z = torch.randn(real.size(0), 100).cuda()  # expect: VF015
        loss = loss_fn(G(z), real)
        loss.backward()
        optimizer.step()
# case: made there
import torch
def train(G, loader, loss_fn, optimizer, device):
    for real in loader:
        optimizer.zero_grad()
        z = torch.randn(real.size(0), 100, device=device)
        loss = loss_fn(G(z), real)
        loss.backward()
        optimizer.step()
# case: zeros by to(device)
import torch
def train(model, loader, criterion, optimizer, device):
    for x, y in loader:
        optimizer.zero_grad()
        mask = torch.zeros(x.size(0), 10).to(device)  # expect: VF015
        loss = criterion(model(x.to(device)) + mask, y.to(device))
        loss.backward()
        optimizer.step()
# case: before the loop it costs once
import torch
def train(model, loader, criterion, optimizer, device):
    weight = torch.ones(10).to(device)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)) * weight, y.to(device))
        loss.backward()
        optimizer.step()
# case: the whole set goes into the data set
import torch
from torch.utils.data import DataLoader, TensorDataset
x_train = torch.load("x.pt")
X = torch.tensor(x_train).cuda()  # expect: VF015
Y = torch.tensor([0, 1]).cuda()  # expect: VF015
loader = DataLoader(TensorDataset(X, Y), batch_size=32)
# case: batches are cut from it on the GPU
import torch
def train(model, x_train, y_train, criterion, optimizer, device):
    x_train = x_train.to(device)  # expect: VF015
    y_train = y_train.to(device)  # expect: VF015
    for epoch in range(10):
        perm = torch.randperm(len(x_train))
        for i in range(0, len(x_train), 32):
            idx = perm[i:i + 32]
            optimizer.zero_grad()
            loss = criterion(model(x_train[idx]), y_train[idx])
            loss.backward()
            optimizer.step()
# case: full-batch training needs it all
import torch
def train(model, x_train, y_train, criterion, optimizer, device):
    x_train = x_train.to(device)
    y_train = y_train.to(device)
    for epoch in range(100):
        optimizer.zero_grad()
        loss = criterion(model(x_train), y_train)
        loss.backward()
        optimizer.step()
# case: a graph's nodes are needed at once
import torch
from torch_geometric.datasets import Planetoid
dataset = Planetoid(root="data", name="Cora")
device = torch.device("cuda")
data = dataset[0].to(device)
x_train = data.x.to(device)
print(x_train[data.train_mask])
# case: the data of a torchvision set
import torch
from torchvision import datasets
train_set = datasets.MNIST("data", train=True)
train_set.data = train_set.data.cuda()  # expect: VF015
# case: every batch of the loader in a list
import torch
def cache(loader):
    batches = [(x.cuda(), y.cuda()) for x, y in loader]  # expect: VF015
    return batches
# case: every batch of the loader in a list, at the module's level
import torch
from torch.utils.data import DataLoader
loader = DataLoader(dataset, batch_size=32)
batches = [(x.cuda(), y.cuda()) for x, y in loader]  # expect: VF015
# case: batches moved one by one
import torch
def train(model, loader, criterion, optimizer, device):
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
# case: numbers from numpy have to be copied
import numpy as np
import torch
def train(model, loader, criterion, optimizer, device):
    for x, y in loader:
        weights = torch.from_numpy(np.ones(4)).to(device)
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device)) * weights
        loss.backward()
        optimizer.step()
