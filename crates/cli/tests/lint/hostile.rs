//! `vramfit lint` on what nobody expects: odd files, odd notebooks, odd comments, and machines that read its answers.

use std::fs;

use super::{LEAK, folder, lint, lint_input};
use serde_json::{Value, json};

fn notebook(cells: &[&str], metadata: Value) -> String {
    let cells: Vec<Value> = cells
        .iter()
        .map(|source| json!({"cell_type": "code", "source": source, "outputs": [], "metadata": {}}))
        .collect();
    json!({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": metadata}).to_string()
}

/// What the schema of SARIF 2.1.0 asks of the parts that are written.
fn assert_sarif(log: &Value) {
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let runs = log["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let (run, driver) = (&runs[0], &runs[0]["tool"]["driver"]);
    assert!(driver["name"].is_string() && driver["version"].is_string());
    assert!(["utf16CodeUnits", "unicodeCodePoints"].contains(&run["columnKind"].as_str().unwrap()));
    let rules = driver["rules"].as_array().unwrap();
    for (position, rule) in rules.iter().enumerate() {
        assert!(
            rule["id"].is_string() && rule["shortDescription"]["text"].is_string() && rule["help"]["text"].is_string()
        );
        assert!(rules[..position].iter().all(|other| other["id"] != rule["id"]));
    }
    for invocation in run["invocations"].as_array().unwrap() {
        assert!(invocation["executionSuccessful"].is_boolean());
        for notification in invocation["toolExecutionNotifications"].as_array().unwrap() {
            assert!(notification["message"]["text"].is_string());
            assert!(["none", "note", "warning", "error"].contains(&notification["level"].as_str().unwrap()));
        }
    }
    for result in run["results"].as_array().unwrap() {
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        for location in result["locations"].as_array().unwrap() {
            let place = &location["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            assert!(uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"{}|\\^`".contains(&byte)), "{uri}");
            let at = |key: &str| place["region"][key].as_u64().unwrap();
            assert!(at("startLine") >= 1 && at("startColumn") >= 1 && at("endLine") >= at("startLine"));
            assert!(at("endLine") > at("startLine") || at("endColumn") > at("startColumn"));
        }
    }
}

#[test]
fn sarif_has_what_its_schema_requires() {
    let book = notebook(&["import os\n", LEAK], json!({}));
    let folder = folder(&[
        ("a folder/train, 100%.py", LEAK),
        ("tränen.py", LEAK),
        ("n.ipynb", &book),
        ("broken.py", "def f(:\n"),
    ]);
    let (code, out, _) = lint(folder.path(), &["--format", "sarif", "."]);
    let log: Value = serde_json::from_str(&out).unwrap();
    assert_sarif(&log);
    assert_eq!((code, log["runs"][0]["results"].as_array().unwrap().len()), (2, 3));
    let cells: Vec<&Value> = log["runs"][0]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["locations"][0]["logicalLocations"])
        .collect();
    assert!(cells.contains(&&json!([{"name": "cell 2"}])), "{cells:?}");
    assert_eq!(log["runs"][0]["invocations"][0]["executionSuccessful"], false);
    let (_, empty, _) = lint_input(folder.path(), &["--format", "sarif", "-"], "");
    assert_sarif(&serde_json::from_str(&empty).unwrap());
}

#[test]
fn annotations_escape_names_once() {
    let folder = folder(&[("a,b 100%.py", LEAK)]);
    let (_, out, _) = lint(folder.path(), &["--format", "github", "."]);
    assert!(out.contains("file=./a%2Cb 100%25.py,line=9,"), "{out}");
    assert!(out.contains("::./a,b 100%25.py:9:9 VF001 "), "{out}");
    assert_eq!(out.lines().count(), 1);
}

#[test]
fn a_comment_in_a_string_suppresses_nothing() {
    let said = LEAK.replace("total += loss", "total += loss; s = '# noqa'");
    let split = LEAK.replace("total += loss", "total += (\n            loss\n        )  # noqa:VF001 because");
    let folder = folder(&[("said.py", &said), ("split.py", &split)]);
    assert_eq!(lint(folder.path(), &["said.py"]).0, 1);
    assert_eq!(lint(folder.path(), &["split.py"]).0, 0);
}

#[test]
fn line_ends_and_marks_of_any_kind_are_kept_by_a_fix() {
    let folder = folder(&[]);
    for (name, text) in [
        ("mark.py", format!("\u{feff}{LEAK}")),
        ("windows.py", LEAK.replace('\n', "\r\n")),
        ("old.py", LEAK.replace('\n', "\r")),
    ] {
        fs::write(folder.path().join(name), &text).unwrap();
        let (code, out, error) = lint(folder.path(), &[name]);
        assert_eq!(code, 1, "{name}: {error}");
        assert!(out.starts_with(&format!("{name}:9:9 VF001")), "{out}");
        assert_eq!(lint(folder.path(), &["--fix", name]).0, 0);
        assert_eq!(
            fs::read_to_string(folder.path().join(name)).unwrap(),
            text.replace("+= loss", "+= loss.detach()"),
            "{name}"
        );
    }
}

#[test]
fn a_cell_keeps_its_magic_when_it_is_fixed() {
    let cell = format!("%%time\n{LEAK}");
    let book = notebook(&["%matplotlib inline\n!ls\nx = !pwd\nprint?\n", "%%bash\nls -l | grep (\n", &cell], json!({}));
    let folder = folder(&[("n.ipynb", &book)]);
    let (code, out, error) = lint(folder.path(), &["n.ipynb"]);
    assert_eq!(code, 1, "{error}");
    assert!(out.starts_with("n.ipynb:cell 3:10:9 VF001"), "{out}");
    let (code, out, _) = lint_input(folder.path(), &["--diff", "--stdin-filename", "other.ipynb", "-"], &book);
    assert!(code == 1 && out.starts_with("--- other.ipynb"), "{out}");
    assert_eq!(lint(folder.path(), &["--fix", "n.ipynb"]).0, 0);
    let mended: Value = serde_json::from_str(&fs::read_to_string(folder.path().join("n.ipynb")).unwrap()).unwrap();
    assert_eq!(mended["cells"][2]["source"][0], "%%time\n");
    assert_eq!(mended["cells"][2]["source"][9], "        total += loss.detach()\n");
}

#[test]
fn notebooks_in_other_languages_are_left_alone() {
    let julia = notebook(&["using Flux; f(x) = x |> y"], json!({"kernelspec": {"language": "julia"}}));
    let r = notebook(&["x <- c(1, 2) %>% sum"], json!({"language_info": {"name": "R"}}));
    let folder = folder(&[("a.ipynb", &julia), ("b.ipynb", &r)]);
    let (code, _, error) = lint(folder.path(), &["."]);
    assert_eq!((code, error.as_str()), (0, ""));
}

#[test]
fn unreadable_files_are_reported_with_diff_and_fix_too() {
    let folder = folder(&[("broken.py", "def f(:\n"), ("cut.ipynb", "{\"cells\": [")]);
    for arguments in [&["--diff", "."][..], &["--fix", "."], &["--statistics", "."], &["--json", "."]] {
        let (code, _, error) = lint(folder.path(), arguments);
        assert_eq!(code, 2, "{arguments:?}");
        assert!(error.contains("broken.py:1:7") && error.contains("cut.ipynb: not a notebook"), "{error}");
    }
    let (code, out, error) = lint_input(folder.path(), &["--fix", "-"], "def f(:\n");
    assert_eq!((code, out.as_str()), (2, "def f(:\n"), "{error}");
}

#[test]
fn json_names_each_file_that_was_not_checked() {
    let folder = folder(&[("broken.py", "def f(:\n"), ("cut.ipynb", "{\"cells\": ["), ("leak.py", LEAK)]);
    let (code, out, _) = lint(folder.path(), &["--json", "."]);
    assert_eq!(code, 2);
    let entries: Vec<Value> = serde_json::from_str(&out).unwrap();
    let of = |file: &str| -> Vec<&Value> {
        entries.iter().filter(|entry| entry["file"].as_str().unwrap().ends_with(file)).collect()
    };
    let broken = of("broken.py");
    assert_eq!((broken.len(), &broken[0]["code"]), (1, &json!("not-checked")));
    assert_eq!((&broken[0]["line"], &broken[0]["column"]), (&json!(1), &json!(7)));
    assert!(broken[0]["message"].as_str().unwrap().starts_with("syntax error: "), "{out}");
    let cut = of("cut.ipynb");
    assert_eq!((cut.len(), &cut[0]["code"]), (1, &json!("not-checked")));
    assert!(of("leak.py").iter().all(|entry| entry["code"] == "VF001") && of("leak.py").len() == 1, "{out}");
}

#[test]
fn findings_left_after_fixing_standard_input_go_to_standard_error() {
    let text = LEAK.replace("total += loss", "kept.append(loss)").replace("total = 0", "kept = []");
    let folder = folder(&[]);
    let (code, out, error) = lint_input(folder.path(), &["--fix", "-"], &text);
    assert_eq!((code, &out), (1, &text));
    assert!(error.contains("VF001"), "{error}");
    let (code, out, _) = lint_input(folder.path(), &["--fix", "--unsafe-fixes", "-"], &text);
    assert_eq!((code, out), (0, text.replace("append(loss)", "append(loss.item())")));
}

#[test]
fn deep_long_and_endless_texts_are_refused_or_checked() {
    let deep = format!("import torch\nx = {}1{}\n", "(".repeat(100_000), ")".repeat(100_000));
    let wide = format!("import torch\nx = [{}]\n{}", "1, ".repeat(300_000), &LEAK[13..]);
    let chain = format!("import torch\nx = a{}\n", ".b".repeat(100_000));
    let sum = format!("import torch\nx = {}1\n", "1 + ".repeat(2900));
    let folder = folder(&[("deep.py", &deep), ("wide.py", &wide), ("chain.py", &chain), ("sum.py", &sum)]);
    let (code, _, error) = lint(folder.path(), &["deep.py"]);
    assert!(code == 2 && error.contains("more than 200 brackets within each other"), "{error}");
    let (code, _, error) = lint(folder.path(), &["chain.py"]);
    assert!(code == 2 && error.contains("more than 6000 operators within each other"), "{error}");
    assert_eq!(lint(folder.path(), &["wide.py"]).0, 1);
    assert_eq!(lint(folder.path(), &["sum.py"]).0, 0);
    let (code, _, error) = lint_input(folder.path(), &["-"], &deep);
    assert_eq!(code, 2, "{error}");
}

#[cfg(unix)]
#[test]
fn symlink_loops_end_and_a_named_broken_link_is_an_error() {
    let folder = folder(&[("src/train.py", LEAK)]);
    std::os::unix::fs::symlink("..", folder.path().join("src/up")).unwrap();
    std::os::unix::fs::symlink("nowhere.py", folder.path().join("src/dangling.py")).unwrap();
    let (code, out, error) = lint(folder.path(), &["."]);
    assert_eq!((code, out.matches("VF001").count(), error.as_str()), (1, 1, ""));
    assert_eq!(lint(folder.path(), &["src/dangling.py"]).0, 2);
}
