//! `vramfit lint` from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod hostile;
mod recorded;
mod server;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

const LEAK: &str = "import torch\ndef train(model, loader, criterion, optimizer):\n    total = 0\n    for x, y in loader:\n        optimizer.zero_grad()\n        loss = criterion(model(x), y)\n        loss.backward()\n        optimizer.step()\n        total += loss\n    return total\n";

fn lint(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    lint_input(folder, arguments, "")
}

fn lint_input(folder: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::cargo_bin("vramfit").unwrap();
    let output = command.current_dir(folder).arg("lint").args(arguments).write_stdin(input).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn a_finding_is_one_line_then_the_source() {
    let folder = folder(&[("train.py", LEAK)]);
    let (code, out, _) = lint(folder.path(), &["--no-color", "train.py"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("train.py:9:9 VF001 "), "{out}");
    assert!(out.contains("total += loss") && out.contains("^^^^"), "{out}");
}

#[test]
fn a_file_that_cannot_be_parsed_is_not_a_clean_one() {
    let folder = folder(&[("broken.py", "def f(:\n"), ("clean.py", "import torch\n"), ("leak.py", LEAK)]);
    let (code, out, error) = lint(folder.path(), &["--no-color", "broken.py"]);
    assert_eq!((code, out.as_str()), (2, "Nothing was checked: 1 file could not be checked.\n"));
    assert!(error.contains("broken.py:1:7: syntax error"), "{error}");
    let (code, out, _) = lint(folder.path(), &["--no-color", "broken.py", "clean.py"]);
    assert_eq!(code, 2);
    assert_eq!(out, "Nothing found in the 1 file that could be checked; 1 file could not be checked.\n");
    let (code, out, _) = lint(folder.path(), &["--no-color", "broken.py", "leak.py"]);
    assert_eq!(code, 2);
    assert!(out.ends_with("1 finding in 1 file; 1 can be fixed with --fix; 1 file could not be checked\n"), "{out}");
    let (_, github, error) = lint(folder.path(), &["--format", "github", "broken.py"]);
    assert!(
        github.starts_with("::error title=not checked,file=broken.py,line=1,col=7::broken.py: syntax error"),
        "{github}"
    );
    assert!(error.ends_with("1 of 1 files could not be checked\n"), "{error}");
}

#[test]
fn json_is_a_list_of_objects_with_the_documented_keys() {
    let folder = folder(&[("train.py", LEAK)]);
    let (code, out, _) = lint(folder.path(), &["--json", "train.py"]);
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1);
    assert_eq!(
        (&list[0]["file"], &list[0]["line"], &list[0]["column"], &list[0]["code"]),
        (&"train.py".into(), &9.into(), &9.into(), &"VF001".into())
    );
    assert!(list[0]["message"].is_string() && list.as_array().unwrap().len() == 1);
    let (_, sarif, _) = lint(folder.path(), &["--format", "sarif", "train.py"]);
    let sarif: serde_json::Value = serde_json::from_str(&sarif).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "VF001");
    let (_, github, _) = lint(folder.path(), &["--format", "github", "train.py"]);
    assert!(github.starts_with("::warning title=VF001,file=train.py,line=9,"), "{github}");
}

#[test]
fn clean_code_and_code_without_torch_exit_with_0() {
    let folder =
        folder(&[("clean.py", "import torch\nprint(torch.ones(2))\n"), ("other.py", &LEAK.replace("torch", "jax"))]);
    assert_eq!(lint(folder.path(), &["."]).0, 0);
}

#[test]
fn a_syntax_error_is_reported_and_does_not_stop_the_rest() {
    let folder = folder(&[("broken.py", "def f(:\n"), ("train.py", LEAK)]);
    let (code, out, error) = lint(folder.path(), &["--no-color", "."]);
    assert_eq!(code, 2);
    assert!(out.contains("train.py:9:9 VF001"), "{out}");
    assert!(error.contains("broken.py:1:7: syntax error"), "{error}");
}

#[test]
fn comments_and_settings_suppress_rules() {
    let quiet = LEAK.replace("total += loss", "total += loss  # noqa: VF001");
    let own = LEAK.replace("total += loss", "total += loss  # vramfit: ignore[VF001]");
    let project = "[tool.vramfit.lint]\nselect = [\"VF\"]\nignore = [\"VF008\"]\n[tool.vramfit.lint.per-file-ignores]\n\"legacy/*.py\" = [\"VF001\"]\n";
    let folder = folder(&[("a.py", &quiet), ("b.py", &own), ("legacy/c.py", LEAK), ("pyproject.toml", project)]);
    let (code, out, error) = lint(folder.path(), &["--no-color", "."]);
    assert_eq!((code, error.as_str()), (0, ""), "{out}");
    fs::write(folder.path().join("pyproject.toml"), "[tool.vramfit.lint]\nselect = [\"VF999\"]\n").unwrap();
    let (code, _, error) = lint(folder.path(), &["."]);
    assert_eq!(code, 2);
    assert!(error.contains("VF999"), "{error}");
}

#[test]
fn ignored_files_are_left_out_unless_named() {
    let folder = folder(&[(".gitignore", "generated/\n"), ("generated/train.py", LEAK)]);
    assert_eq!(lint(folder.path(), &["."]).0, 0);
    assert_eq!(lint(folder.path(), &["generated/train.py"]).0, 1);
}

#[test]
fn fix_changes_the_file_and_diff_only_shows_it() {
    let folder = folder(&[("train.py", LEAK)]);
    let (code, out, _) = lint(folder.path(), &["--diff", "train.py"]);
    assert_eq!(code, 1);
    assert!(out.contains("-        total += loss\n+        total += loss.detach()\n"), "{out}");
    assert_eq!(fs::read_to_string(folder.path().join("train.py")).unwrap(), LEAK);
    assert_eq!(lint(folder.path(), &["--fix", "train.py"]).0, 0);
    assert_eq!(
        fs::read_to_string(folder.path().join("train.py")).unwrap(),
        LEAK.replace("+= loss", "+= loss.detach()")
    );
}

#[test]
fn standard_input_is_checked_and_fixed() {
    let folder = folder(&[]);
    let run = |arguments: &[&str]| {
        Command::cargo_bin("vramfit")
            .unwrap()
            .current_dir(folder.path())
            .arg("lint")
            .args(arguments)
            .write_stdin(LEAK)
            .output()
            .unwrap()
    };
    let output = run(&["--no-color", "--stdin-filename", "x.py", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.starts_with(b"x.py:9:9 VF001"));
    assert_eq!(run(&["--fix", "-"]).stdout, LEAK.replace("+= loss", "+= loss.detach()").into_bytes());
}

#[test]
fn a_notebook_is_reported_by_cell_and_fixed_in_place() {
    let lines: Vec<String> = LEAK.lines().map(|line| format!("{line}\n")).collect();
    let notebook = serde_json::json!({"cells": [
        {"cell_type": "markdown", "source": ["# title"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip list\n"], "outputs": []},
        {"cell_type": "code", "source": lines, "outputs": []},
    ], "nbformat": 4, "nbformat_minor": 5, "metadata": {}});
    let folder = folder(&[("n.ipynb", &notebook.to_string())]);
    let (code, out, error) = lint(folder.path(), &["--no-color", "n.ipynb"]);
    assert_eq!(code, 1, "{error}");
    assert!(out.starts_with("n.ipynb:cell 2:9:9 VF001"), "{out}");
    assert_eq!(lint(folder.path(), &["--fix", "n.ipynb"]).0, 0);
    let mended: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("n.ipynb")).unwrap()).unwrap();
    assert_eq!(mended["cells"][2]["source"][8], "        total += loss.detach()\n");
    assert_eq!(mended["cells"][1], notebook["cells"][1]);
}

#[test]
fn bad_usage_exits_with_2() {
    let folder = folder(&[("bad.ipynb", "{}"), ("latin.py", "x = 1\n")]);
    fs::write(folder.path().join("latin.py"), b"import torch\nx = '\xff'\n").unwrap();
    for arguments in [
        &["missing.py"][..],
        &["--select", "XY1", "."],
        &["--explain", "VF999"],
        &["bad.ipynb"],
        &["latin.py"],
        &["--format", "xml"],
        &["-", "latin.py"],
    ] {
        assert_eq!(lint(folder.path(), arguments).0, 2, "{arguments:?}");
    }
}

#[test]
fn pages_and_statistics_are_printed() {
    let folder = folder(&[("train.py", LEAK)]);
    let (code, page, _) = lint(folder.path(), &["--explain", "vf001"]);
    assert!(code == 0 && page.starts_with("# VF001"));
    let (code, rules, _) = lint(folder.path(), &["--explain"]);
    assert!(code == 0 && rules.lines().count() == 17);
    let (code, statistics, _) = lint(folder.path(), &["--statistics", "train.py"]);
    assert!(code == 1 && statistics.trim_start().starts_with("1  VF001"));
}
