"""Records what vramfit, nvidia-smi and PyTorch report about one GPU at the same moment.

    python3 measure.py VRAMFIT_BINARY OUTPUT_FOLDER [--cpu]

A PyTorch process goes through stages (first tensor, matrix product, convolution, attention, a training step, idle) and waits at
each while all three are queried. `--cpu` is a dry run without a GPU, which tests only the protocol between the two processes.
"""

import json
import pathlib
import re
import subprocess
import sys
import time

WORKER = r"""
import json, os, sys
import torch
device = sys.argv[1]
cuda = device == "cuda"

def tell(stage):
    if cuda:
        torch.cuda.synchronize()
        values = dict(reserved=torch.cuda.memory_reserved(), allocated=torch.cuda.memory_allocated(),
                      mem_get_info=torch.cuda.mem_get_info(), device=torch.cuda.get_device_name(0))
    else:
        values = dict(reserved=0, allocated=0)
    print(json.dumps(dict(stage=stage, pid=os.getpid(), torch=torch.__version__, cuda=torch.version.cuda, **values)), flush=True)
    sys.stdin.readline()

keep = torch.zeros(1, device=device); tell("first tensor")
a = torch.randn(512, 512, device=device); b = a @ a; tell("matrix product")
conv = torch.nn.Conv2d(64, 64, 3, padding=1).to(device); x = torch.randn(8, 64, 56, 56, device=device)
conv(x).sum().backward(); tell("convolution")
q = torch.randn(2, 8, 128, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward(); tell("attention")
model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(512, 8, batch_first=True), 6).to(device)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad(); model(torch.randn(8, 128, 512, device=device)).sum().backward(); optimizer.step()
tell("training")
big = torch.empty(4 << 30 if cuda else 4 << 10, dtype=torch.uint8, device=device); tell("4 GiB more")
del big
if cuda: torch.cuda.empty_cache()
tell("emptied")
"""


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    return dict(command=[pathlib.Path(command[0]).name, *command[1:]], code=result.returncode, out=result.stdout, err=result.stderr)


def strip(text):
    return re.sub(r"(/[\w.+-]+)+/(python[\w.]*)", r"\2", text)


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    device = "cpu" if "--cpu" in sys.argv else "cuda"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    gpu_keys = "index,uuid,name,temperature.gpu,fan.speed,utilization.gpu,utilization.encoder,utilization.decoder,power.draw,enforced.power.limit,memory.used,memory.total,memory.free,memory.reserved"
    stages = []
    while True:
        line = worker.stdout.readline()
        if not line:
            break
        stage = json.loads(line)
        time.sleep(1.5)  # let power and utilisation settle
        moment = dict(torch=stage)
        moment["vramfit"] = run([binary, "gpus", "--json", "-a"])
        moment["nvidia_smi_gpu"] = run(["nvidia-smi", f"--query-gpu={gpu_keys}", "--format=csv,nounits"]) if device == "cuda" else None
        moment["nvidia_smi_apps"] = run(["nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv,nounits"]) if device == "cuda" else None
        moment["vramfit_again"] = run([binary, "gpus", "--json"])
        if stage["stage"] in ("first tensor", "training"):
            maps = pathlib.Path(f"/proc/{stage['pid']}/maps").read_text().splitlines()
            moment["mapped"] = sorted({pathlib.Path(part[-1]).name for part in (row.split() for row in maps) if len(part) > 5 and ("nvidia" in part[-1] or "cuda" in part[-1] or "torch" in part[-1])})
            moment["device_mappings"] = [row for row in maps if "/dev/nvidia" in row][:200]
        stages.append(moment)
        worker.stdin.write("\n")
        worker.stdin.flush()
    worker.wait()
    (folder / "moments.json").write_text(strip(json.dumps(stages, indent=1)))
    for name, arguments in dict(gpus=["gpus"], cpu=["gpus", "-cpu"], all=["gpus", "-a"], full=["gpus", "-af"], memory=["gpus", "-m"], debug=["gpus", "--debug"], json=["gpus", "--json", "-a"]).items():
        result = run([binary, *arguments])
        (folder / f"idle-{name}.txt").write_text(strip(f"$ vramfit {' '.join(arguments)}\n{result['out']}{result['err']}exit code {result['code']}\n"))
    if device == "cuda":
        (folder / "nvidia-smi.txt").write_text(strip(run(["nvidia-smi"])["out"]))
    busy = subprocess.Popen([sys.executable, "-c", f"import torch\nx = torch.randn(4096, 4096, device='{device}')\nwhile True: x @ x; {'torch.cuda.synchronize()' if device == 'cuda' else 'break'}"])
    time.sleep(8)
    texts = []
    for arguments in (["gpus", "-cpu"], ["gpus", "-a"], ["gpus", "-af"], ["gpus", "-m"], ["gpus", "--json", "-a"]):
        result = run([binary, *arguments])
        texts.append(f"$ vramfit {' '.join(arguments)}\n{result['out']}{result['err']}")
    if device == "cuda":
        texts.append(f"$ nvidia-smi\n{run(['nvidia-smi'])['out']}")
        texts.append(run(["nvidia-smi", f"--query-gpu={gpu_keys}", "--format=csv"])["out"])
        times = []
        for _ in range(20):
            start = time.perf_counter(); run([binary, "gpus", "--json"]); times.append(time.perf_counter() - start)
        smi = []
        for _ in range(5):
            start = time.perf_counter(); run(["nvidia-smi"]); smi.append(time.perf_counter() - start)
        texts.append(f"seconds a whole process: vramfit gpus --json {sorted(times)[10]:.4f}, nvidia-smi {sorted(smi)[2]:.4f}\n")
        recorded = subprocess.Popen([binary, "gpus", "--json", "-i", "0.5", "--record", str(folder / "recording.jsonl")], stdout=subprocess.DEVNULL)
        time.sleep(6); recorded.terminate(); recorded.wait()
    busy.kill(); busy.wait()
    (folder / "busy.txt").write_text(strip("\n".join(texts)))


main()
