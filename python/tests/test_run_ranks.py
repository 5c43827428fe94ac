"""``python -m vramfit run --world N`` runs the first rank of a script for several GPUs."""

import os

import pytest
import torch
import vramfit
from test_run import H200, answered, written
from vramfit.errors import VramfitError
from vramfit.running.replicas import by_size, in_order_of_calls
from vramfit.running.script import Limits, record

DDP = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
net = nn.Sequential(*[nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in range(4)]).cuda()
model = DDP(net, device_ids=[rank])
x = torch.randn(64, 512).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    outputs = model(x)
    loss = outputs.mean()
    loss.backward()
    optimizer.step()
assert dist.get_world_size() == 4 and isinstance(model, nn.parallel.DistributedDataParallel)
assert next(iter(model.state_dict())).startswith("module.")
"""


def test_a_rank_needs_what_the_estimate_of_the_same_loop_says(tmp_path):
    answer = answered(tmp_path, DDP, "--world", "4", "--through-eval")
    net = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)) for _ in range(4)]
    )
    expected = vramfit.estimate(net, torch.randn(64, 512), parallel="ddp", world=4, add_loss="mean", steps=3)
    assert (answer["peak_allocated"], answer["peak_reserved"]) == (expected.peak_allocated, expected.peak_reserved)
    assert answer["exact"] is False
    assert any("NCCL takes" in note for note in answer["notes"])
    assert not any("sends" in note for note in answer["notes"]), "what a script sends is not counted"
    assert answer["breakdown"]["communication"] > 0
    assert not [finding for finding in answer.get("findings", []) if finding.get("kind") == "leak"]


def test_spawn_runs_the_first_process_and_collectives_answer(tmp_path):
    text = """
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp

    def worker(rank, world):
        dist.init_process_group("nccl", rank=rank, world_size=world)
        found = [None] * world
        dist.all_gather_object(found, rank)
        value = torch.ones(1, device="cuda")
        work = dist.all_reduce(value, async_op=True)
        work.wait()
        dist.barrier()
        assert found == [0] * world and dist.get_rank() == 0 and world == 3
        dist.destroy_process_group()
        assert not dist.is_initialized()

    if __name__ == "__main__":
        mp.spawn(worker, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
    """
    before = dict(os.environ)
    assert record(written(tmp_path, text), [], H200, Limits(None, False), world=3).end == "end"
    assert dict(os.environ) == before
    assert not torch.distributed.is_initialized() and torch.cuda.device_count() == 0


@pytest.mark.parametrize(
    "line, name",
    [
        ("from torch.distributed.fsdp import fully_shard; fully_shard(torch.nn.Linear(4, 4))", "fully_shard"),
        ("torch.distributed.optim.ZeroRedundancyOptimizer(torch.nn.Linear(4, 4).parameters(), torch.optim.SGD)", "ZeroRedundancyOptimizer"),
        ("torch.distributed.device_mesh.init_device_mesh('cuda', (2,))", "init_device_mesh"),
        ("torch.distributed.init_device_mesh('cuda', (2,))", "init_device_mesh"),
        ("torch.distributed.device_mesh.DeviceMesh('cuda', [0, 1])", "DeviceMesh"),
    ],
)
def test_what_is_not_followed_is_named_with_its_line(tmp_path, line, name):
    text = f"import torch, torch.distributed.optim\ntorch.distributed.init_process_group('nccl')\n{line}\n"
    with pytest.raises(VramfitError, match=f"train.py:3.*found {name}, which `run` does not follow"):
        record(written(tmp_path, text), [], H200, Limits(None, False), world=2)


@pytest.mark.parametrize("line", ["torch.distributed.init_process_group('nccl')", "torch.distributed.device_mesh.init_device_mesh('cuda', (2,))"])
def test_without_a_number_of_gpus_the_flag_is_named(tmp_path, line):
    with pytest.raises(VramfitError, match="needed --world"):
        record(written(tmp_path, f"import torch, torch.distributed\n{line}\n"), [], H200, Limits(None, False))


def test_a_script_for_one_gpu_is_told_that_the_number_changes_nothing(tmp_path):
    text = """
    import torch
    net = torch.nn.Linear(8, 8).cuda()
    net(torch.ones(2, 8).cuda()).sum().backward()
    """
    assert any("made no process group" in note for note in answered(tmp_path, text, "--world", "2")["notes"])


def test_buckets_are_closed_when_they_reach_their_limit():
    weights = [torch.empty(count) for count in (1, 1, 1, 3, 1)]
    assert [len(bucket) for bucket in by_size(weights, [4, 8])] == [1, 2, 1, 1]


def test_a_module_that_is_not_called_belongs_to_the_one_around_it():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16)
    called = [layer, layer.norm2, layer.self_attn, layer.linear1]
    names = {id(weight): name for name, weight in layer.named_parameters()}
    order = [names[id(weight)] for weight in in_order_of_calls(layer, called)]
    assert order.index("self_attn.out_proj.weight") > order.index("norm2.bias")
    assert order.index("linear1.weight") > order.index("self_attn.out_proj.bias")
    assert len(order) == len(names)
