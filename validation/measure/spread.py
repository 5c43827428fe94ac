"""Spreads a model over ranks, as people write it. The real code of DDP and FSDP2 runs; a fake process group answers for the other ranks.

Its collectives only copy. So NCCL's own memory is not measured, nor what an asynchronous collective holds until it is waited for.
"""

import contextlib
import re

import torch

# The linear layers that tensor parallelism splits by columns and by rows, and the modules whose heads it splits.
COLUMNS = r"\.(q_proj|k_proj|v_proj|query|key|value|q_lin|k_lin|v_lin|gate_proj|up_proj|fc1|lin1|intermediate\.dense)$"
ROWS = r"(?<!classifier)\.(o_proj|out_proj|out_lin|self_attn\.dense|down_proj|fc2|lin2|output\.dense)$"
ATTENTION = r"\.(self_attn|encoder_attn)$"

DTYPES = {"none": None, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def is_spread(case):
    return case.parallel != "none"


def begin(case, device):
    """The process group, before anything is on the GPU."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if device == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case.world)


def blocks(model):
    """The repeated blocks: members of one class, with parts of their own, of a list. Inner ones first, as `fully_shard` needs them."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            members = list(module.children())
            alike = len({type(member) for member in members}) == 1
            if members and alike and all(any(member.children()) for member in members):
                found += [(name.count("."), member) for member in members]
    return [member for _, member in sorted(found, key=lambda pair: -pair[0])]


def replicate(model, case, device):
    """DDP. The fake all-reduce's future holds no tensor, which the reducer refuses: a hook answers at once and allocates nothing."""
    model = torch.nn.parallel.DistributedDataParallel(
        model.to(device),
        device_ids=[0] if device == "cuda" else None,
        gradient_as_bucket_view=case.gradient_as_bucket_view,
        static_graph=case.static_graph,
    )

    def answered(_, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    model.register_comm_hook(None, answered)
    return model


def shard(model, case, device):
    """FSDP2: `fully_shard` moves each group to the GPU and keeps this rank's part."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    if case.parallel.startswith("hsdp:"):
        replicas, shards = (int(part) for part in case.parallel.removeprefix("hsdp:").split("x"))
        mesh = init_device_mesh(device, (replicas, shards), mesh_dim_names=("replicate", "shard"))
    else:
        mesh = init_device_mesh(device, (case.world,))
    after = {"default": None, "true": True, "false": False}
    setting = case.reshard_after_forward
    arguments = {
        "mesh": mesh,
        "reshard_after_forward": after[setting] if setting in after else int(setting),
        "mp_policy": MixedPrecisionPolicy(param_dtype=DTYPES[case.param_dtype], reduce_dtype=DTYPES[case.reduce_dtype]),
        "offload_policy": CPUOffloadPolicy() if case.cpu_offload else OffloadPolicy(),
    }
    if case.shard == "blocks":
        modules = blocks(model)
    else:
        modules = [] if case.shard == "none" else [model.get_submodule(name) for name in case.shard.split(",")]
    for module in modules:
        fully_shard(module, **arguments)
    return fully_shard(model, **arguments)


def split(model, case, device):
    """Tensor parallelism: the linear layers of attention and MLP. Their weights go to the GPU one by one, the rest follows."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(device, (case.world,))
    plan = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            if re.search(COLUMNS, name):
                plan[name] = ColwiseParallel()
            elif re.search(ROWS, name):
                plan[name] = RowwiseParallel()
        elif re.search(ATTENTION, name) and isinstance(getattr(module, "num_heads", None), int):
            # Code that reshapes by this number must see those of this rank.
            module.num_heads //= case.world
    return parallelize_module(model, mesh, plan).to(device)


def spread(model, case, device):
    """The model as this rank trains it."""
    ways = {"ddp": replicate, "zero1": replicate, "tp": split}
    return ways.get(case.parallel, shard)(model, case, device)


def optimizers(case, model):
    """The optimizers of a spread model; `None` where they are those of one GPU."""
    if case.parallel == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return [ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW)]
    if case.parallel == "tp":
        from case_optimizers import make_optimizer
        from torch.distributed.tensor import DTensor

        # One call of a foreach kernel takes either kind.
        weights = list(model.parameters())
        groups = [[weight for weight in weights if isinstance(weight, DTensor) is is_split] for is_split in (True, False)]
        return [make_optimizer(case.optimizer, case.optimizer_impl, [{"params": group} for group in groups if group])]
    return None


def micro_batch(case, model, is_last):
    """A context for a micro-batch: whether it reduces gradients."""
    if not is_spread(case) or case.accumulate == 1:
        return contextlib.nullcontext()
    is_ddp = case.parallel in ("ddp", "zero1")
    skips = case.no_sync == "true" or (case.no_sync == "default" and is_ddp)
    if is_ddp:
        return model.no_sync() if skips and not is_last else contextlib.nullcontext()
    if skips:
        model.set_requires_gradient_sync(is_last)
    return contextlib.nullcontext()
