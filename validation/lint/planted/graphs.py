# case: full-batch GCN, evaluation function with gradients
import torch
import torch.nn.functional as F
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import GCNConv

class GCN(torch.nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.c1, self.c2 = GCNConv(i, h), GCNConv(h, o)

    def forward(self, x, ei):
        return self.c2(F.dropout(self.c1(x, ei).relu(), training=self.training), ei)

ds = Planetoid("/tmp/cora", "Cora")
device = torch.device("cuda")
data = ds[0].to(device)
model = GCN(ds.num_features, 16, ds.num_classes).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def train():
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return loss.item()

def test():
    model.eval()
    pred = model(data.x, data.edge_index).argmax(1)  # expect: VF003
    return [(pred[m] == data.y[m]).float().mean().item() for m in (data.train_mask, data.val_mask, data.test_mask)]

for epoch in range(200):
    print(epoch, train(), *test())
# case: graph classification, epoch loss summed as a tensor weighted by graphs
import torch
from torch_geometric.loader import DataLoader
from net import GINet

def train(ds):
    loader = DataLoader(ds, batch_size=64, shuffle=True)
    gin = GINet(ds.num_features, ds.num_classes).to("cuda")
    opt = torch.optim.Adam(gin.parameters(), 1e-3)
    for epoch in range(100):
        acc = 0
        for g in loader:
            g = g.to("cuda")
            opt.zero_grad()
            nll = torch.nn.functional.cross_entropy(gin(g.x, g.edge_index, g.batch), g.y)
            nll.backward()
            opt.step()
            acc = acc + nll * g.num_graphs  # expect: VF001
        print(epoch, acc / len(ds))
# case: link prediction with node embeddings, clean with no_grad decorator
import torch
from torch_geometric.utils import negative_sampling
from vgae import Encoder, decode

@torch.no_grad()
def test(encoder, data):
    encoder.eval()
    z = encoder(data.x, data.edge_index)
    return decode(z, data.edge_label_index).sigmoid().cpu().numpy()

def main(train_data, test_data):
    encoder = Encoder().cuda()
    train_data, test_data = train_data.cuda(), test_data.cuda()
    optimizer = torch.optim.Adam(encoder.parameters())
    best = 0
    for epoch in range(300):
        encoder.train()
        optimizer.zero_grad()
        z = encoder(train_data.x, train_data.edge_index)
        neg = negative_sampling(train_data.edge_index)
        loss = -decode(z, train_data.edge_index).sigmoid().log().mean() - (1 - decode(z, neg).sigmoid()).log().mean()
        loss.backward()
        optimizer.step()
        best = max(best, test(encoder, test_data).mean())
    return best
# case: molecule property regression, anomaly mode left on
import dgl
import torch
from qm9 import QM9Loader
from schnet import SchNet

torch.autograd.set_detect_anomaly(True)  # expect: VF017
net = SchNet(64, 3).cuda()
optim = torch.optim.Adam(net.parameters(), lr=5e-4)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(optim)
for epoch in range(500):
    mae = 0.0
    for graph, target in QM9Loader(batch=32, split="train"):
        graph, target = graph.to("cuda"), target.to("cuda")
        optim.zero_grad()
        err = (net(graph) - target).abs().mean()
        err.backward()
        optim.step()
        mae += err.item()
    sched.step(mae)
# case: force field needs create_graph in training and evaluation keeps predictions
import torch
from ff.nequip import Potential

def forces(model, pos, z, training):
    pos.requires_grad_(True)
    e = model(z, pos)
    f = -torch.autograd.grad(e.sum(), pos, create_graph=training)[0]
    return e, f

def run(model, train_dl, val_dl, opt):
    model.cuda()
    for z, pos, e_ref, f_ref in train_dl:
        opt.zero_grad()
        e, f = forces(model, pos.cuda(), z.cuda(), True)
        loss = (e - e_ref.cuda()).pow(2).mean() + 100 * (f - f_ref.cuda()).pow(2).mean()
        loss.backward()
        opt.step()
    energies = []
    for z, pos, e_ref, f_ref in val_dl:
        e, f = forces(model, pos.cuda(), z.cuda(), False)
        energies.append(e)  # expect: VF002
    return torch.cat(energies).mean().item()
# case: neighbour sampling with historical embeddings kept without detach
import torch
from sage import SAGE

class HistoryTrainer:
    def __init__(self, n_nodes, dim, device):
        self.device = device
        self.model = SAGE(dim).to(device)
        self.opt = torch.optim.Adam(self.model.parameters())
        self.history = {}

    def epoch(self, sampler):
        for nodes, blocks, y in sampler:
            h = self.model(blocks.to(self.device))
            loss = torch.nn.functional.cross_entropy(h, y.to(self.device))
            self.opt.zero_grad()  # expect: VF006
            loss.backward()
            self.opt.step()
            for k, n in enumerate(nodes.tolist()):
                self.history[n] = h[k]  # expect: VF002
# case: temporal graph network that detaches its memory, clean
import torch
from tgn import TGN

def train(stream, n_nodes):
    tgn = TGN(n_nodes, 100).to("cuda")
    opt = torch.optim.Adam(tgn.parameters(), lr=1e-4)
    memory = torch.zeros(n_nodes, 100, device="cuda")
    losses = []
    for src, dst, t, msg in stream:
        opt.zero_grad()
        memory, score = tgn(memory, src.cuda(), dst.cuda(), t.cuda(), msg.cuda())
        loss = torch.nn.functional.binary_cross_entropy_with_logits(score, torch.ones_like(score))
        loss.backward()
        opt.step()
        memory = memory.detach()
        losses.append(loss.detach().cpu())
    return torch.stack(losses).mean()
# case: knowledge graph embeddings, memory carried over with its graph
import torch
from torch import nn

class TransE(nn.Module):
    def __init__(self, n, r, d):
        super().__init__()
        self.e, self.r = nn.Embedding(n, d), nn.Embedding(r, d)

    def score(self, h, r, t):
        return (self.e(h) + self.r(r) - self.e(t)).norm(dim=-1)

def rank(model, triples, n):
    ranks = []
    for h, r, t in triples:
        every = torch.arange(n, device="cuda")
        s = model.score(h.cuda().expand(n), r.cuda().expand(n), every)
        ranks.append(s)  # expect: VF002
    return ranks

def main(train_triples, test_triples, n, r):
    model = TransE(n, r, 200).cuda()
    opt = torch.optim.Adagrad(model.parameters(), 0.1)
    for h, rel, t, neg in train_triples:
        opt.zero_grad()
        loss = torch.relu(1 + model.score(h.cuda(), rel.cuda(), t.cuda()) - model.score(h.cuda(), rel.cuda(), neg.cuda())).mean()
        loss.backward()
        opt.step()
    return rank(model, test_triples, n)
