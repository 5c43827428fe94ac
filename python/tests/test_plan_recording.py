"""``vramfit plan`` on the recording of a script: what it says of a change is what the changed script needs."""

import json
import os
import subprocess
import sys
import textwrap

from vramfit.binary import find_binary

HERE = os.path.dirname(os.path.abspath(__file__))

SCRIPT = """
import torch
from torch import nn
g = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1536), nn.Tanh()).cuda()
d = nn.Sequential(nn.Linear(1536, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
seen = []
for _ in range(6):
    real = torch.randn(1024, 1536).cuda()
    fake = g(torch.randn(1024, 64, device="cuda"))
    loss_d = (d(fake.detach()) - d(real)).mean()
    od.zero_grad()
    loss_d.backward()
    od.step()
    made = g(torch.randn(1024, 64, device="cuda"))
    loss_g = -d(made).mean()
    og.zero_grad()
    loss_g.backward()
    og.step()
    kept = made * 2
    seen.append(kept)
"""
"""A GAN with a graph that nobody uses, late ``zero_grad``, results that outlive their last use, and a leak."""

MENDED = """
import torch
from torch import nn
g = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1536), nn.Tanh()).cuda()
d = nn.Sequential(nn.Linear(1536, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for _ in range(6):
    real = torch.randn(1024, 1536).cuda()
    with torch.no_grad():
        fake = g(torch.randn(1024, 64, device="cuda"))
    loss_d = (d(fake.detach()) - d(real)).mean()
    del real, fake
    loss_d.backward()
    od.step()
    made = g(torch.randn(1024, 64, device="cuda"))
    loss_g = -d(made).mean()
    loss_g.backward()
    od.zero_grad()
    og.step()
    og.zero_grad()
    with torch.no_grad():
        kept = made * 2
    del made, kept
"""


def vramfit(tmp_path, *words):
    environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, "..")}
    return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)


def run(tmp_path, script, *options):
    (tmp_path / "train.py").write_text(textwrap.dedent(script))
    done = vramfit(tmp_path, sys.executable, "-m", "vramfit", "run", "--json", *options, "train.py")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def plan(tmp_path, *options):
    done = vramfit(tmp_path, find_binary(), "plan", "train.vramfit", "--json", *options)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_all_changes_together_need_what_the_changed_script_needs(tmp_path):
    settings = ("--alloc-conf", "expandable_segments:True,max_split_size_mb:128")
    start = run(tmp_path, SCRIPT, "--out", "train.vramfit", *settings)
    code, answer = plan(tmp_path, "--vram", "8MiB", *settings)
    assert code == 1 and answer["plans"] == [] and answer["fit"]["verdict"] == "does-not-fit"
    assert answer["start"]["peak_allocated"] == start["peak_allocated"]
    found = [(change["trick"], change["lines"][0]) for change in answer["leanest"]["changes"]]
    assert ("no_grad", "train.py:10") in found
    assert ("kept results", "train.py:20") in found
    assert ("del", "train.py:9") in found and ("del", "train.py:10") in found
    mended = run(tmp_path, MENDED, *settings)
    assert answer["leanest"]["peak_allocated"] == mended["peak_allocated"] < start["peak_allocated"]


def test_zero_grad_right_after_the_update_needs_what_it_says(tmp_path):
    late = """
    import torch
    from torch import nn
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        noise = torch.randn(65536, 512, device="cuda").sigmoid().mean()
        loss = model(torch.randn(64, 512, device="cuda")).square().mean() + noise
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    start = run(tmp_path, late, "--out", "train.vramfit")
    _, answer = plan(tmp_path, "--vram", "8MiB")
    change = next(change for change in answer["alone"] if change["trick"] == "zero_grad")
    assert change["lines"] == ["train.py:9", "train.py:11"]
    lines = [line for line in late.splitlines() if "zero_grad" not in line]
    early = run(tmp_path, "\n".join([*lines[:-1], "        optimizer.zero_grad()"]))
    assert change["saving_allocated"] == start["peak_allocated"] - early["peak_allocated"] > 0


def test_the_plan_has_the_fewest_changes_that_fit(tmp_path):
    start = run(tmp_path, SCRIPT, "--out", "train.vramfit")
    _, all_together = plan(tmp_path, "--vram", "8MiB")
    between = (start["peak_reserved"] + all_together["leanest"]["peak_reserved"]) // 2
    code, answer = plan(tmp_path, "--vram", str(between), "--margin", "0")
    assert code == 0 and answer["max_batch"] is None
    best = answer["plans"][0]
    assert 0 < len(best["changes"]) < len(all_together["leanest"]["changes"])
    assert best["peak_reserved"] <= between and best["effect"] == "none" and best["slowdown"] == 1.0
    code, answer = plan(tmp_path, "--gpu", "RTX 3060")
    assert code == 0 and answer["plans"][0]["changes"] == []


def test_flags_that_describe_a_training_are_refused(tmp_path):
    run(tmp_path, SCRIPT, "--out", "train.vramfit")
    code, error = plan(tmp_path, "--vram", "1GiB", "--batch", "4")
    assert code == 2 and "--batch does not change it" in error and "record it again" in " ".join(error.split())


def test_a_script_that_does_not_fit_is_led_to_plan(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-m", "vramfit", "run", "--vram", "64MiB"]
    words = " ".join(vramfit(tmp_path, *command, "train.py").stdout.split())
    assert "try `vramfit run --out train.vramfit train.py && vramfit plan train.vramfit --vram 67108864`" in words
    words = " ".join(vramfit(tmp_path, *command, "--steps", "3", "train.py", "--bs", "5 12").stdout.split())
    assert "try `vramfit run --out train.vramfit --steps 3 train.py --bs '5 12' && vramfit plan train.vramfit --vram 67108864`" in words
    words = " ".join(vramfit(tmp_path, *command, "--out", "train.vramfit", "train.py").stdout.split())
    assert "try `vramfit plan train.vramfit --vram 67108864`" in words
    assert vramfit(tmp_path, find_binary(), "plan", "train.vramfit", "--vram", "67108864").returncode == 1
