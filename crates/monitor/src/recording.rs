//! Samples in a file: a line of JSON each, after a line that says what it is.

use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

use crate::sample::Sample;

/// The version this program writes and reads.
const VERSION: u32 = 1;
/// A line longer than this is no sample.
const LONGEST_LINE: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Header {
    vramfit_recording: u32,
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("line {line}: {error}")]
    Unreadable {
        /// Where.
        line: usize,
        /// Why.
        error: std::io::Error,
    },
    /// It is something else.
    #[error("line 1: not a recording of vramfit: {0}")]
    NotARecording(String),
    /// It was written by a newer program.
    #[error("line 1: version {found} of the format; this program reads version {VERSION}")]
    Version {
        /// What it says.
        found: u32,
    },
    /// A line is no sample.
    #[error("line {line}: {error}")]
    Malformed {
        /// Where.
        line: usize,
        /// Why.
        error: serde_json::Error,
    },
    /// There is nothing in it.
    #[error("no samples in it")]
    Empty,
}

/// Writes a recording, sample by sample.
pub struct Recorder<W: Write> {
    out: W,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording.
    pub fn new(mut out: W) -> std::io::Result<Recorder<W>> {
        serde_json::to_writer(&mut out, &Header { vramfit_recording: VERSION })?;
        out.write_all(b"\n")?;
        Ok(Recorder { out })
    }

    /// Adds a sample; it is in the file when this returns.
    pub fn add(&mut self, sample: &Sample) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(sample)?;
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()
    }
}

/// Reads a whole recording. A last line that was cut off in mid-writing is left out.
pub fn read(mut input: impl BufRead) -> Result<Vec<Sample>, RecordingError> {
    let mut samples = Vec::new();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        let length = std::io::Read::take(&mut input, LONGEST_LINE)
            .read_line(&mut text)
            .map_err(|error| RecordingError::Unreadable { line, error })?;
        if length == 0 {
            break;
        }
        if line == 1 {
            let header: Header =
                serde_json::from_str(&text).map_err(|error| RecordingError::NotARecording(error.to_string()))?;
            if header.vramfit_recording != VERSION {
                return Err(RecordingError::Version { found: header.vramfit_recording });
            }
            continue;
        }
        match serde_json::from_str(&text) {
            Ok(sample) => samples.push(sample),
            Err(_) if !text.ends_with('\n') && !samples.is_empty() => break,
            Err(error) => return Err(RecordingError::Malformed { line, error }),
        }
    }
    if samples.is_empty() { Err(RecordingError::Empty) } else { Ok(samples) }
}
