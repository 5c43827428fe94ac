"""Brings the public scripts of `table.toml` to this machine: `python3 checkout.py --into DIR`.

Each repository is fetched from GitHub at the commit of the table. With `--mirror DIR` the commits are read from
bare repositories `DIR/OWNER+NAME/repo` instead, and nothing is fetched. Only the folders named in the table are written.
"""

import argparse
import pathlib
import subprocess
import sys

import table


def git(folder, *arguments):
    return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True).stdout


def fetched(repository, commit, into):
    folder = into / ".git-repositories" / repository.replace("/", "+")
    if not folder.exists():
        folder.mkdir(parents=True)
        git(folder, "init", "--bare", "--quiet")
    git(folder, "fetch", "--quiet", "--depth", "1", f"https://github.com/{repository}", commit)
    return folder


def write(source, commit, prefixes, target):
    """Writes the Python files below the prefixes."""
    names = git(source, "ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0")
    count = 0
    for name in names:
        wanted = any(prefix == "." or name == prefix or name.startswith(prefix + "/") for prefix in prefixes)
        if not wanted or not name.endswith(".py"):
            continue
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(git(source, "show", f"{commit}:{name}"))
        count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=pathlib.Path, required=True, help="the folder for the checkouts")
    parser.add_argument("--mirror", type=pathlib.Path, help="a folder with bare repositories OWNER+NAME/repo to read instead of GitHub")
    options = parser.parse_args()
    for repository, entry in table.repositories().items():
        commit = entry["commit"]
        try:
            if options.mirror:
                source = options.mirror / repository.replace("/", "+") / "repo"
            else:
                source = fetched(repository, commit, options.into)
            count = write(source, commit, entry["folders"], options.into / repository.replace("/", "+"))
        except (subprocess.CalledProcessError, OSError) as problem:
            reason = getattr(problem, "stderr", b"") or str(problem).encode()
            sys.exit(f"{repository} at {commit}: {reason.decode().strip()}")
        print(f"{repository}: {count} files")


if __name__ == "__main__":
    main()
