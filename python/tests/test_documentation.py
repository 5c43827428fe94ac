"""The examples of docs/python.md run without changes."""

import os
import re
import warnings

import pytest

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "python.md")


def test_the_examples_run_one_after_the_other(tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    pytest.importorskip("lightning")
    with open(PAGE, encoding="utf-8") as stream:
        blocks = re.findall(r"```python\n(.*?)```", stream.read(), re.S)
    assert len(blocks) >= 7
    monkeypatch.chdir(tmp_path)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(compile(block, "docs/python.md", "exec"), names)
    assert names["estimate"].fits and (tmp_path / "estimate.html").exists()
    assert names["plans"].fit.verdict == "does-not-fit" and names["plans"].best.effect == "none"
    assert names["largest"] > 0 and names["answer"].settings["accumulate"] == 2
