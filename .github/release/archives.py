"""Packs the program of every wheel into an archive for those who use no Python, with a SHA256SUMS file beside them.

python3 .github/release/archives.py WHEELS OUT

The program and the engine for browsers beside it are the wheel's own, byte for byte. Completions and manual pages are the same on all systems; the Linux x86-64 program, which
runs on this machine, writes them.
"""

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]
PROGRAM, ENGINE = ".data/scripts/vramfit", ".data/data/share/vramfit/vramfit_browser.wasm"
SHELLS = ["bash", "elvish", "fish", "powershell", "zsh"]
# How a wheel's platform tag begins, how it ends, and the target that cargo calls it.
TARGETS = [
    ("manylinux", "x86_64", "x86_64-unknown-linux-gnu"),
    ("manylinux", "aarch64", "aarch64-unknown-linux-gnu"),
    ("macosx", "arm64", "aarch64-apple-darwin"),
    ("macosx", "x86_64", "x86_64-apple-darwin"),
    ("win", "amd64", "x86_64-pc-windows-msvc"),
]


def target_of(wheel: Path) -> str:
    platform = wheel.stem.split("-")[-1]
    for start, end, target in TARGETS:
        if platform.startswith(start) and platform.endswith(end):
            return target
    sys.exit(f"archives: {wheel.name} is for a platform that TARGETS does not name")


def file_of(wheel: Path, where: str) -> "tuple[str, bytes]":
    """The name and the bytes of the wheel's file that has this in its path."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if where in name:
                return name.rsplit("/", 1)[1], archive.read(name)
    sys.exit(f"archives: {wheel.name} holds no {where}")


def generated(program: bytes) -> "dict[str, bytes]":
    """What the program writes about itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vramfit"
        path.write_bytes(program)
        path.chmod(0o755)
        files = {f"completions/vramfit.{shell}": subprocess.check_output([path, "completions", shell]) for shell in SHELLS}
        manual = Path(folder) / "man"
        manual.mkdir()
        subprocess.run([path, "man", manual], check=True, stdout=subprocess.DEVNULL)
        files.update({f"man/{page.name}": page.read_bytes() for page in sorted(manual.iterdir())})
    return files


def pack(path: Path, program: str, files: "dict[str, bytes]") -> None:
    folder = path.name.removesuffix(".zip").removesuffix(".tar.gz")
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(f"{folder}/{name}", content)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            member.mode = 0o755 if name == program else 0o644
            archive.addfile(member, io.BytesIO(content))


def main(wheels: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    programs = {target_of(wheel): file_of(wheel, PROGRAM) for wheel in sorted(wheels.glob("*.whl"))}
    some = next(iter(wheels.glob("*.whl")))
    version = some.name.split("-")[1]
    common = {name: (ROOT / name).read_bytes() for name in DOCUMENTS}
    common.update([file_of(some, ENGINE)])
    common.update(generated(programs["x86_64-unknown-linux-gnu"][1]))
    sums = []
    for target, (name, program) in programs.items():
        path = out / f"vramfit-{version}-{target}{'.zip' if name.endswith('.exe') else '.tar.gz'}"
        pack(path, name, {name: program, **common})
        sums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    (out / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
