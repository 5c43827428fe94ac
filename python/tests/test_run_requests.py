"""The requests that ``vramfit run`` simulates for short scripts."""

import os
import pickle
import subprocess
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))


def requests(tmp_path, text):
    """What a script's simulated run allocates and frees, as signs with rounded sizes, and the operators that have no rule."""
    path, snapshot = tmp_path / "train.py", tmp_path / "snapshot.pickle"
    path.write_text(textwrap.dedent(text))
    environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, ".."), "VRAMFIT_CUDNN": "off"}
    command = [sys.executable, "-m", "vramfit", "run", "--json", "--through-eval", "--gpu", "H200", "--snapshot", str(snapshot), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    with open(snapshot, "rb") as file:
        events = pickle.load(file)["device_traces"][0]
    signs = {"alloc": "+", "free_completed": "-"}
    return [(signs[event["action"]], -(-event["size"] // 512) * 512) for event in events if event["action"] in signs], done.stdout


def test_a_module_that_the_script_drops_is_freed(tmp_path):
    found, _ = requests(tmp_path, """
        import copy, torch
        model = torch.nn.Linear(1000, 1000, device="cuda")
        for step in range(4):
            other = copy.deepcopy(model)
            loss = torch.nn.CrossEntropyLoss(weight=torch.ones(1000, device="cuda"))(other(torch.randn(8, 1000, device="cuda")), torch.zeros(8, device="cuda", dtype=torch.long))
            del loss
        marker = torch.empty(77 << 10, device="cuda")
    """)
    until = found.index(("+", 4 * (77 << 10)))
    assert sum(1 if sign == "+" else -1 for sign, size in found[:until] if size == -(-4 * 1000 * 1000 // 512) * 512) == 2


def test_gradients_of_a_tensor_written_through_a_view_are_followed_with_create_graph(tmp_path):
    found, _ = requests(tmp_path, """
        import torch
        x = torch.randn(8, 3, 16, 16, device="cuda", requires_grad=True)
        critic = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.InstanceNorm2d(4, affine=True), torch.nn.LeakyReLU(0.2, inplace=True)).cuda()
        gradient = torch.autograd.grad(critic(x).sum(), x, create_graph=True)[0]
        ((gradient.flatten(1).norm(dim=1) - 1) ** 2).mean().backward()
    """)
    assert found
