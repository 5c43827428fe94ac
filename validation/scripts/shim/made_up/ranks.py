"""The first of several ranks on one GPU (`MADE_UP_WORLD`): PyTorch's fake process group answers for the others."""

import os


def set_variables():
    """What torchrun sets."""
    world = os.environ["MADE_UP_WORLD"]
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=world, LOCAL_WORLD_SIZE=world, MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")


def replace(torch):
    """Changes `torch`, when it has been imported."""
    import torch.distributed as distributed
    from torch.nn.parallel import DistributedDataParallel
    from torch.testing._internal.distributed.fake_pg import FakeStore

    world = int(os.environ["MADE_UP_WORLD"])
    join, wrap = distributed.init_process_group, DistributedDataParallel.__init__

    def answered(_, bucket):
        # The fake all-reduce's future holds no tensor, which the reducer refuses.
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def wrapped(model, *arguments, **named):
        wrap(model, *arguments, **named)
        model.register_comm_hook(None, answered)

    def spawn(function, args=(), *_, **__):
        function(0, *args)

    distributed.init_process_group = lambda *_, **__: join("fake", store=FakeStore(), rank=0, world_size=world)
    DistributedDataParallel.__init__ = wrapped
    torch.multiprocessing.spawn = spawn
    if torch.cuda.is_available():
        # CUDA itself is asked while it begins.
        torch.cuda.init()
        torch.cuda.device_count = lambda: world
