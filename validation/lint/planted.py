"""What `vramfit lint` finds of the mistakes planted in `planted/`, and what else it says there.

    python3 validation/lint/planted.py --vramfit target/debug/vramfit

A file has cases, each headed by `# case: what it shows`; a line with a mistake ends in `# expect: VF001`. `VF001|VF002` is one mistake
that either rule may name. Each case is checked as a file of its own.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import tempfile


def cases(folder):
    for file in sorted(folder.glob("*.py")):
        for case in file.read_text().split("# case: ")[1:]:
            name, source = case.split("\n", 1)
            yield file.stem, name, source


def planted(source):
    """The mistakes of a case: the line, and the rules that may name it."""
    for number, line in enumerate(source.splitlines(), 1):
        if "# expect: " in line:
            for codes in line.split("# expect: ")[1].split(","):
                yield number, frozenset(codes.strip().split("|"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramfit", required=True, help="the program")
    parser.add_argument("--cases", type=pathlib.Path, default=pathlib.Path(__file__).parent / "planted")
    arguments = parser.parse_args()
    found, missed, alarms, clean, alarmed = collections.Counter(), [], [], 0, set()
    for style, name, source in cases(arguments.cases):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script.py")
            script.write_text(source)
            run = subprocess.run([arguments.vramfit, "lint", "--json", script], capture_output=True, text=True)
        reported = {(finding["line"], finding["code"]) for finding in json.loads(run.stdout)}
        mistakes = list(planted(source))
        clean += not mistakes
        for line, codes in mistakes:
            if any((line, code) in reported for code in codes):
                found[style] += 1
            else:
                missed.append((style, name, line, "|".join(sorted(codes))))
        named = {(line, code) for line, codes in mistakes for code in codes}
        for line, code in sorted(reported - named):
            alarms.append((style, name, line, code))
            if not mistakes:
                alarmed.add((style, name))
    total = sum(found.values())
    print(f"{total} of {total + len(missed)} planted mistakes found; {len(alarms)} other findings, in {len(alarmed)} of {clean} clean scripts")
    for what, rows in (("missed", missed), ("not planted", alarms)):
        for row in rows:
            print(what, *row, sep="\t")


if __name__ == "__main__":
    main()
