//! The shape of `vramfit lint --json`, which [`crate::lint`] writes.

use schemars::JsonSchema;
use serde::Serialize;

/// The findings, in the order of files and lines.
#[derive(JsonSchema, Serialize)]
pub struct LintReport(Vec<Finding>);

/// A finding.
#[derive(JsonSchema, Serialize)]
struct Finding {
    /// The file, as it was named on the command line or found in a folder.
    file: String,
    /// The line, counted from 1.
    line: u32,
    /// The column, counted from 1.
    column: u32,
    /// The rule's code, such as `VF001`.
    code: String,
    /// What is wrong.
    message: String,
    /// The line of its end.
    end_line: u32,
    /// The column of its end.
    end_column: u32,
    /// How bad it is.
    severity: Severity,
    /// What it costs.
    cost: Option<String>,
    /// What to do about it.
    advice: Option<String>,
    /// How it can be mended.
    fix: Option<Fix>,
    /// The cell of a notebook, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    cell: Option<u32>,
    /// With `--with`: what the recording says, if it has lines of this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<Recorded>,
}

/// What a recorded run says about a finding.
#[derive(JsonSchema, Serialize)]
struct Recorded {
    /// Whether the finding's line, or the block around it, allocated memory.
    ran: bool,
    /// The most bytes that it holds at once without need; null if the recording cannot say.
    bytes: Option<u64>,
    /// Bytes that an iteration keeps, or that a call of a network leaves.
    each: Option<u64>,
    /// How much lower the peak of allocated memory would be; null where part of it is needed.
    peak_reduction: Option<u64>,
}

/// How bad a finding is.
#[allow(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// Memory grows, or the training is wrong.
    Error,
    /// Memory or time is wasted.
    Warning,
    /// Something to know.
    Note,
}

/// A change of the source that mends a finding.
#[derive(JsonSchema, Serialize)]
struct Fix {
    /// What it does.
    title: String,
    /// Whether it leaves what the program computes as it is.
    safe: bool,
}
