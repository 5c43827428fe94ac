"""Makes stand-ins for CUDA's large libraries in the current environment, where torch is installed without them.

torch's wheel is linked against 2.7 GB of CUDA libraries and cannot be imported without them. Tests on a CPU only query cuDNN's
version. So each library is replaced by one of a few kilobytes that has the symbols torch needs; calling any other function ends
the process.
"""

import pathlib
import subprocess
import sysconfig
import tempfile

# Below nvidia/, where torch looks: library, prefixes of the symbols that torch needs without a version, version of the others.
LIBRARIES = [
    ("cu13/lib/libcublas.so.13", "cublas", "libcublas.so.13"),
    ("cu13/lib/libcublasLt.so.13", "cublasLt", "libcublasLt.so.13"),
    ("cu13/lib/libcufft.so.12", "cufft", "libcufft.so.12"),
    ("cu13/lib/libcurand.so.10", "curand", None),
    ("cu13/lib/libcusolver.so.12", "cusolver", "libcusolver.so.12"),
    ("cu13/lib/libcusparse.so.12", "cusparse", "libcusparse.so.12"),
    ("cudnn/lib/libcudnn.so.9", "cudnn", "libcudnn.so.9"),
    ("cusparselt/lib/libcusparseLt.so.0", "cusparseLt", None),
    ("nccl/lib/libnccl.so.2", "nccl", None),
    ("nvshmem/lib/libnvshmem_host.so.3", "nvshmem", "NVSHMEM"),
]

# torch chooses the memory format of a convolution's result by cuDNN's version.
ANSWERS = {
    "cudnnGetVersion": "unsigned long cudnnGetVersion(void) { return 91900; }",
    "cudnnGetProperty": "int cudnnGetProperty(int part, int *value) { *value = (int[]){9, 19, 0}[part]; return 0; }",
}


def asked_for(libraries):
    """Every undefined symbol of the libraries with its version, which may be empty."""
    names = set()
    for library in libraries:
        listing = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
        for line in listing.stdout.splitlines():
            name, _, version = line.split()[-1].partition("@")
            names.add((name, version.lstrip("@")))
    return names


def build(path, names, version):
    """A library in which every symbol is a function that aborts, except those with an implementation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "standin.c")
        functions = (ANSWERS.get(name, f"void {name}(void) {{ __builtin_trap(); }}") for name in sorted(names))
        source.write_text("\n".join(functions) + "\n")
        command = ["cc", "-shared", "-fPIC", "-w", "-nostdlib", f"-Wl,-soname,{path.name}", "-o", str(path), str(source)]
        if version:
            versions = pathlib.Path(folder, "versions")
            versions.write_text(f"{version} {{ global: *; }};\n")
            command.append(f"-Wl,--version-script={versions}")
        subprocess.run(command, check=True)


def main():
    site = pathlib.Path(sysconfig.get_path("purelib"))
    names = asked_for(sorted(site.glob("torch/lib/*.so")))
    for library, prefix, version in LIBRARIES:
        wanted = {name for name, asked in names if (asked == version if asked else name.startswith(prefix))}
        build(site / "nvidia" / library, wanted, version)


if __name__ == "__main__":
    main()
