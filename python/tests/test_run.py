"""``python -m vramfit run`` runs a script without a GPU, records what it does to GPU memory, and answers."""

import json
import os
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch
import vramfit
from vramfit.__main__ import main
from vramfit.binary import find_binary
from vramfit.running.cuda import Gpu
from vramfit.running.script import Limits, ScriptError, record

HERE = os.path.dirname(os.path.abspath(__file__))
H200 = Gpu("NVIDIA H200", (9, 0), 150 << 30, 132)

LOOP = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.BatchNorm1d(512), nn.Linear(512, 10)).cuda().train()
x, y = torch.randn(32, 64).cuda(), torch.randint(0, 10, (32,)).cuda()
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    outputs = model(x)
    loss = nn.functional.cross_entropy(outputs, y)
    loss.backward()
    optimizer.step()
"""


def written(tmp_path, text, name="train.py"):
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return str(path)


def recorded(tmp_path, text, arguments=(), steps=None):
    return record(written(tmp_path, text), list(arguments), H200, Limits(steps, False))


def answered(tmp_path, text, *options, arguments=()):
    """The JSON answer for a script, from a process of its own."""
    path = written(tmp_path, text)
    environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, "..")}
    command = [sys.executable, "-m", "vramfit", "run", "--json", *options, path, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD", "RMSprop", "Adafactor"])
def test_a_script_needs_what_the_estimate_of_the_same_loop_says(tmp_path, optimizer):
    answer = answered(tmp_path, LOOP.format(optimizer=optimizer))
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.BatchNorm1d(512), torch.nn.Linear(512, 10))
    expected = vramfit.estimate(
        model, torch.randn(32, 64), targets=torch.randint(0, 10, (32,)), loss=torch.nn.functional.cross_entropy, optimizer=optimizer.lower(),
    )
    assert answer["unmodelled"] == []
    assert answer["peak_allocated"] == expected.peak_allocated
    assert answer["peak_reserved"] == expected.peak_reserved
    assert answer["exact"] == expected.exact
    assert answer["parameters"] == sum(one.numel() for one in model.parameters())


def test_a_leaf_that_is_frozen_for_a_while_keeps_its_gradient(tmp_path):
    loop = """
    import torch
    net = torch.nn.Linear(1024, 1024, bias=False).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(8, 1024, device="cuda")
    for _ in range(3):
        {frozen}
        optimizer.zero_grad()
        torch.empty(1 << 23, device="cuda")
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
    """
    toggled = "net.requires_grad_(False); net(x); net.requires_grad_(True)"
    plain, frozen = (answered(tmp_path, loop.format(frozen=line)) for line in ("net(x)", toggled))
    # zero_grad() frees the gradient, although the graph of the last loss has its leaf.
    assert frozen["peak_allocated"] == plain["peak_allocated"]


def test_a_script_that_asks_for_its_memory_sees_none_and_a_note_says_so(tmp_path):
    answer = answered(tmp_path, """
        import torch
        layer = torch.nn.Linear(1000, 1000).cuda()
        for _ in range(3):
            layer(torch.ones(1, 1000, device="cuda"))
            assert torch.cuda.memory_allocated() == torch.cuda.memory.max_memory_reserved(0) == 0
        assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == torch.accelerator.memory_allocated() == 0
        free, total = torch.cuda.mem_get_info()
        assert free == total
    """)
    note, = [note for note in answer["notes"] if note.startswith("memory is simulated when the script has ended")]
    assert "memory_allocated (4 times), max_memory_reserved (3 times), memory_stats, mem_get_info at train.py:6, train.py:7, train.py:8" in note


def test_a_script_that_never_asks_for_its_memory_gets_no_note_about_that(tmp_path):
    assert not [note for note in answered(tmp_path, LOOP.format(optimizer="SGD")).get("notes", []) if "simulated when" in note]


def test_a_recording_is_explained_and_replayed_and_refused_where_a_model_is_needed(tmp_path):
    answer = answered(tmp_path, LOOP.format(optimizer="SGD"), "--out", "train.vramfit")

    def asked(*words):
        return subprocess.run([find_binary(), *words], capture_output=True, text=True, cwd=tmp_path, check=False)

    explained = asked("explain", "train.vramfit", "--json")
    assert explained.returncode in (0, 1) and "simulated run on an H200" in explained.stderr
    assert json.loads(explained.stdout)["peak"]["allocated"] == answer["peak_allocated"]
    replayed = asked("replay", "train.vramfit", "--json")
    assert replayed.returncode == 0 and json.loads(replayed.stdout)["replayed"]["peak_reserved"] == answer["peak_reserved"]
    for words in (["estimate"], ["max-batch", "--gpu", "T4"]):
        refused = asked(words[0], "train.vramfit", *words[1:])
        assert refused.returncode == 2 and "found the recording of a script, needed a model" in refused.stderr
        assert "vramfit run --recording train.vramfit" in " ".join(refused.stderr.split())


def test_a_model_on_the_cpu_stays_there_when_only_its_memory_format_changes(tmp_path):
    moved = """
        import torch
        model = torch.nn.Conv2d(64, 256, 3)
        {before}
        model.to("cuda")
        {after}
        assert next(model.parameters()).is_cuda
    """
    change = "model = model.to(memory_format=torch.channels_last)"
    before, after, none = (answered(tmp_path, moved.format(**words)) for words in (
        {"before": change, "after": ""}, {"before": "", "after": change}, {"before": "", "after": ""},
    ))
    assert before["peak_allocated"] == none["peak_allocated"] < after["peak_allocated"]


def test_a_padded_picture_keeps_its_memory_format(tmp_path):
    answer = answered(tmp_path, """
        import torch
        picture = torch.empty(4, 64, 32, 32, device="cuda", memory_format=torch.channels_last)
        padded = torch.nn.functional.pad(picture, [1, 1, 1, 1])
        same = padded.contiguous(memory_format=torch.channels_last)
    """)
    assert answer["peak_allocated"] == 4 * 64 * (32 * 32 + 34 * 34) * 4


def test_what_is_moved_to_another_memory_format_has_it(tmp_path):
    answer = answered(tmp_path, """
        import torch
        picture = torch.empty(4, 64, 32, 32, device="cuda")
        last = picture.to(memory_format=torch.channels_last)
        same = last.contiguous(memory_format=torch.channels_last)
    """)
    assert answer["peak_allocated"] == 2 * 4 * 64 * 32 * 32 * 4


def test_what_grows_from_step_to_step_is_named_with_its_line(tmp_path):
    answer = answered(tmp_path, """
        import torch
        model = torch.nn.Linear(1000, 1000).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kept = []
        for _ in range(10):
            out = model(torch.randn(256, 1000, device="cuda"))
            optimizer.zero_grad()
            out.sum().backward()
            optimizer.step()
            kept.append(out)
    """)
    leaks = [finding for finding in answer["findings"] if finding["kind"] == "leak"]
    assert len(leaks) == 1
    assert "train.py:7" in leaks[0]["where"]
    assert leaks[0]["per_step"] == 1_024_000


def test_a_weight_that_a_call_returned_as_it_is_gets_its_gradient(tmp_path):
    recorded(tmp_path, """
        import torch
        layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(8, 1)).cuda()
        layer(torch.randn(4, 8, device="cuda")).sum().backward()
        assert all(weight.grad is not None for weight in layer.parameters())
    """)


def test_gradients_of_gradients_are_recorded_as_the_calls_that_autograd_makes(tmp_path):
    script = recorded(tmp_path, """
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).cuda()
        x = torch.randn(4, 8, device="cuda", requires_grad=True)
        out = net(x).sum()
        gradient, = torch.autograd.grad(out, x, create_graph=True)
        (gradient.norm(2) - 1).pow(2).backward()
        assert all(weight.grad is not None for weight in net[0].parameters())
    """)
    names = {script.session.rows[step[1]][0] for step in script.recorder.steps if step[0] == "call"}
    assert {"aten.tanh_backward.default", "aten.mm.default"} <= names
    assert ["create_graph" in cause for cause in script.recorder.causes] == [True]


def test_a_script_sees_the_chosen_gpu(tmp_path):
    script = recorded(tmp_path, """
        import copy, sys, torch
        assert sys.argv[1:] == ["--size", "3"]
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        assert torch.cuda.get_device_name() == "NVIDIA H200"
        assert torch.cuda.get_device_capability() == (9, 0)
        x = torch.zeros(3, device="cuda")
        assert x.is_cuda and x.device == torch.device("cuda:0") and not x.cpu().is_cuda
        weight = torch.nn.Parameter(torch.randn(3)).cuda()
        twin = copy.deepcopy(torch.nn.Linear(3, 3).cuda())
        assert twin.weight.is_cuda and twin.weight.requires_grad and twin.weight.is_leaf
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.synchronize()
        print(x, f"{(twin(x).sum()):.3f}")
        torch.save(twin.state_dict(), "checkpoint.pt")
    """, ["--size", "3"])
    assert script.end == "end"
    assert not torch.cuda.is_available()
    assert not os.path.exists("checkpoint.pt")


def test_a_run_stops_where_steps_repeat_and_after_so_many_steps(tmp_path):
    endless = LOOP.format(optimizer="SGD").replace("for _ in range(3):", "while True:")
    assert recorded(tmp_path, endless).end == "repeated"
    script = recorded(tmp_path, endless, steps=2)
    assert (script.end, script.steps) == ("steps", 2)


def test_a_step_skipped_by_a_scaler_is_not_assumed(tmp_path):
    script = recorded(tmp_path, """
        import torch
        model = torch.nn.Linear(8, 8).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(2):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(torch.randn(4, 8, device="cuda")).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert len(optimizer.state) == 2
    """)
    assert script.steps == 2


_ROUTED = """
    import torch
    from torch.nn import functional as F
    gate, experts = torch.nn.Linear(64, 4).cuda(), [torch.nn.Linear(64, 64).cuda() for _ in range(4)]
    x = torch.randn(200, 64, device="cuda")
    places = gate(x).topk(2, dim=-1).indices
    counts = F.one_hot(places[:, 0], 4)
    for number, expert in enumerate(experts):
        expert(x[torch.where(places == number)[0]]).sum().backward()
"""


def test_a_size_that_depends_on_values_is_named_once_and_one_that_an_argument_says_is_not(tmp_path):
    recorder = recorded(tmp_path, _ROUTED).recorder
    where = "train.py:9 in <module>: the size of the result of aten.nonzero.default depends on values that are computed from the weights"
    assert recorder.causes == [f"{where}; a share of 0.25 was assumed"]
    assert recorder.has_assumed_sizes
    assert not recorded(tmp_path, LOOP.format(optimizer="SGD")).recorder.has_assumed_sizes


def test_assumed_sizes_leave_room_in_the_answer(tmp_path):
    answer = answered(tmp_path, _ROUTED, "--gpu", "H200")
    assert not answer["exact"]
    assert answer["range"]["low"] + (2 << 20) <= answer["peak_allocated"] <= answer["range"]["high"] - (2 << 20)
    assert any(note.startswith("train.py:9 in") for note in answer["notes"])


@pytest.mark.parametrize("text, message", [
    ("x = (", "SyntaxError"),
    ("raise ValueError('no data')", "ValueError: no data"),
    ("import sys; sys.exit(3)", "exit code 3"),
])
def test_a_script_that_fails_is_shown_with_its_own_error(tmp_path, text, message):
    with pytest.raises(ScriptError) as problem:
        recorded(tmp_path, text)
    assert message in str(problem.value)
    assert "vramfit" + os.sep + "running" not in str(problem.value)


@pytest.mark.parametrize("arguments, message", [
    (["run", "nowhere.py"], "there is no such script"),
    (["run"], "found no script"),
    (["run", "--gpu", "GTX 9999", "x.py"], "GTX 9999"),
    (["run", "nb.ipynb"], "found a notebook, needed a Python script"),
    (["run", "parses.py", "--gpu", "3060"], "hint: --gpu was given to the script; options of vramfit come before it: vramfit run --gpu … parses.py"),
])
def test_bad_usage_ends_with_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").write_text("")
    (tmp_path / "nb.ipynb").write_text("{}")
    (tmp_path / "parses.py").write_text("import argparse; argparse.ArgumentParser().parse_args()")
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_script_that_never_reaches_the_gpu_is_told_so(tmp_path, capsys):
    assert main(["run", written(tmp_path, "import torch; torch.zeros(3).sum()")]) == 2
    assert "never put a tensor on the GPU" in capsys.readouterr().err


def test_a_smaller_workspace_of_cudnn_is_no_failure_of_the_run(tmp_path):
    recording = str(tmp_path / "train.vramfit")
    free = answered(tmp_path, """
        import torch
        from torch import nn
        def block(before, after):
            return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2))
        model = nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            x, y = torch.randn(16, 3, 64, 64).cuda(), torch.randint(0, 10, (16,)).cuda()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """, "--out", recording, "--cudnn", "off")
    reserved = []
    for less in (2, 4, 8, 16):
        cap = free["peak_reserved"] - (less << 20)
        _, text = vramfit.binary.run(["run", "--recording", recording, "--cudnn", "off", "--vram", str(cap), "--json"])
        answer = json.loads(text)
        if answer["fit"]["verdict"] == "fits":
            reserved.append(answer["peak_reserved"])
            assert "oom" not in [finding["kind"] for finding in answer["findings"]], less
    assert reserved and max(reserved) < free["peak_reserved"]


def test_a_recording_answers_again_for_another_gpu(tmp_path):
    recording, snapshot = str(tmp_path / "train.vramfit"), str(tmp_path / "train.pickle")
    first = answered(tmp_path, LOOP.format(optimizer="AdamW"), "--out", recording, "--snapshot", snapshot)
    _, text = vramfit.binary.run(["run", "--recording", recording, "--gpu", "RTX 3060", "--json"])
    again = json.loads(text)
    assert again["fit"]["verdict"] == "fits"
    assert again["peak_allocated"] < first["peak_allocated"]
    code, text = vramfit.binary.run(["replay", snapshot, "--json"])
    replayed = json.loads(text)
    assert (code, replayed["mismatches"]) == (0, 0)
    assert replayed["replayed"]["peak_allocated"] == first["peak_allocated"]


def test_a_script_that_cannot_reach_the_hub_is_told_what_it_needs(tmp_path):
    with pytest.raises(vramfit.VramfitError, match="couldn't connect") as refused:
        recorded(tmp_path, "raise OSError(\"We couldn't connect to 'https://huggingface.co' to load the files\")")
    assert "hf download" in refused.value.hint
    with pytest.raises(vramfit.VramfitError) as refused:
        recorded(tmp_path, "raise OSError('no such file')")
    assert refused.value.hint == ""


def test_a_copy_from_the_host_launches_no_kernel(tmp_path):
    script = """
    import torch
    layer = torch.nn.Linear(2048, 2048).cuda()
    layer(torch.ones(8, 2048, device="cuda")).sum().backward()
    """
    answered(tmp_path, script, "--snapshot", "train.pickle")
    with open(tmp_path / "train.pickle", "rb") as file:
        events = pickle.load(file)["device_traces"][0]
    first, second = [event["addr"] for event in events if event["action"] == "segment_alloc"][:2]
    # Measured on an H200: the bias goes into what kernels without local memory leave free in CUDA's first chunk.
    assert first - second == 74 << 20


def test_batches_of_a_loader_leave_no_gaps_that_the_model_goes_into(tmp_path):
    script = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    batches = list(DataLoader(TensorDataset(torch.randn(96, 3, 256, 256)), batch_size=8))
    # The C library keeps blocks of 512 KiB, whatever was imported.
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 256) for _ in range(80))).cuda()
    for (images,) in batches[:2]:
        model[0](images.cuda().flatten()[:512]).sum().backward()
    """
    answered(tmp_path, script, "--snapshot", "train.pickle")
    with open(tmp_path / "train.pickle", "rb") as file:
        events = pickle.load(file)["device_traces"][0]
    addresses = [event["addr"] for event in events if event["action"] == "segment_alloc"]
    assert len(addresses) > 3 and max(addresses) - min(addresses) < 4 << 30


def test_lazy_modules_need_what_those_with_shapes_need(tmp_path):
    script = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    net = nn.Sequential({conv}(8, 3), nn.ReLU(), nn.Flatten(), {linear}(10)).cuda()
    net(torch.randn(16, 3, 8, 8, device="cuda"))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        loss = net(torch.randn(16, 3, 8, 8, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    lazy = answered(tmp_path, script.format(conv="nn.LazyConv2d", linear="nn.LazyLinear"))
    known = answered(tmp_path, script.replace("{conv}(", "nn.Conv2d(3, ").replace("{linear}(", "nn.Linear(288, "))
    assert lazy["peak_allocated"] == known["peak_allocated"]


def test_values_that_numpy_reads_are_not_negative(tmp_path):
    answered(tmp_path, """
    import numpy, torch
    layer = torch.nn.Linear(8, 64).cuda()
    errors = layer(torch.randn(4, 8).cuda()).abs()
    errors.sum().backward()
    chances = (errors.detach().cpu().numpy().ravel() + 1e-6) ** 0.6
    numpy.random.choice(len(chances), p=chances / chances.sum())
    """)
