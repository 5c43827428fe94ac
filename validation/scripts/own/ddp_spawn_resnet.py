"""spawn style: one process for each GPU, a ResNet with batch norm's buffers, a checkpoint by the first rank."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def worker(rank, world):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29501", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    torch.manual_seed(rank)
    model = torchvision.models.resnet34(num_classes=100).cuda(rank)
    model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for step in range(6):
        images = torch.randn(24, 3, 160, 160).cuda(rank, non_blocking=True)
        labels = torch.randint(0, 100, (24,)).cuda(rank, non_blocking=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 3 == 0:
            print(step, loss.item())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    world = torch.cuda.device_count()
    mp.spawn(worker, args=(world,), nprocs=world, join=True)
