//! Calls are followed from file to file of a run.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;

use vramfit_lint::files::{Options, check_paths};

/// The findings in a folder with these files: `file:line code`.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    found_with(files, &Options::default())
}

/// The findings and notes.
fn noted(files: &[(&str, &str)]) -> Vec<String> {
    found_with(files, &Options { notes: true, ..Options::default() })
}

fn found_with(files: &[(&str, &str)], options: &Options) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let reports = check_paths(&[folder.path().to_path_buf()], options).unwrap();
    let mut all = Vec::new();
    for report in &reports {
        assert!(report.unreadable.is_none() && report.checked.error.is_none(), "{report:?}");
        let name = report.path.strip_prefix(folder.path()).unwrap().display().to_string();
        let document = report.document.as_ref().unwrap();
        for finding in &report.checked.findings {
            all.push(format!("{name}:{} {}", document.position(finding.range.start()).line, finding.code));
        }
    }
    all
}

const STEP: &str = "import torch
def step(net, solver, x, y):
    solver.zero_grad()
    gap = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
    gap.backward()
    solver.step()
    return gap
";

const LOOP: &str = "import torch
from engine import step
def main(net, solver, stream):
    curve = []
    for x, y in stream:
        curve.append(step(net, solver, x, y))
    return curve
";

#[test]
fn what_a_function_of_another_file_returns_is_known() {
    assert_eq!(found(&[("engine.py", STEP), ("main.py", LOOP)]), ["main.py:6 VF001"]);
    let number = STEP.replace("return gap", "return gap.item()");
    assert_eq!(found(&[("engine.py", &number), ("main.py", LOOP)]), [""; 0]);
    // Alone, the loop does not show what it keeps.
    assert_eq!(found(&[("main.py", LOOP)]), [""; 0]);
}

#[test]
fn packages_and_relative_imports_are_found() {
    let relative = LOOP.replace("from engine", "from ..parts.engine");
    let files = [("app/parts/engine.py", STEP), ("app/run/main.py", relative.as_str()), ("app/__init__.py", "")];
    assert_eq!(found(&files), ["app/run/main.py:6 VF001"]);
    let absolute = LOOP.replace("from engine", "from app.parts.engine");
    let files = [("app/parts/engine.py", STEP), ("scripts/main.py", absolute.as_str())];
    assert_eq!(found(&files), ["scripts/main.py:6 VF001"]);
}

#[test]
fn a_base_class_in_another_file_has_its_networks() {
    let base = "import torch
from torch import nn
class Base:
    def __init__(self):
        self.brain = nn.Linear(8, 8).cuda()
        self.solver = torch.optim.SGD(self.brain.parameters(), lr=0.1)
";
    let derived = "import torch
from base import Base
class Job(Base):
    def run(self, stream):
        kept = []
        for x in stream:
            self.solver.zero_grad()
            out = self.brain(x.cuda())
            out.square().mean().backward()
            self.solver.step()
            kept.append(out)
        return kept
";
    assert_eq!(found(&[("base.py", base), ("job.py", derived)]), ["job.py:11 VF002"]);
}

#[test]
fn names_of_several_files_do_not_mix() {
    // `step` of the file itself, not of the other.
    let own = LOOP.replace("from engine import step", "def step(net, solver, x, y):\n    return 1.0");
    assert_eq!(found(&[("engine.py", STEP), ("main.py", &own)]), [""; 0]);
    let circle = [
        ("a.py", "import torch\nfrom b import g\ndef f():\n    return g()\n"),
        ("b.py", "import torch\nfrom a import f\ndef g():\n    return f()\n"),
    ];
    assert_eq!(found(&circle), [""; 0]);
    // What `step` needs has the name of something else in the file.
    let helped = STEP.replace("    return gap", "    return finish(gap)") + "def finish(gap):\n    return gap\n";
    assert_eq!(found(&[("engine.py", &helped), ("main.py", LOOP)]), ["main.py:6 VF001"]);
    let other = LOOP.replace("def main", "def finish(gap):\n    return gap.item()\ndef main");
    assert_eq!(found(&[("engine.py", &helped), ("main.py", &other)]), [""; 0]);
}

#[test]
fn everything_that_a_star_imports_is_followed_and_other_names_are_not() {
    let star = LOOP.replace("import step", "import *");
    assert_eq!(found(&[("engine.py", STEP), ("main.py", &star)]), ["main.py:6 VF001"]);
    let renamed = LOOP.replace("import step", "import step as stride").replace("append(step", "append(stride");
    assert_eq!(found(&[("engine.py", STEP), ("main.py", &renamed)]), [""; 0]);
}

#[test]
fn what_another_file_imports_is_followed_at_second_hand() {
    let first =
        "import torch\nfrom deep import inner\ndef step(net, solver, x, y):\n    return inner(net, solver, x, y)\n";
    let deep = STEP.replace("def step", "def inner");
    assert_eq!(found(&[("engine.py", first), ("deep.py", &deep), ("main.py", LOOP)]), ["main.py:6 VF001"]);
}

#[test]
fn only_the_file_itself_says_where_its_tensors_are() {
    let reads = "import torch
from engine import step
def collect(net, stream):
    net.eval()
    rows = []
    with torch.no_grad():
        for x in stream:
            rows.append(net(x))
    return rows
";
    assert_eq!(found(&[("engine.py", STEP), ("main.py", reads)]), [""; 0]);
}

#[test]
fn a_file_that_cannot_be_parsed_is_followed_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("engine.py"), "import torch\ndef step(:\n").unwrap();
    fs::write(folder.path().join("main.py"), LOOP).unwrap();
    let reports = check_paths(&[folder.path().to_path_buf()], &Options::default()).unwrap();
    assert!(reports[0].checked.error.is_some() && reports[1].checked.error.is_none());
    assert!(reports[1].checked.findings.is_empty());
}

const READER: &str = "import torch
from torch import nn
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(64, 64)
    def forward(self, x):
        return self.cell(x)[0]
    def search(self, x):
        return self.cell(x)[0].argmax(-1)
";

const VALIDATION: &str = "import torch
def validate(model, valid_loader):
    model.eval()
    total = 0
    for x, y in valid_loader:
        total += (model.search(x.cuda()) == y.cuda()).sum().item()
    return total
";

#[test]
fn a_method_of_a_network_is_found_in_the_folder() {
    assert_eq!(found(&[("reader.py", READER), ("main.py", VALIDATION)]), ["main.py:6 VF003"]);
    let off = READER.replace("    def search", "    @torch.no_grad()\n    def search");
    assert_eq!(found(&[("reader.py", &off), ("main.py", VALIDATION)]), [""; 0]);
    // Nobody says what it does.
    assert_eq!(found(&[("main.py", VALIDATION)]), [""; 0]);
    // One of two with this method switches gradients off, and either may be meant.
    assert_eq!(found(&[("a.py", READER), ("b.py", &off.replace("Reader", "Other")), ("main.py", VALIDATION)]), [""; 0]);
}

#[test]
fn unit_tests_in_a_folder_are_left_out_unless_asked_for_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests/test_validation.py");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = VALIDATION.replace("model.search(", "model(");
    fs::write(&path, format!("{text}def test_nothing():\n    assert validate\n")).unwrap();
    let count = |path: &std::path::Path, include_tests: bool| {
        let options = Options { include_tests, ..Options::default() };
        let reports = check_paths(&[path.to_path_buf()], &options).unwrap();
        reports.iter().map(|report| report.checked.findings.len()).sum::<usize>()
    };
    assert_eq!(count(folder.path(), false), 0);
    assert_eq!(count(folder.path(), true), 1);
    assert_eq!(count(&path, false), 1);
}

#[test]
fn what_another_file_shows_takes_findings_away() {
    let main = "from engine import Salience
import torch
def run(net, loader):
    measure = Salience(net).cuda()
    measure.eval()
    for x, _ in loader:
        print(measure(x.cuda()).max().item())
";
    let plain = "import torch
class Salience(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x):
        return self.net(x)
";
    let slopes = plain.replace("return self.net(x)", "return torch.autograd.grad(self.net(x).sum(), x)[0]");
    assert_eq!(found(&[("engine.py", plain), ("main.py", main)]), ["main.py:7 VF003"]);
    assert_eq!(found(&[("engine.py", &slopes), ("main.py", main)]), [""; 0]);
    // Alone, the file says no more than that it evaluates something.
    assert_eq!(found(&[("main.py", main)]), ["main.py:7 VF003"]);
}

#[test]
fn imports_within_try_are_followed() {
    let tried = LOOP.replace(
        "from engine import step",
        "try:\n    from .engine import step\nexcept ImportError:\n    from engine import step",
    );
    assert_eq!(found(&[("engine.py", STEP), ("main.py", &tried)]), ["main.py:9 VF001"]);
}

#[test]
fn a_class_that_computes_with_numpy_alone_returns_no_tensors() {
    let main = "import torch
from angle import Angle
def run(net, loader):
    angle = Angle()
    net.eval()
    found = []
    with torch.no_grad():
        for x, y in loader:
            found.append(angle(net(x.cuda()), y.cuda()))
    return found
";
    let angle = "import numpy as np
class Angle(object):
    def __call__(self, said, wanted):
        return np.mean(said.cpu().numpy() - wanted.cpu().numpy())
";
    let tensor = angle.replace("np.mean(said.cpu().numpy() - wanted.cpu().numpy())", "(said - wanted).abs().mean()");
    assert_eq!(noted(&[("angle.py", angle), ("main.py", main)]), [""; 0]);
    assert_eq!(noted(&[("angle.py", &tensor), ("main.py", main)]), ["main.py:9 VF016"]);
    // The caller may want what is returned on the GPU; what is brought to main memory as a whole nobody wants there.
    assert_eq!(found(&[("angle.py", &tensor), ("main.py", main)]), [""; 0]);
    let brought = main.replace("return found", "return torch.stack(found).cpu()");
    assert_eq!(found(&[("angle.py", &tensor), ("main.py", &brought)]), ["main.py:9 VF016"]);
}
