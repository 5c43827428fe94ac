"""``watch`` without a GPU says so; with one (a stand-in here, a real one in validation/front) it explains a recording."""

import gzip
import io
import os
import shutil

import pytest
import torch
import vramfit

RECORDING = os.path.join(os.path.dirname(__file__), "..", "..", "validation", "recordings", "oom_plain.pickle.gz")


def test_without_a_gpu_the_block_runs_and_a_warning_says_so():
    with pytest.warns(RuntimeWarning, match="no CUDA GPU"):
        with vramfit.watch() as watched:
            done = True
    assert done and not watched.recorded and watched.explanation is None and "no CUDA GPU" in repr(watched)


@pytest.fixture
def gpu(monkeypatch):
    """The functions of torch that ``watch`` calls, answered from a recorded run."""
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: calls.append("reset"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1000)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 2000)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda enabled, **_: calls.append(enabled))

    def dump(path):
        calls.append(path)
        with gzip.open(RECORDING) as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)

    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", dump)
    return calls


def test_an_out_of_memory_error_is_explained_and_goes_on_its_way(gpu, tmp_path):
    said = io.StringIO()
    expected = vramfit.estimate("bert-base", batch=4)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        with vramfit.watch(expected=expected, file=said, html=tmp_path / "page.html") as watched:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    assert gpu[0] == "reset" and gpu[1] == "all" and gpu[3] is None and not os.path.exists(gpu[2])
    assert watched.explanation.oom is not None and watched.out_of_memory is not None and watched.path is None
    assert "36.0 MiB asked for and refused" in said.getvalue() and "ended out of memory" in said.getvalue()
    assert watched.difference == 1000 - expected.peak_allocated and "bytes allocated" in repr(watched)
    assert "<html" in (tmp_path / "page.html").read_text() and "measured" in watched._repr_html_()


def test_a_snapshot_is_kept_where_a_path_is_given(gpu, tmp_path):
    path = tmp_path / "snapshot.pickle"
    with vramfit.watch(path=path, quiet=True) as watched:
        pass
    assert path.exists() and watched.path == str(path) and watched.out_of_memory is None


def test_a_recording_that_cannot_be_explained_spoils_nothing(gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda path: open(path, "wb").close())
    said = io.StringIO()
    with vramfit.watch(file=said) as watched:
        pass
    assert watched.problem and "could not be explained" in said.getvalue()


def test_what_is_no_estimate_is_refused():
    with pytest.raises(vramfit.VramfitError, match="needed what vramfit.estimate returns"):
        vramfit.watch(expected=3)
