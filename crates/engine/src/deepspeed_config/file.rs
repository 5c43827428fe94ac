//! A file of JSON whose values are looked up by their path.

use std::path::Path;

use serde_json::{Map, Value};

use vramfit_report::failure::Failure;

/// The most bytes of a configuration: more than anybody writes.
const MOST_BYTES: u64 = 1 << 20;

pub(super) struct File {
    /// Its name, for messages.
    pub path: String,
    pub root: Map<String, Value>,
}

impl File {
    pub fn read(path: &Path) -> Result<File, Failure> {
        let name = path.display().to_string();
        let size = std::fs::metadata(path).map_err(|error| Failure::at(&name, error))?.len();
        if size > MOST_BYTES {
            return Err(Failure::new(format!("{name}: found {size} bytes, needed DeepSpeed's configuration as JSON")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| Failure::at(&name, error))?;
        match serde_json::from_str(&text).map_err(|error| Failure::at(&name, error))? {
            Value::Object(root) => Ok(File { path: name, root }),
            _ => Err(Failure::new(format!("{name}: found no object, needed DeepSpeed's configuration as JSON"))),
        }
    }

    /// A failure about this file.
    pub fn failure(&self, why: &str) -> Failure {
        Failure::new(format!("{}: {why}", self.path))
    }

    /// What is written at a path with dots between keys.
    fn written(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split('.');
        let first = self.root.get(keys.next()?)?;
        keys.try_fold(first, |value, key| value.get(key))
    }

    /// The value at such a path; `None` where it is missing, null, or `"auto"`.
    fn at(&self, path: &str) -> Option<&Value> {
        self.written(path).filter(|value| !value.is_null() && *value != "auto")
    }

    pub fn is_auto(&self, path: &str) -> bool {
        self.written(path).is_some_and(|value| value == "auto")
    }

    pub fn has(&self, path: &str) -> bool {
        self.at(path).is_some()
    }

    fn wrong(&self, path: &str, value: &Value, needed: &str) -> Failure {
        self.failure(&format!("{path}: found {value}, needed {needed}"))
    }

    /// A whole number, which may be written as 5e8.
    pub fn number(&self, path: &str) -> Result<Option<i64>, Failure> {
        let Some(value) = self.at(path) else { return Ok(None) };
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e18);
        match value.as_i64().or(whole.map(|number| number as i64)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(path, value, "a whole number or \"auto\"")),
        }
    }

    pub fn real(&self, path: &str) -> Result<Option<f64>, Failure> {
        let Some(value) = self.at(path) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.wrong(path, value, "a number or \"auto\""))
    }

    pub fn truth(&self, path: &str) -> Result<Option<bool>, Failure> {
        let Some(value) = self.at(path) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(path, value, "true, false or \"auto\""))
    }

    pub fn text(&self, path: &str) -> Result<Option<String>, Failure> {
        let Some(value) = self.at(path) else { return Ok(None) };
        value.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| self.wrong(path, value, "text"))
    }
}
