//! Which files have unit tests: those that pytest finds by their names and that test something.

use std::path::Path;

/// Whether pytest would run a file's tests. A script that evaluates a network may have the name of a test, but no test in it.
pub fn is_test_file(path: &Path, bytes: &[u8]) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".py")) else {
        return false;
    };
    let is_found = name.starts_with("test_") || name.ends_with("_test") || name == "conftest";
    let is_beside = path.parent().is_some_and(|folder| folder.iter().any(|part| part == "tests"));
    if !is_found && !is_beside {
        return false;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    text.lines().any(imports_tests) || is_found && text.contains("assert") && text.lines().any(is_test)
}

/// `import pytest`, `from unittest import TestCase`.
fn imports_tests(line: &str) -> bool {
    let line = line.trim_start();
    let imported = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "));
    let library = imported.and_then(|imported| imported.split([' ', '.', ',']).next());
    matches!(library, Some("pytest" | "unittest")) || line.starts_with("from absl.testing")
}

/// `def test_shapes():`, or such a method: what evaluates takes a network or its data.
fn is_test(line: &str) -> bool {
    let rest = line.trim_start().strip_prefix("def test_");
    let given = rest.and_then(|rest| rest.split_once('(')).map(|(_, given)| given);
    given.is_some_and(|given| given.starts_with(')') || given.starts_with("self)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(path: &str, text: &str) -> bool {
        is_test_file(Path::new(path), text.as_bytes())
    }

    #[test]
    fn pytest_finds_files_by_name_and_tests_in_them() {
        assert!(is("pkg/test_shapes.py", "def test_shapes():\n    assert model(x).shape == (1,)\n"));
        assert!(is("pkg/layers_test.py", "import unittest\nclass Layers(unittest.TestCase): pass\n"));
        assert!(is("conftest.py", "import pytest\n"));
        assert!(is("pkg/tests/common.py", "from unittest import TestCase\n"));
    }

    #[test]
    fn a_script_that_evaluates_is_no_test() {
        assert!(!is("test_model.py", "def test(model, loader):\n    assert loader\n    model.eval()\n"));
        assert!(!is("test_epoch.py", "def test_epoch(model, loader):\n    assert loader\n"));
        assert!(!is("tests/main_amp.py", "def train(): pass\n"));
        assert!(!is("train.py", "import unittest\n"));
        assert!(!is("notes/test_it.ipynb", "import pytest\n"));
    }
}
