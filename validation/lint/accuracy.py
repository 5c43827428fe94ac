"""What `vramfit lint` finds in public repositories, judged by reading: precision and recall from the tables in `judged/`.

    python3 validation/lint/accuracy.py judged/first.tsv
    python3 validation/lint/accuracy.py judged/first.tsv --vramfit target/release/vramfit --checkouts FOLDER

`--at-most 4` also counts precision with at most four findings of each rule in a repository: a larger group counts as four findings,
with the share of right ones that it has. Intervals are Wilson's, of 95 %.

The second form runs lint on checkouts of the repositories (`FOLDER/owner+name`, at the commits of the table) and compares: which
judged lines it still reports, and what it reports that nobody has judged yet.

A table has one row per line, separated by tabs:

    repository  owner/name  commit
    read        owner/name  file                        a script drawn at random and read: the mistakes in it are below
    finding     owner/name  file  line  code  verdict   `right`, `wrong`, or `missed`; in a notebook the line is `cell:line`

An empty repository or file is that of the row above.
"""

import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys


def rows(path):
    above = ["", ""]
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        fields = line.split("\t")
        expected = {"repository": 3, "read": 3, "finding": 6}.get(fields[0])
        if expected != len(fields):
            sys.exit(f"{path}:{number}: expected a row of repository, read or finding, found {line!r}")
        fields[1] = fields[1] or above[0]
        if fields[0] != "repository":
            fields[2] = fields[2] or above[1]
        if "" in fields:
            sys.exit(f"{path}:{number}: an empty field, and no row above to take it from: {line!r}")
        above = [fields[1], "" if fields[0] == "repository" else fields[2]]
        yield fields


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def interval(part, whole):
    """Wilson's interval of 95 % for a share, as text."""
    if not whole:
        return "-"
    z = 1.959964
    centre = (part + z * z / 2) / (whole + z * z)
    half = z * math.sqrt(part * (whole - part) / whole + z * z / 4) / (whole + z * z)
    return f"{100 * (centre - half):.1f} to {100 * (centre + half):.1f} %"


def share(name, part, whole):
    counted = f"{part:g} of {whole:g}" if part == int(part) else f"{part:.1f} of {whole:g}"
    return f"{name} {percent(part, whole)} ({counted}; {interval(part, whole)})"


def limited(judged, at_most):
    """Right findings and all of them, where a group of one repository and rule counts as at most so many."""
    groups = collections.defaultdict(collections.Counter)
    for repository, _, _, code, verdict in judged:
        if verdict != "missed":
            groups[repository, code][verdict] += 1
    right = whole = 0
    for count in groups.values():
        size = count["right"] + count["wrong"]
        right += count["right"] * min(size, at_most) / size
        whole += min(size, at_most)
    return right, whole


def summary(path, at_most):
    verdicts, read, judged, repositories = collections.defaultdict(collections.Counter), set(), [], 0
    for kind, repository, *rest in rows(path):
        if kind == "repository":
            repositories += 1
        elif kind == "read":
            read.add((repository, rest[0]))
        else:
            judged.append((repository, *rest))
    in_read = collections.defaultdict(collections.Counter)
    for repository, file, _, code, verdict in judged:
        verdicts[code][verdict] += 1
        if (repository, file) in read:
            in_read[code][verdict] += 1
    with_findings = {(repository, file) for repository, file, *_, verdict in judged if verdict != "missed"}
    print(f"{repositories} repositories; {len(read)} scripts read, {len(read - with_findings)} of them without findings\n")
    print("| rule | findings | right | wrong | right in scripts read | missed in scripts read |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    total, total_read = collections.Counter(), collections.Counter()
    for code in sorted(verdicts):
        count, of_read = verdicts[code], in_read[code]
        total.update(count)
        total_read.update(of_read)
        found = count["right"] + count["wrong"]
        print(f"| {code} | {found} | {count['right']} | {count['wrong']} | {of_read['right']} | {of_read['missed']} |")
    found = total["right"] + total["wrong"]
    print(f"| all | {found} | {total['right']} | {total['wrong']} | {total_read['right']} | {total_read['missed']} |")
    there = total_read["right"] + total_read["missed"]
    print("\n" + share("precision", total["right"], found))
    print(share("recall", total_read["right"], there))
    if at_most:
        print(share(f"precision with at most {at_most} findings of a rule in a repository", *limited(judged, at_most)))


def compare(path, vramfit, checkouts):
    judged = {}
    for kind, repository, *rest in rows(path):
        if kind == "finding":
            file, line, code, verdict = rest
            judged[(repository, file, line, code)] = verdict
    folders = [checkouts / repository.replace("/", "+") for kind, repository, *_ in rows(path) if kind == "repository"]
    absent = [folder for folder in folders if not folder.is_dir()]
    if absent:
        sys.exit(f"{len(absent)} of {len(folders)} checkouts are missing, the first is {absent[0]}")
    result = subprocess.run([vramfit, "lint", "--json", *folders], capture_output=True, text=True)
    if not result.stdout:
        sys.exit(result.stderr)
    reported = set()
    findings = [finding for finding in json.loads(result.stdout) if finding["code"] != "not-checked"]
    for finding in findings:
        owner, file = str(pathlib.Path(finding["file"]).relative_to(checkouts)).split("/", 1)
        line = f"{finding['cell']}:{finding['line']}" if finding.get("cell") else str(finding["line"])
        reported.add((owner.replace("+", "/", 1), file, line, finding["code"]))
    outcome = collections.Counter((verdict, key in reported) for key, verdict in judged.items())
    for verdict in ("right", "missed", "wrong"):
        print(f"judged {verdict}: {outcome[verdict, True]} reported, {outcome[verdict, False]} not")
    for key in sorted(key for key, verdict in judged.items() if (verdict == "wrong") == (key in reported)):
        print(f"  {'reported' if key in reported else 'silent'}\t{judged[key]}\t" + "\t".join(key))
    for key in sorted(reported - set(judged)):
        print("  not judged\t" + "\t".join(key))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="a table of verdicts")
    parser.add_argument("--vramfit", help="the program to compare with the verdicts")
    parser.add_argument("--checkouts", type=pathlib.Path, help="the folder with the repositories")
    parser.add_argument("--at-most", type=int, help="also count at most so many findings of each rule in a repository")
    arguments = parser.parse_args()
    if arguments.at_most is not None and arguments.at_most < 1:
        parser.error(f"--at-most needs a number of at least 1, found {arguments.at_most}")
    if (arguments.vramfit is None) != (arguments.checkouts is None):
        parser.error("--vramfit and --checkouts go together")
    if arguments.vramfit:
        compare(arguments.table, arguments.vramfit, arguments.checkouts)
    else:
        summary(arguments.table, arguments.at_most)


if __name__ == "__main__":
    main()
