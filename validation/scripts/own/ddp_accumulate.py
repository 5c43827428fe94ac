"""torchrun style: a transformer encoder, gradients accumulated with no_sync, clipping, a reduced loss."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group(backend="nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
device = torch.device("cuda", local_rank)
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self, words=8000, width=512, tags=40):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 8, 2048, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(width, tags)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


data = TensorDataset(torch.randint(0, 8000, (512, 128)), torch.randint(0, 40, (512, 128)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler, drop_last=True)
model = DDP(Tagger().to(device), device_ids=[local_rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    sampler.set_epoch(epoch)
    for number, (tokens, tags) in enumerate(loader):
        is_last = number % 2 == 1
        model.require_backward_grad_sync = is_last
        outputs = model(tokens.to(device))
        loss = criterion(outputs.flatten(0, 1), tags.to(device).flatten())
        (loss / 2).backward()
        if is_last:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    total = loss.detach()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(epoch, float(total) / dist.get_world_size())
dist.destroy_process_group()
