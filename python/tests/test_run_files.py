"""``vramfit run`` leaves the user's files as they are. The scripts check what they see themselves."""

from __future__ import annotations

import os
from typing import Any

from test_run_libraries import run  # noqa: F401


def written(name: str, text: str = "mine") -> None:
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w") as file:
        file.write(text)


def read(name: str) -> str:
    with open(name) as file:
        return file.read()


def test_files_that_were_there_are_written_to_in_copies(run: Any) -> None:  # noqa: F811
    written("best.pt")
    written("log.txt")
    written("config.json")
    recorded = run("""
        import os, pathlib, torch
        model = torch.nn.Linear(4, 4).cuda()
        with open("best.pt", "wb") as file:
            torch.save(model.state_dict(), file)
        assert torch.load("best.pt")["weight"].is_cuda
        with open("best.pt", "rb") as file:
            assert not torch.load(file, map_location="cpu")["weight"].is_cuda
        with open("log.txt", "a") as file:
            file.write(" and yours")
        assert open("log.txt").read() == "mine and yours"
        pathlib.Path("config.json").write_text("{}")
        assert pathlib.Path("config.json").read_text() == "{}"
        torch.save(model.state_dict(), "part")
        os.replace("part", "new.pt")
        pathlib.Path("part").write_text("one")
        os.replace("part", "log.txt")
        assert open("log.txt").read() == "one" and not os.path.exists("part")
    """)
    assert [read(name) for name in ("best.pt", "log.txt", "config.json")] == ["mine"] * 3
    assert not os.path.exists("new.pt")
    assert sum("stays as it is" in note for note in recorded.session.notes) >= 3


def test_only_what_a_script_has_made_is_deleted(run: Any) -> None:  # noqa: F811
    written("out/checkpoint-1/weights.bin")
    written("old.txt")
    run("""
        import os, shutil, tempfile
        os.makedirs("out/checkpoint-2")
        with open("out/checkpoint-2/weights.bin", "w") as file:
            file.write("new")
        for name in ("out/checkpoint-1", "out/checkpoint-2"):
            shutil.rmtree(name)
        os.remove("old.txt")
        os.rename("out", "elsewhere")
        with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(dir=folder) as file:
            name = file.name
        assert not os.path.exists(folder) and not os.path.exists(name)
    """)
    assert read("out/checkpoint-1/weights.bin") == read("old.txt") == "mine"
    assert not os.path.exists("out/checkpoint-2") and not os.path.exists("elsewhere")


def test_checkpoints_go_through_streams_and_have_a_size(run: Any) -> None:  # noqa: F811
    run("""
        import io, os, pathlib, torch
        from safetensors.torch import load_model, save_model
        class Binned(torch.nn.Linear):
            def __init__(self):
                super().__init__(8, 8)
                self.register_buffer("edges", torch.linspace(-2, 2, 9))
        model = Binned().cuda()
        stream = io.BytesIO()
        torch.save({"epoch": 2, "model": model.state_dict()}, stream)
        with open("copied.ckpt", "wb") as file:
            file.write(stream.getvalue())
        for source in ("copied.ckpt", io.BytesIO(stream.getvalue())):
            assert torch.load(source)["epoch"] == 2
        torch.save(model.state_dict(), "last.pt")
        assert os.path.getsize("last.pt") == pathlib.Path("last.pt").stat().st_size > 8 * 8 * 4
        save_model(model, "model.safetensors")
        load_model(model, "model.safetensors")
    """)


def test_profilers_and_the_history_of_allocations_are_left_out(run: Any, capfd: Any) -> None:  # noqa: F811
    run("""
        import torch
        from torch.profiler import ProfilerActivity, profile, schedule
        torch.cuda.memory._record_memory_history(max_entries=1000)
        model = torch.nn.Linear(8, 8).cuda()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=1, warmup=1, active=1)) as profiler:
            for _ in range(3):
                model(torch.ones(4, 8, device="cuda")).sum().backward()
                profiler.step()
        assert profiler.key_averages().table(sort_by="cuda_time_total", row_limit=2) == ""
        torch.cuda.memory._dump_snapshot("snapshot.pickle")
    """)
    assert "CUDA" not in capfd.readouterr().err


def test_lengths_of_a_packed_batch_stay_on_the_host(run: Any) -> None:  # noqa: F811
    run("""
        import torch
        from torch.nn.utils.rnn import pack_padded_sequence
        model = torch.nn.LSTM(8, 8, batch_first=True).cuda()
        packed = pack_padded_sequence(torch.randn(4, 10, 8).cuda(), torch.tensor([9, 7, 4, 2]), batch_first=True)
        assert packed.data.is_cuda and not packed.batch_sizes.is_cuda
        model(packed)[0].data.sum().backward()
    """)


def test_places_among_boundaries_exist(run: Any) -> None:  # noqa: F811
    run("""
        import torch
        model, edges = torch.nn.Linear(8, 10).cuda(), torch.linspace(0, 1, 16, device="cuda")
        sure = model(torch.randn(32, 8, device="cuda")).detach().softmax(-1).max(-1).values
        for place in (torch.bucketize(sure, edges, right=True) - 1, torch.bucketize(sure, edges) - 1):
            torch.zeros(15, device="cuda").scatter_add_(0, place, torch.ones_like(sure))
    """)


def test_a_loaders_arguments_keep_their_names(run: Any) -> None:  # noqa: F811
    run("""
        import inspect
        from torch.utils.data import DataLoader
        assert "batch_size" in inspect.signature(DataLoader.__init__).parameters
    """)
