"""The random numbers of a seeded script on the host, which decide on shuffled data and lengths: those of a run with a GPU."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any, List

import pytest

from vramfit.running.cuda import Gpu
from vramfit.running.script import Limits, record

DRAWS = """
import torch
from torch import nn
torch.manual_seed(5)

def look(what):
    shown.append((what, torch.randperm(1000)[:3].tolist()))

shown = []
"""


def with_a_cpu_only(text: str) -> List[Any]:
    """What the script shows when Python runs it."""
    done = subprocess.run([sys.executable, "-c", text + "\nprint(shown)"], capture_output=True, text=True, check=True)
    return eval(done.stdout.splitlines()[-1])  # noqa: S307 - what the script above printed


@pytest.fixture
def agrees(tmp_path: Any, monkeypatch: Any) -> Any:
    """Checks that a script draws the same numbers under the recorder; the text shows them by ``look``."""
    monkeypatch.chdir(tmp_path)

    def check(text: str) -> None:
        text = DRAWS + textwrap.dedent(text)
        wanted = with_a_cpu_only(text)
        assert len(wanted) > 0
        (tmp_path / "script.py").write_text(text + f"\nassert shown == {wanted!r}, shown\n")
        record("script.py", [], Gpu("NVIDIA H200", (9, 0), 150 << 30, 132), Limits(None, True))

    return check


def test_initialised_weights_draw_as_many_numbers(agrees: Any) -> None:
    agrees("""
        layer = nn.Linear(30, 40); look("linear")
        large = nn.Linear(1100, 1000); look("large linear")
        nn.init.normal_(large.weight); look("normal")
        nn.init.normal_(layer.bias[:7]); look("a few normal ones")
        nn.init.normal_(large.weight.data.t()); look("normal ones that are not contiguous")
        nn.init.trunc_normal_(layer.weight); look("truncated")
        nn.init.orthogonal_(layer.weight); look("orthogonal")
        nn.LSTM(10, 20, 2); look("recurrent")
        torch.randn(1100, 1000); look("large data")
        nn.functional.dropout(layer.weight, 0.5); look("dropout")
        nn.Linear(10, 10, dtype=torch.float64); look("double")
    """)


def test_a_new_seed_or_state_ends_what_was_left_out(agrees: Any) -> None:
    agrees("""
        nn.Linear(1100, 1000); torch.manual_seed(5); look("seeded")
        nn.Linear(30, 40); state = torch.get_rng_state(); look("state read")
        nn.Linear(30, 40); torch.set_rng_state(state); look("state set")
    """)


def test_generators_of_a_script_go_on(agrees: Any) -> None:
    agrees("""
        generator = torch.Generator().manual_seed(1)
        weight = nn.Parameter(torch.empty(30, 40))
        nn.init.normal_(weight, generator=generator)
        shown.append(torch.randperm(9, generator=generator).tolist()); look("the default one")
    """)


def test_numbers_of_the_gpu_are_not_the_hosts(agrees: Any) -> None:
    agrees("""
        if torch.cuda.is_available():
            first, second = (torch.randint(0, 1000, (50,), device="cuda") for _ in range(2))
            assert first.tolist() != second.tolist()
            torch.randn(100, device="cuda"); nn.Linear(4, 4, device="cuda"); torch.randn(9).cuda().uniform_()
        else:
            torch.randn(9)
        look("host")
    """)


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_shuffle_and_change_items_as_with_a_gpu(agrees: Any, workers: int) -> None:
    agrees(f"""
        import random, numpy

        class Items(torch.utils.data.Dataset):
            def __len__(self):
                return 9

            def __getitem__(self, at):
                worker = torch.utils.data.get_worker_info()
                return at, torch.randint(0, 999, (1,)), random.randrange(999), numpy.random.randint(999), -1 if worker is None else worker.id

        nn.Linear(30, 40)
        random.seed(1); numpy.random.seed(1)
        loader = torch.utils.data.DataLoader(Items(), batch_size=2, shuffle=True, num_workers={workers})
        for epoch in range(2):
            for batch in loader:
                shown.append([column.flatten().tolist() for column in batch])
            look("main process")
            shown.append((random.randrange(999), numpy.random.randint(999)))
    """)


def test_workers_collate_large_tensors_whose_values_are_not_computed(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent("""
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        seen = []
        class Items(TensorDataset):
            def __getitem__(self, index):
                seen.append(torch.utils.data.get_worker_info().id)
                return super().__getitem__(index)
        net = torch.nn.Linear(3 * 64 * 64, 10).cuda()
        for images, labels in DataLoader(Items(torch.randn(512, 3 * 64 * 64), torch.zeros(512)), batch_size=128, num_workers=2):
            net(images.cuda()).sum().backward()
        assert seen == [number for number in (0, 1, 0, 1) for _ in range(128)], seen
    """))
    record(str(script), [], Gpu("NVIDIA H200", (9, 0), 150 << 30, 132), Limits(None, False))


@pytest.mark.parametrize("workers", [0, 2])
def test_items_mix_large_tensors_without_values_with_small_ones(tmp_path: Any, monkeypatch: Any, workers: int) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(f"""
        import torch
        from torch.utils.data import DataLoader, Dataset
        shapes = []
        class Noisy(Dataset):
            def __init__(self):
                self.images = torch.rand(800, 3, 32, 32)
            def __len__(self):
                return 32
            def __getitem__(self, index):
                image = self.images[index] + 0.1 * torch.randn(3, 32, 32)
                return image if float(image.mean()) > 2 else torch.where(torch.rand(32, 32) > 0.5, image, torch.zeros(3, 32, 32))
        net = torch.nn.Linear(3 * 32 * 32, 10).cuda()
        for images in DataLoader(Noisy(), batch_size=8, num_workers={workers}):
            net(images.flatten(1).cuda()).sum().backward()
            shapes.append(tuple(images.shape))
        assert shapes == [(8, 3, 32, 32)] * 4, shapes
    """))
    record(str(script), [], Gpu("NVIDIA H200", (9, 0), 150 << 30, 132), Limits(None, False))
