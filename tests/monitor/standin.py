"""Builds the NVML stand-in and makes its scenarios."""

import json
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20


def target():
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def build():
    """The folder with libnvidia-ml.so.1."""
    place = target() / "standin"
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", str(ROOT / "tests/standin/Cargo.toml")]
    subprocess.run([*command, "--target-dir", str(place)], check=True)
    folder = place / "lib"
    folder.mkdir(exist_ok=True)
    shutil.copy(place / "release/libnvidia_ml.so", folder / "libnvidia-ml.so.1")
    return folder


def gpu(index, processes):
    """An ordinary GPU; every third has no fan."""
    total = (81559 if index % 2 == 0 else 24576) * MIB
    used = total * (index + 1) // 17
    on_it = [pid for place, pid in enumerate(processes) if (place + index) % 3 != 0]
    return dict(
        name="NVIDIA H100 80GB HBM3" if index % 2 == 0 else "NVIDIA GeForce RTX 3090",
        uuid=f"GPU-{index:08x}-0000-1111-2222-333344445555",
        temperature=28 + 4 * index,
        fan=None if index % 3 == 2 else 9 * index % 101,
        memory=dict(total=total, used=used, free=total - used - 300 * MIB, reserved=300 * MIB),
        utilization=17 * index % 101,
        encoder=11 * index % 101,
        decoder=None if index == 5 else 3,
        power=61_999 + 40_000 * index,
        power_limit=700_000,
        compute=[dict(pid=pid, memory=(300 + 17 * place) * MIB + 4095, utilization=5) for place, pid in enumerate(on_it)],
        graphics=[dict(pid=pid, memory=(300 + 17 * place) * MIB + 4095) for place, pid in enumerate(on_it[:1])],
    )


def write(path, scenario):
    beside = pathlib.Path(f"{path}.part")
    beside.write_text(json.dumps(scenario))
    beside.replace(path)


def environment(folder, scenario):
    return dict(os.environ, LD_LIBRARY_PATH=str(folder), NVML_STANDIN_SCENARIO=str(scenario), TERM="xterm-256color")
