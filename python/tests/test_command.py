"""``python -m vramfit`` captures models by name, passes everything else to the binary, and reports errors."""

import io
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
import torch
import vramfit
from replay import load
from vramfit import binary
from vramfit.__main__ import main
from vramfit.command import target
from vramfit.command.shapes import parse
from vramfit.progress import Progress

MODELS = '''
import torch
from torch import nn

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 3)
    def forward(self, ids, mask=None):
        x, _ = self.lstm(self.embed(ids))
        return self.head(x.mean(1))

instance = nn.Linear(4, 2)

def build():
    return Tiny()

def with_all():
    return nn.Linear(4, 3), torch.randn(2, 4), torch.randint(0, 3, (2,)), nn.functional.cross_entropy

def tied():
    model = nn.Module()
    model.one, model.two = nn.Linear(4, 4), nn.Linear(4, 4)
    model.two.weight = model.one.weight
    return model

def looks():
    model = nn.Linear(4, 2)
    assert float(model.weight.sum()) == float(model.weight.sum())
    return model

def needs(size):
    return nn.Linear(size, 2)

def broken():
    raise KeyError("nothing here")

def number():
    return 3

def trains():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters())
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    open("trained", "w").close()

def steps():
    model = nn.Linear(4, 2)
    model.weight.grad = torch.zeros_like(model.weight)
    torch.optim.AdamW(model.parameters()).step()
    open("trained", "w").close()

def parses():
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=4)
    return nn.Linear(parser.parse_args().width, 2)

def wants():
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("width")
    return nn.Linear(int(parser.parse_args().width), 2)

class Decides(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(7, 7)
    def forward(self, x):
        y = self.linear(x)
        return y[y > 0]

def loss(outputs, targets):
    return outputs.square().mean()

def differentiates():
    model = nn.Linear(4, 2)
    torch.autograd.grad(model(torch.randn(3, 4)).sum(), list(model.parameters()))
    return model
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_models.py").write_text(MODELS)
    yield tmp_path
    sys.modules.pop("my_models", None)


def capture(*arguments):
    return main(["capture", *arguments])


@pytest.mark.parametrize("arguments, sizes", [
    (("my_models.py:build", "--input", "ids=4x7:int64"), ["batch", "seq"]),
    (("my_models.py:Tiny", "--input", "ids=4x7:int64:50", "--target", "4"), ["batch", "seq"]),
    (("my_models.py:instance", "--input", "input=3x4", "--loss", "mean"), ["batch"]),
    (("my_models.py:with_all",), ["batch"]),
    (("my_models.py:parses", "--input", "input=3x4", "--loss", "mean"), ["batch"]),
    (("my_models.py:looks", "--input", "input=3x4", "--loss", "my_models.py:loss"), ["batch"]),
    (("my_models.py:instance", "--input", "input=3x5x4", "--size", "input=batch,length,4", "--loss", "mean"), ["batch", "length"]),
    (("torchvision.models:squeezenet1_1", "--input", "x=2x3x64x64", "--target", "2:int64:1000"), ["batch"]),
], ids=lambda value: value[0] if isinstance(value[0], str) and ":" in value[0] else "")
def test_a_model_is_captured_by_its_name(here, capsys, arguments, sizes):
    assert capture(*arguments, "--out", "out.vramfit") == 0
    said = capsys.readouterr().out
    assert "out.vramfit: " in said and "next: vramfit estimate out.vramfit" in said
    answer = vramfit.estimate("out.vramfit", batch=8)
    assert sorted(answer.settings["sizes"]) == sorted(sizes) and answer.settings["sizes"]["batch"] == 8


def test_a_file_that_imports_dynamo_is_captured(here):
    """Dynamo's table of torch's functions refuses two names for one function."""
    (here / "compiled.py").write_text("import torch\nimport torch._dynamo\ndef build():\n    return torch.nn.Linear(4, 2)\n")
    command = [sys.executable, "-m", "vramfit", "capture", "compiled.py:build", "--input", "input=3x4", "--loss", "mean", "--precision", "as-built", "--mode", "train"]
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(vramfit.__file__).parents[1])}
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_weights_take_no_memory_and_stay_tied(here):
    model = target.build("my_models.py:tied").model
    assert model.one.weight is model.two.weight and model.one.weight.is_meta
    assert all(weight.is_meta for weight in target.build("my_models.py:build").model.parameters())
    assert not target.build("my_models.py:looks").model.weight.is_meta
    assert torch.nn.Module.register_parameter.__module__ == "torch.nn.modules.module"


@pytest.mark.parametrize("arguments, said", [
    (("my_models.py:build",), "forward(ids, mask=None)"),
    (("my_models.py:bild",), "did you mean build?"),
    (("no_such_file.py:build",), "there is no file"),
    (("no.such.module:build",), "there is no module 'no.such.module'"),
    (("my_models",), "needed package.module:name"),
    (("my_models.py:needs",), "needs size"),
    (("my_models.py:broken",), "my_models.py:38 in broken: KeyError"),
    (("my_models.py:number",), "returned int"),
    (("my_models.py:trains",), "called backward, needed code that only builds a model\n\nhint: name a function that returns the model; `python -m vramfit run my_models.py`"),
    (("my_models.py:differentiates",), "called autograd.grad, needed code"),
    (("my_models.py:steps",), "called AdamW.step, needed"),
    (("my_models.py:build", "--input", "idz=4x7:int64"), "takes no 'idz'"),
    (("my_models.py:build", "--input", "ids=4y7"), "found shape '4y7'"),
    (("my_models.py:build", "--input", "ids=0x7"), "sizes from 1 on"),
    (("my_models.py:build", "--input", "ids"), "needed NAME=SHAPE"),
    (("my_models.py:build", "--input", "ids=4x7:int7"), "found dtype 'int7'"),
    (("my_models.py:build", "--input", "ids=4x7:int64:x"), "found bound 'x'"),
    (("my_models.py:build", "--input", "ids=4x7", "--input", "ids=4x7"), "ids twice"),
    (("my_models.py:build", "--input", "ids=4x7:int64", "--loss", "hinge"), "--loss: found 'hinge'"),
    (("my_models.py:build", "--input", "ids=4x7:int64", "--size", "ids"), "--size: found 'ids'"),
    (("my_models.py:build", "--input", "ids=4x7"), "my_models.py:12 in forward: the model's forward failed with TypeError: an embedding"),
    (("my_models.py:Decides", "--input", "x=4x7:float32", "--share", "7"), "share: found 7.0"),
    (("my_models.py:build", "--input", "ids=4x7:int64", "--out", "no/such/folder/x"), "no/such/folder/x: "),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_what_is_wrong_is_said(here, capsys, arguments, said):
    assert capture(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and said in error, error
    assert sorted(path.name for path in here.iterdir() if path.name != "__pycache__") == ["my_models.py"]


def test_a_builder_that_reads_arguments_sees_none_of_the_commands_own(here, capsys):
    assert capture("my_models.py:wants") == 2
    error = capsys.readouterr().err
    assert "my_models.py: error: the following arguments are required: width" in error
    assert "error: my_models.py:wants: ended the program (2), needed a function that returns a model" in error


def test_what_is_assumed_of_weights_is_noted_with_its_line(here, capsys):
    command = ("my_models.py:Decides", "--input", "x=4x7:float32", "--loss", "mean", "--precision", "fp32", "--mode", "train")
    assert capture(*command, "--out", "one.vramfit", "--share", "0.25") == 0
    assert "my_models.py:74 in forward: the size of the result of aten.index.Tensor" in capsys.readouterr().err


def test_only_the_asked_precision_and_mode_are_recorded(here):
    command = ("my_models.py:instance", "--input", "input=4x4", "--loss", "mean", "--out", "one.vramfit", "--precision", "amp-bf16", "--mode", "train")
    assert capture(*command) == 0
    contents = load("one.vramfit")
    assert [(variant["precision"], variant["mode"]) for variant in contents["variants"]] == [("amp-bf16", "train")]


def test_everything_else_goes_to_the_binary():
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(os.path.abspath(vramfit.__file__))))
    command = [sys.executable, "-m", "vramfit", "estimate", "bert-base", "--batch", "4", "--json"]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 0 and json.loads(done.stdout)["model"] == "bert-base"
    assert subprocess.run([*command, "--batchs"], capture_output=True, env=environment).returncode == 2


def test_the_command_needs_no_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch here', name='torch')")
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(tmp_path), os.path.dirname(os.path.dirname(os.path.abspath(vramfit.__file__)))]))
    program = "import vramfit; print(vramfit.estimate('bert-base', batch=4).peak_allocated, len(dir(vramfit)), vramfit.__version__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([sys.executable, "-m", "vramfit", "capture", "x:y"], capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and "pip install torch" in done.stderr
    done = subprocess.run([sys.executable, "-c", "import vramfit; vramfit.Estimate; vramfit.capture"], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "needs torch: pip install torch" in done.stderr


def test_the_binary_is_looked_for_where_it_may_be(monkeypatch, tmp_path):
    from vramfit import binary

    monkeypatch.setenv("VRAMFIT_BINARY", str(tmp_path / "nothing"))
    with pytest.raises(vramfit.BinaryNotFound, match="VRAMFIT_BINARY"):
        vramfit.find_binary()
    monkeypatch.delenv("VRAMFIT_BINARY")
    monkeypatch.setattr(binary, "_places", lambda: iter([str(tmp_path / "one")]))
    with pytest.raises(vramfit.BinaryNotFound, match="pip install"):
        vramfit.find_binary()
    (tmp_path / "one").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "one").chmod(0o755)
    assert vramfit.find_binary() == str(tmp_path / "one")


def test_integers_lie_below_their_bound():
    assert int(parse("--input", "ids=400:int64:3").tensor(100).max()) == 2
    assert int(parse("--input", "ids=400:int64").tensor(5).max()) == 4
    assert bool((parse("--input", "attention_mask=4x3:int64").tensor(5) == 1).all())


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_a_search_says_how_far_it_is_and_that_is_no_part_of_its_error(monkeypatch, tmp_path):
    program = tmp_path / "vramfit"
    program.write_text("#!/bin/sh\necho '12 candidates simulated, 15 s; Ctrl-C stops' >&2\necho 'error: no' >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("VRAMFIT_BINARY", str(program))
    said = []
    with pytest.raises(vramfit.VramfitError, match="^no$"):
        binary.run(["plan"], said.append)
    assert said == ["12 candidates simulated"]


class Stream(io.StringIO):
    """A stream that may claim to be a terminal."""

    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


def progress_lines(is_terminal, waits, seconds):
    stream = Stream(is_terminal)
    with Progress(stream, waits) as progress:
        progress.at("importing torch")
        time.sleep(seconds)
        progress.at("building it")
        time.sleep(seconds)
    return stream.getvalue()


def test_long_work_says_what_it_is_at_line_by_line_in_a_log():
    lines = progress_lines(False, (0.05, 0.05), 0.3).splitlines()
    assert lines[0] == "importing torch (0 s)" and lines[-1] == "building it (1 s)"


def test_long_work_writes_over_one_line_of_a_terminal_and_leaves_none():
    text = progress_lines(True, (0.05, 0.05), 0.3)
    assert "\n" not in text and "\r\x1b[Kimporting torch (0 s)" in text and text.endswith("\r\x1b[K")


def test_short_work_says_nothing():
    assert progress_lines(False, (5.0, 15.0), 0.01) == progress_lines(True, (1.0, 1.0), 0.01) == ""


def test_a_capture_tells_each_precision_and_mode_that_it_records(tmp_path):
    stages = []
    vramfit.capture(torch.nn.Linear(4, 2), torch.randn(3, 4), tmp_path / "a.vramfit", loss=lambda outputs, _: outputs.mean(), progress=stages.append)
    assert stages[0] == "recording fp32 train, 1 of 15" and stages[-1] == "recording amp-fp16 eval-grad, 15 of 15"
