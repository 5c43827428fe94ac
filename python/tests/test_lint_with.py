"""``vramfit lint --with`` says what findings cost in a script that ``vramfit run`` has recorded."""

import json
import subprocess

import vramfit
from test_run import answered

SCRIPT = """
    import torch
    from torch import nn
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept, total = [], 0
    for step in range(6):
        optimizer.zero_grad()
        out = model(torch.randn(1024, 64, device="cuda"))
        loss = out.square().mean()
        loss.backward()
        optimizer.step()
        {keep}
"""


def found(tmp_path, keep):
    recording = str(tmp_path / "train.vramfit")
    answered(tmp_path, SCRIPT.format(keep=keep), "--out", recording, "--steps", "6")
    _, text = vramfit.binary.run(["lint", "--json", "--with", recording, str(tmp_path / "train.py")])
    return {finding["code"]: finding["recorded"] for finding in json.loads(text)}


def test_a_kept_output_costs_its_own_bytes_in_every_iteration(tmp_path):
    recorded = found(tmp_path, "kept.append(out)")["VF002"]
    assert recorded["ran"] and recorded["each"] == 1024 * 256 * 4
    assert recorded["bytes"] == 4 * recorded["each"]


def test_a_loss_that_is_added_up_costs_no_memory_of_the_gpu(tmp_path):
    recorded = found(tmp_path, "total = total + loss")["VF001"]
    assert recorded == {"ran": True, "bytes": 0, "each": 0, "peak_reduction": 0}


def test_a_script_that_has_changed_since_it_was_recorded_is_named(tmp_path):
    found(tmp_path, "kept.append(out)")
    script = tmp_path / "train.py"

    def warned():
        command = [vramfit.binary.find_binary(), "lint", "--with", str(tmp_path / "train.vramfit"), str(script)]
        return "train.py has changed since it was recorded" in subprocess.run(command, capture_output=True, text=True).stderr

    assert not warned()
    script.write_text(script.read_text().replace("range(6)", "range(7)"))
    assert warned()
