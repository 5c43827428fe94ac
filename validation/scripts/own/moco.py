"""MoCo: a momentum encoder and a queue of keys in a buffer that is written in place."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision


class MoCo(nn.Module):
    def __init__(self, dim=128, K=512, m=0.99, T=0.07):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = torchvision.models.resnet18(num_classes=dim)
        self.encoder_k = torchvision.models.resnet18(num_classes=dim)
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data.copy_(q.data)
            k.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data = k.data * self.m + q.data * (1.0 - self.m)

    @torch.no_grad()
    def _enqueue(self, keys):
        ptr, n = int(self.queue_ptr), keys.shape[0]
        assert self.K % n == 0
        self.queue[:, ptr:ptr + n] = keys.T
        self.queue_ptr[0] = (ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update()
            order = torch.randperm(im_k.size(0)).cuda()
            k = F.normalize(self.encoder_k(im_k[order]), dim=1)[torch.argsort(order)]
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        self._enqueue(k)
        return logits, torch.zeros(logits.shape[0], dtype=torch.long).cuda()


model = MoCo().cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.03, momentum=0.9, weight_decay=1e-4)
for step in range(4):
    a, b = torch.randn(32, 3, 64, 64).cuda(), torch.randn(32, 3, 64, 64).cuda()
    logits, target = model(a, b)
    loss = F.cross_entropy(logits, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if torch.isnan(loss):
        raise SystemExit("the loss is not a number")
    correct = (logits.topk(5, 1)[1] == target.view(-1, 1)).float().sum().mul_(100 / 32).item()
    print(step, loss.item(), correct)
