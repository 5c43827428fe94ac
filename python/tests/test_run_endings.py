"""How a run ends: files that cannot be written, scripts that leave their folder or end themselves, other processes."""

import os

import pytest
from test_run import recorded, written
from vramfit.__main__ import main
from vramfit.running.script import ScriptError


@pytest.mark.parametrize("flag", ["--out", "--html", "--snapshot"])
def test_a_file_that_cannot_be_written_is_refused_before_the_script_runs(tmp_path, monkeypatch, capsys, flag):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    script = written(tmp_path, "open('ran', 'w')")
    for path, message in (("nowhere/x", "there is no folder nowhere"), ("folder", "found a folder, needed a file")):
        assert main(["run", flag, path, script]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_files_are_written_where_the_command_began_though_the_script_goes_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = written(tmp_path, "import os, tempfile, torch\nos.chdir(tempfile.mkdtemp())\ntorch.zeros(3).cuda()")
    assert main(["run", "--out", "train.vramfit", "--html", "train.html", "--snapshot", "train.pickle", script]) == 0
    assert {"train.vramfit", "train.html", "train.pickle"} <= set(os.listdir(tmp_path))


def test_a_script_that_ends_its_process_at_once_gets_its_answer(tmp_path):
    text = "import os, torch\nif os.fork() == 0:\n    os._exit(0)\nos.wait()\ntorch.zeros(3).cuda()\nos._exit({status})"
    assert recorded(tmp_path, text.format(status=0)).end == "exit"
    with pytest.raises(ScriptError, match="exit code 3"):
        recorded(tmp_path, text.format(status=3))


def test_a_gpu_that_another_process_uses_is_named(tmp_path):
    with pytest.raises(ScriptError) as problem:
        recorded(tmp_path, "raise RuntimeError('Found no NVIDIA driver on your system.')")
    assert "only the script's own process" in str(problem.value.hint)
