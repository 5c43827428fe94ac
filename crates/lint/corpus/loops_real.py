# case: a list of the parts of one step is let go with the step
import torch
def train(model, optimizer, groups):
    for parts in groups:
        losses = []
        for x, y in parts:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / len(parts)
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        print(sum(losses).item())

# case: what is computed under no_grad has no graph outside of it
import torch
def main(engine, loader, eval_loader, optimizer):
    for batch in loader:
        optimizer.zero_grad()
        outputs = engine(**batch)
        loss = outputs.loss
        loss.backward()
        optimizer.step()
    losses = []
    for batch in eval_loader:
        with torch.no_grad():
            outputs = engine(**batch)
        loss = outputs.loss
        losses.append(loss.cpu())

# case: something else with a step of its own
import torch
from accelerate import Accelerator, LocalSGD
def main(model, optimizer, loader):
    accelerator = Accelerator()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=8) as local_sgd:
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                local_sgd.step()

# case: gradients that others add to must be there
import torch
class Server:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def update(self, grads):
        for p, g in zip(self.model.parameters(), grads):
            p.grad += g
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

# case: the model goes to the GPU after its checkpoint has been let go
import torch
from models import EmbeddingNet
def main(args):
    device = torch.device("cuda:0")
    model = EmbeddingNet()
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
    model.to(device)
    return model

# case: a network of the file returns a number beside its tensor
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 1)
    def forward(self, x):
        kept = x[x[:, 0] > 0]
        ratio = kept.size(0) / x.size(0)
        return self.lin(kept), ratio
model = Net().to("cuda")
def test(loader):
    model.eval()
    total_ratio, hits = 0, 0
    for x in loader:
        out, ratio = model(x.to("cuda"))  # expect: VF003
        total_ratio += ratio
        hits += (out > 0).sum().item()
    return total_ratio, hits

# case: sums made under no_grad have no graph
import torch
def train(model, loader, criterion, optimizer, device):
    total = torch.zeros(2, device=device)
    average = 0.0
    kept = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            total[0] += loss * len(x)
            average = 0.9 * average + 0.1 * loss
            kept.append(loss)  # expect: VF001
    return total

# case: a method of a network whose caller holds no_grad
import torch
import torch.nn.functional as F
class SAGE(torch.nn.Module):
    def __init__(self, convs):
        super().__init__()
        self.convs = torch.nn.ModuleList(convs)
    def forward(self, x, edge_index):
        for conv in self.convs:
            x = conv(x, edge_index)
        return x
    def inference(self, x_all, subgraph_loader, device):
        for conv in self.convs:
            xs = []
            for batch in subgraph_loader:
                x = conv(x_all[batch.n_id].to(device), batch.edge_index.to(device))
                xs.append(F.elu(x).cpu())
            x_all = torch.cat(xs, dim=0)
        return x_all

# case: an optimizer in a wrapper of the file, stepped by a scaler
import torch
class Noam:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.n = 0
    def step(self):
        self.n += 1
        self.optimizer.step()
    def zero_grad(self):
        self.optimizer.zero_grad()
def train(model, loader, criterion, scaler, use_amp):
    optimizer = Noam(torch.optim.Adam(model.parameters()))
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        if use_amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
