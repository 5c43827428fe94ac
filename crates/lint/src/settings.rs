//! `[tool.vramfit.lint]` in pyproject.toml.

use std::fs;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use crate::selection::Selection;

/// A project's settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Rules to use instead of the defaults.
    select: Option<Vec<String>>,
    /// Rules to leave out.
    ignore: Vec<String>,
    per_file: Vec<(GlobMatcher, Vec<String>)>,
    exclude: Vec<GlobMatcher>,
    root: PathBuf,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    tool: Tool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tool {
    vramfit: Option<Vramfit>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Vramfit {
    lint: Option<Lint>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct Lint {
    select: Option<Vec<String>>,
    ignore: Vec<String>,
    exclude: Vec<String>,
    per_file_ignores: std::collections::BTreeMap<String, Vec<String>>,
}

impl Settings {
    /// The settings for a path: those of the nearest pyproject.toml that has any.
    pub fn find(path: &Path) -> Result<Settings, String> {
        let absolute = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for folder in absolute.ancestors() {
            let file = folder.join("pyproject.toml");
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let said = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let parsed: File = match toml::from_str(&text) {
                Ok(parsed) => parsed,
                // A broken pyproject.toml without our table is not our concern.
                Err(error) if text.contains("[tool.vramfit") => return Err(said(&error.to_string().trim_end())),
                Err(_) => continue,
            };
            if let Some(lint) = parsed.tool.vramfit.and_then(|vramfit| vramfit.lint) {
                return Settings::new(lint, folder).map_err(|error| said(&error));
            }
        }
        Ok(Settings::default())
    }

    fn new(lint: Lint, folder: &Path) -> Result<Settings, String> {
        let glob = |pattern: &str| {
            let pattern = if pattern.contains('/') { pattern.to_string() } else { format!("**/{pattern}") };
            Glob::new(&pattern).map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
        };
        Selection::new(lint.select.as_deref(), &lint.ignore)?;
        let mut per_file = Vec::new();
        for (pattern, codes) in &lint.per_file_ignores {
            Selection::default().without(codes)?;
            per_file.push((glob(pattern)?, codes.clone()));
        }
        let exclude = lint.exclude.iter().map(|pattern| glob(pattern)).collect::<Result<_, _>>()?;
        Ok(Settings { select: lint.select, ignore: lint.ignore, per_file, exclude, root: folder.to_path_buf() })
    }

    /// The rules for one file, with the options of the command line.
    pub fn selection(&self, path: &Path, select: Option<&[String]>, ignore: &[String]) -> Result<Selection, String> {
        let mut selection = Selection::new(select.or(self.select.as_deref()), &self.ignore)?;
        selection.without(ignore)?;
        let relative = self.relative(path);
        for (pattern, codes) in &self.per_file {
            if pattern.is_match(&relative) {
                selection.without(codes)?;
            }
        }
        Ok(selection)
    }

    /// Whether the project excludes this file.
    pub(crate) fn is_excluded(&self, path: &Path) -> bool {
        let relative = self.relative(path);
        self.exclude.iter().any(|pattern| relative.ancestors().any(|part| pattern.is_match(part)))
    }

    fn relative(&self, path: &Path) -> PathBuf {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        absolute.strip_prefix(&self.root).map_or_else(|_| absolute.clone(), Path::to_path_buf)
    }
}
