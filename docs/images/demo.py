"""Writes demo.svg: a terminal with vramfit's commands and their answers, one after another.

    python3 docs/images/demo.py PATH_OF_VRAMFIT [--check]
    python3 docs/images/demo.py PATH_OF_VRAMFIT --record PYTHON

The commands run; what the picture shows is what they print. With --check nothing is written, and the exit code is 1 if the
picture is not what they print now. The picture repeats; where a system asks for less motion it shows the last screen.

`vramfit run train.py` needs torch and transformers, which records the script; the answer then comes from the recording. Here it comes from the
recording in train.vramfit.xz, so that the picture can be checked without torch. --record makes that file anew with a Python that has both.
"""

import gzip
import html
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile

PICTURE = pathlib.Path(__file__).with_name("demo.svg")
SCRIPT, RECORDING = PICTURE.with_name("train.py"), PICTURE.with_name("train.vramfit.xz")
COMMANDS = [
    "vramfit estimate gpt2 --batch 16 --gpu 3060",
    "vramfit plan gpt2 --batch 16 --gpu 3060",
    "cat train.py",
    "vramfit run --gpu 3060 train.py",
]
COLUMNS, LINES = 82, 25
# Pixels of a letter and of a line; seconds of a screen.
LETTER, LINE, STAY = 8.43, 19, 7.0
STYLE = """
.back {{ fill: #1a1f28; }} .dot {{ fill: #4a5568; }}
text {{ font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #e6e9ef; white-space: pre; }}
.good {{ fill: #7fd8a0; font-weight: 700; }} .bad {{ fill: #ff8a80; font-weight: 700; }} .quiet {{ fill: #9aa5b8; }} .prompt {{ fill: #7fb0ff; }}
.screen {{ visibility: hidden; }}
{screens}
@media (prefers-reduced-motion: reduce) {{ .screen {{ animation: none !important; visibility: hidden; }} .screen:last-of-type {{ visibility: visible; }} }}
"""


def answer(vramfit, command):
    program, *words = command.split()
    if program == "cat":
        return SCRIPT.read_text().rstrip("\n").split("\n")
    environment = {**os.environ, "VRAMFIT_CUDNN": "off", "XDG_CONFIG_HOME": "/nonexistent"}
    with tempfile.TemporaryDirectory() as folder:
        if words[0] == "run":
            recording = pathlib.Path(folder, "train.vramfit")
            recording.write_bytes(lzma.decompress(RECORDING.read_bytes()))
            words = [*words[:-1], "--recording", str(recording)]
        done = subprocess.run([vramfit, *words], capture_output=True, text=True, env=environment)
    if done.returncode not in (0, 1):
        sys.exit(f"{command}: {done.stderr}")
    return done.stdout.rstrip("\n").split("\n")


def record(vramfit, python):
    """Records the script and keeps the recording."""
    paths = {"VRAMFIT_BINARY": os.path.abspath(vramfit), "PYTHONPATH": str(PICTURE.parents[2] / "python")}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "train.vramfit")
        command = [os.path.abspath(python), "-m", "vramfit", "run", "--gpu", "3060", "--out", str(out), SCRIPT.name]
        subprocess.run(command, cwd=SCRIPT.parent, env={**os.environ, **paths, "VRAMFIT_CUDNN": "off"}, check=True)
        RECORDING.write_bytes(lzma.compress(gzip.decompress(out.read_bytes()), preset=9 | lzma.PRESET_EXTREME))


def text(x, y, line, kind=""):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{kind}>{html.escape(line, quote=False)}</text>'


def kind_of(line):
    if line.startswith(("fits", "Recommended", "  + ")):
        return "good"
    if line.startswith(("does not fit", "too close")):
        return "bad"
    return "quiet" if line.startswith(("--verbose", "note:")) else ""


def screen(number, command, lines):
    parts = [f'<g class="screen s{number}">', text(16, 56, "$", "prompt"), text(16 + 2 * LETTER, 56, command)]
    shown = lines if len(lines) < LINES else [*lines[: LINES - 2], "…"]
    for row, line in enumerate(shown, 1):
        if line:
            parts.append(text(16, 56 + LINE * row, line[: COLUMNS - 2], kind_of(line)))
    return "\n".join([*parts, "</g>"])


def picture(vramfit):
    width, height = round(32 + COLUMNS * LETTER), 50 + LINE * (LINES + 1)
    whole = STAY * len(COMMANDS)
    rules, screens = [], []
    for number, command in enumerate(COMMANDS):
        begin, end = (100 * at / len(COMMANDS) for at in (number, number + 1))
        frames = f"0%, {begin:.2f}% {{ visibility: hidden }} {begin + 0.01:.2f}%, {end - 0.01:.2f}% {{ visibility: visible }} {end:.2f}%, 100% {{ visibility: hidden }}"
        rules.append(f"@keyframes k{number} {{ {frames} }} .s{number} {{ animation: k{number} {whole}s step-end infinite; }}")
        screens.append(screen(number, command, answer(vramfit, command)))
    style = STYLE.format(screens="\n".join(rules))
    dots = "".join(f'<circle class="dot" cx="{20 + 20 * dot}" cy="20" r="6"/>' for dot in range(3))
    title = "<title>vramfit estimate, plan and run in a terminal</title>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f'{title}<style>{style}</style><rect class="back" width="{width}" height="{height}" rx="10"/>{dots}\n' + "\n".join(screens) + "\n</svg>\n"
    )


def main():
    arguments = [word for word in sys.argv[1:] if word != "--check"]
    if len(arguments) == 3 and arguments[1] == "--record":
        record(arguments[0], arguments[2])
        arguments = arguments[:1]
    if len(arguments) != 1:
        sys.exit(__doc__)
    made = picture(arguments[0])
    if "--check" not in sys.argv:
        PICTURE.write_text(made)
    elif PICTURE.read_text() != made:
        sys.exit(f"{PICTURE} is not what the commands print; python3 docs/images/demo.py VRAMFIT writes it anew")


if __name__ == "__main__":
    main()
