"""Skip-gram with negative sampling: sparse gradients and SparseAdam."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SkipGram(nn.Module):
    def __init__(self, words=20000, width=128):
        super().__init__()
        self.inside = nn.Embedding(words, width, sparse=True)
        self.outside = nn.Embedding(words, width, sparse=True)

    def forward(self, centre, context, negative):
        c = self.inside(centre)
        good = (c * self.outside(context)).sum(-1)
        bad = torch.bmm(self.outside(negative), c.unsqueeze(-1)).squeeze(-1)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(-1)).mean()


model = SkipGram().cuda()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=1e-3)
for step in range(5):
    centre, context = torch.randint(20000, (512,)).cuda(), torch.randint(20000, (512,)).cuda()
    negative = torch.randint(20000, (512, 5)).cuda()
    optimizer.zero_grad()
    loss = model(centre, context, negative)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
