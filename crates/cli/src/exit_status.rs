//! Exit codes of commands that did their work.

use std::process::ExitCode;

/// The result of a command that did its work. A [`Failure`](crate::failure::Failure) exits with 2 instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// 0: it fits, has no findings, or there was nothing to decide.
    Good,
    /// 1: it does not fit, is too close, or has findings.
    Bad,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> ExitCode {
        match status {
            ExitStatus::Good => ExitCode::SUCCESS,
            ExitStatus::Bad => ExitCode::from(1),
        }
    }
}
