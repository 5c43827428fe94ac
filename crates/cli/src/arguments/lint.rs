//! The flags of `lint`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `vramfit lint`.
#[derive(Args, Debug)]
pub struct Lint {
    /// Files and folders; `-` reads standard input. Folders are searched for Python files and notebooks that git does
    /// not ignore.
    #[arg(value_name = "PATH", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = LintFormat::Text)]
    pub format: LintFormat,
    /// Use these rules instead of the defaults: codes, prefixes of codes, or ALL, separated by commas.
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub select: Option<Vec<String>>,
    /// Do not use these rules.
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Also check unit tests in folders: files that pytest finds (test_*.py, *_test.py, conftest.py) and that have tests in
    /// them. A file that is named is always checked.
    #[arg(long)]
    pub include_tests: bool,
    /// Also show notes: what may waste memory, though the source does not show all of it. They leave the exit code as it is.
    #[arg(long)]
    pub notes: bool,
    /// Apply fixes that do not change what the program computes.
    #[arg(long)]
    pub fix: bool,
    /// With --fix or --diff, also apply fixes that may change what the program computes.
    #[arg(long)]
    pub unsafe_fixes: bool,
    /// Show what --fix would change, and change nothing.
    #[arg(long, conflicts_with = "fix")]
    pub diff: bool,
    /// Print the documentation of a rule; without a code, list all rules.
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "all")]
    pub explain: Option<String>,
    /// Count findings by rule instead of showing them.
    #[arg(long)]
    pub statistics: bool,
    /// A recording of the program, to say what findings cost in it: a file of `vramfit run --out`, or a snapshot of
    /// torch.cuda.memory._dump_snapshot.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "diff"], value_hint = clap::ValueHint::FilePath)]
    pub with: Option<PathBuf>,
    /// File name for standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub stdin_filename: PathBuf,
    /// Run as a language server on standard input and output: an editor shows findings while you type, and offers fixes.
    #[arg(long, conflicts_with_all = ["paths", "format", "fix", "diff", "explain", "statistics", "with", "stdin_filename"])]
    pub lsp: bool,
}

/// A format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LintFormat {
    /// For people: position, source, cost.
    Text,
    /// A list of objects; the same as --json.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// Annotations for GitHub Actions.
    Github,
}
