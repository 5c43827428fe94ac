"""Which cuDNN is asked: the one that is named, else that of the interpreter's own torch."""

import importlib.machinery
import importlib.util

import pytest
import vramfit
from vramfit.asking.cudnn import own_library


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder in place of site-packages: only what is put there is found."""
    def find(name):
        folder = tmp_path.joinpath(*name.split("."))
        if not folder.is_dir():
            raise ModuleNotFoundError(name)
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec

    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.delenv("VRAMFIT_CUDNN", raising=False)
    return tmp_path


def put(folder):
    (folder / "lib").mkdir(parents=True)
    library = folder / "lib" / "libcudnn.so.9"
    library.write_bytes(b"\x7fELF, but no library")
    return str(library)


def test_the_wheel_of_nvidia_comes_before_torch(packages, monkeypatch):
    assert own_library() is None
    (packages / "torch").mkdir()
    assert own_library() is None
    in_torch = put(packages / "torch")
    assert own_library() == in_torch
    in_wheel = put(packages / "nvidia" / "cudnn")
    assert own_library() == in_wheel
    monkeypatch.setenv("VRAMFIT_CUDNN", "off")
    assert own_library() is None


def test_an_estimate_names_the_library_and_why_it_did_not_answer(packages, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(packages / "cache"))
    library = put(packages / "torch")
    answer = vramfit.estimate("resnet18", batch=3, gpu="RTX 3060")
    assert answer.cudnn is not None and answer.cudnn.library == library and answer.cudnn.version is None
    assert answer.cudnn.failure and answer.cudnn.asked == answer.cudnn.unanswered > 0
    off = vramfit.estimate("resnet18", batch=3, gpu="RTX 3060", cudnn="off")
    assert off.cudnn is None and off.peak_reserved == answer.peak_reserved and off.range == answer.range


def test_a_named_path_without_a_cudnn_is_refused(tmp_path):
    with pytest.raises(vramfit.VramfitError, match="no libcudnn.so.9 there"):
        vramfit.estimate("resnet18", cudnn=tmp_path)


def test_the_tests_themselves_do_not_depend_on_an_installed_cudnn():
    assert vramfit.estimate("resnet18", batch=3, gpu="RTX 3060").cudnn is None
