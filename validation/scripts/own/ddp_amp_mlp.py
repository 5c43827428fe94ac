"""autocast with a GradScaler, DDP over a wide MLP, evaluation under no_grad through the wrapped model."""

import os

import torch
from torch import distributed, nn

distributed.init_process_group("nccl")
rank = int(os.environ.get("LOCAL_RANK", 0))
torch.cuda.set_device(rank)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(784, 4096), nn.GELU(), nn.LayerNorm(4096), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 10)).cuda()
net = nn.parallel.DistributedDataParallel(net, device_ids=[rank], bucket_cap_mb=50)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(256, 784).cuda(), torch.randint(0, 10, (256,)).cuda()
for step in range(8):
    net.train()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 4 == 3:
        net.eval()
        with torch.no_grad():
            right = (net(x).argmax(1) == y).float().mean()
        distributed.all_reduce(right)
        if distributed.get_rank() == 0:
            print(step, float(right))
