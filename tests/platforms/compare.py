"""Runs the same commands with two builds of vramfit and compares output, errors and exit code, byte for byte.

    python3 tests/platforms/compare.py target/debug/vramfit "wine vramfit.exe"

The second may be several words. Paths are relative to the repository, where both run; what both write is compared too.
"""

import difflib
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

# A cuDNN of this machine would change the answers of one of them.
os.environ["VRAMFIT_CUDNN"] = "off"

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERT = "estimate bert-base --batch 32 --seq 128"
RECORDING = "validation/recordings/bert.cap-low.pickle.gz"
COMMANDS = [
    "--version",
    "--help",
    "estimate --help",
    BERT,
    f"{BERT} --json",
    f"{BERT} --gpu 'RTX 3060' --json",
    f"{BERT} --amp bf16 --checkpoint blocks --color=always",
    "estimate resnet50 --batch 64 --vram 6GiB --json",
    "estimate crates/readers/tests/toml/convolutions.toml --json",
    "estimate crates/readers/tests/toml/decoder.vramfit --json",
    "estimate crates/readers/tests/archives/tiny-2.15.pt2 --json",
    "estimate gpt2 --batch 4 --html {page}",
    "layers resnet18 --batch 8 --json",
    "layers bert-base --batch 8",
    "models",
    "models --json",
    "catalogue",
    "catalogue --json",
    "plan gpt2 --batch 16 --gpu 'RTX 3060' --json",
    "plan resnet50 --batch 256 --vram 8GiB --html {page}",
    "max-batch resnet50 --vram 8GiB --json",
    f"explain {RECORDING}",
    f"explain {RECORDING} --json",
    f"explain {RECORDING} --html {{page}}",
    f"replay {RECORDING} --json",
    f"replay {RECORDING} --summary",
    "lint crates/lint/corpus/vf001.py crates/lint/corpus/vf003.py",
    "lint crates/lint/corpus/vf002.py --format sarif",
    "gpus --demo --no-color",
    "gpus --demo --json",
    "gpus --demo -cpu -m",
    "completions bash",
    "man",
    # What goes wrong.
    "estimate no-such-model",
    "estimate no-such-folder/model.toml",
    "estimate bert-base --batch none",
    "explain Cargo.toml",
    "lint no-such-file.py",
    "top --demo",
    "",
]


def run(program, command, page):
    words = shlex.split(command.format(page=page.name))
    done = subprocess.run([*program, *words], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    written = page.read_bytes() if page.exists() else b""
    page.unlink(missing_ok=True)
    return {"exit code": str(done.returncode).encode(), "output": done.stdout, "errors": done.stderr, "page": written}


def main(first, second):
    differing = 0
    # In the repository, so that both are given the same name for it.
    with tempfile.NamedTemporaryFile(dir=ROOT, prefix="page-", suffix=".html") as reserved:
        page = pathlib.Path(reserved.name)
        page.unlink()
        for command in COMMANDS:
            one, other = run(shlex.split(first), command, page), run(shlex.split(second), command, page)
            unlike = [what for what in one if one[what] != other[what]]
            print(f"{'differs in ' + ', '.join(unlike) if unlike else 'same'}: vramfit {command}", flush=True)
            for what in unlike:
                lines = [part[what].decode("utf-8", "replace").splitlines() for part in (one, other)]
                print("\n".join(list(difflib.unified_diff(*lines, lineterm="", n=0))[:20]))
            differing += bool(unlike)
        page.touch()
    print(f"{len(COMMANDS) - differing} of {len(COMMANDS)} the same")
    return differing


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
