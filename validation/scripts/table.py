"""Reads `table.toml` and `drawn.toml`: which scripts are run, with which arguments, and what their data are."""

import dataclasses
import pathlib
import tarfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
# Lists of our own scripts that were predicted before they were measured.
BLIND = {"blind": HERE / "blind.tar.xz", "blind2": HERE / "blind2.tar.xz", "blind3": HERE / "blind3.tar.xz", "blind4": HERE / "blind4.tar.xz",
         "blind5": HERE / "blind5.tar.xz", "blind6": HERE / "blind6.tar.xz", "blind7": HERE / "blind7.tar.xz"}


@dataclasses.dataclass
class Script:
    name: str
    repository: str | None
    commit: str | None
    path: str
    arguments: list
    files: list
    paths: list
    environment: dict
    steps: int | None
    world: int | None
    modules: list
    data: str

    @property
    def is_drawn(self):
        """Whether it was drawn at random when the rules stood (`draw.py`)."""
        return self.name.startswith("drawn/")

    @property
    def part(self):
        """The first part of its name."""
        return self.name.partition("/")[0]

    @property
    def is_blind(self):
        """Whether it is of a list of our own that was predicted before it was measured."""
        return self.part in BLIND

    @property
    def source(self):
        """Where the script comes from, in words."""
        return "own" if self.repository is None else self.repository


def _contents():
    contents = tomllib.loads((HERE / "table.toml").read_text())
    drawn = HERE / "drawn.toml"
    if drawn.exists():
        contents["public"] += tomllib.loads(drawn.read_text())["public"]
    return contents


def repositories():
    """Each public repository with its commit and the folders that are needed of it."""
    return _contents()["repositories"]


def scripts(only=()):
    """The scripts of the table, then this project's own ones, those of the archive last; `only` selects by a part of the name."""
    contents = _contents()
    found = []
    for row in contents["public"]:
        repository = row["repository"]
        found.append(_script(row, repository, contents["repositories"][repository]["commit"]))
    own = {row["name"]: row for row in contents.get("own", [])}
    for path in sorted((HERE / "own").glob("*.py")):
        row = {"name": path.stem, "path": path.name, **own.get(path.stem, {})}
        found.append(_script({**row, "name": f"own/{path.stem}"}, None, None))
    for part, path in BLIND.items():
        with tarfile.open(path) as archive:
            found += [_script({"name": f"{part}/{pathlib.Path(name).stem}", "path": name}, None, None) for name in sorted(archive.getnames())]
    names = [script.name for script in found]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"table.toml: more than one script is called {', '.join(sorted(repeated))}")
    return [script for script in found if not only or any(part in script.name for part in only)]


def _script(row, repository, commit):
    return Script(
        row["name"], repository, commit, row["path"], [str(one) for one in row.get("arguments", [])],
        row.get("files", []), row.get("paths", []), row.get("environment", {}), row.get("steps"), row.get("world"), row.get("modules", []), row.get("data", "made in the script"),
    )
