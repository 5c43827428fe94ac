"""What scripts do to host memory moves the addresses that CUDA uses: pinned blocks, and weights that the host frees."""

import pickle
import sys

import torch
from test_run import answered, recorded
from vramfit.running.host_memory import PinnedBatches, PinnedBlocks, kept_when_freed


def steps_of(script, name):
    return [step[2] for step in script.recorder.steps if step[0] == "call" and script.session.rows[step[1]][0] == f"vramfit.{name}"]


def test_a_pinned_block_is_used_again_when_its_tensor_is_dropped():
    made = []
    blocks = PinnedBlocks(made.append)
    first, second = torch.zeros(1000), torch.zeros(600)
    blocks.hold(first)
    blocks.hold(second)
    del first
    third = torch.zeros(1024)
    blocks.hold(third)
    blocks.hold(torch.zeros(0))
    assert made == [4096, 4096]


def test_with_workers_batches_are_pinned_ahead():
    made = []
    batches = PinnedBatches(PinnedBlocks(made.append), 4)
    for left in reversed(range(8)):
        batch = {"x": torch.zeros(3000), "names": ["a"]}
        batches.next(batch, left)
    assert made == [16384] * 5


def test_without_workers_a_loader_pins_one_batch_at_a_time(tmp_path):
    script = recorded(tmp_path, """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        loader = DataLoader(TensorDataset(torch.randn(32, 256), torch.arange(32)), 8, pin_memory=True)
        assert loader.pin_memory
        for x, y in loader:
            x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        torch.zeros(3000).pin_memory().cuda()
    """)
    # A batch is dropped when the next one has been pinned.
    assert [size for size, in steps_of(script, "pinned")] == [8192, 64, 8192, 64, 16384]


def test_what_the_host_keeps_depends_on_what_was_imported(monkeypatch):
    for name in ("transformers", "torchvision", "timm"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert kept_when_freed() == (1 << 20) - 1
    monkeypatch.setitem(sys.modules, "timm", sys)
    assert kept_when_freed() == (2 << 20) - 1
    monkeypatch.setitem(sys.modules, "transformers", sys)
    assert kept_when_freed() == (4 << 20) - 1


def test_a_value_that_is_read_takes_addresses_once(tmp_path):
    addresses = []
    for reads in ("x", "x.item(), x.item()", "x.item(), torch.zeros(1 << 19).pin_memory()"):
        answered(tmp_path, f"""
            import torch
            x = torch.ones((), device="cuda")
            {reads}
            kept = [torch.ones(1 << 18, device="cuda") for _ in range(3)]
        """, "--snapshot", "train.pickle")
        with open(tmp_path / "train.pickle", "rb") as file:
            events = pickle.load(file)["device_traces"][0]
        first, second = [event["addr"] for event in events if event["action"] == "segment_alloc"]
        addresses.append((second - first) >> 20)
    nothing, once, pinned = addresses
    assert (once, pinned) == (nothing + 2, nothing + 4)
