//! Recordings: a header line, then one line of JSON per sample.

use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

use crate::sample::Sample;

/// The format version written and read.
const VERSION: u32 = 1;
/// Bytes of the longest line that is read as a sample.
const MAX_LINE: u64 = 64 << 20;

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
        /// The line.
        line: usize,
        /// The cause.
        error: std::io::Error,
    },
    /// The first line is no header.
    #[error("line 1: not a recording of vramfit: {0}")]
    NotARecording(String),
    /// Another version of the format.
    #[error("line 1: version {found} of the format; this program reads version {VERSION}")]
    Version {
        /// The version in the header.
        found: u32,
    },
    /// No line is a sample; has the first that is not.
    #[error("no sample in it; {0}")]
    Malformed(Damage),
    /// There are no lines after the header.
    #[error("no samples in it")]
    Empty,
}

/// Writes a recording, sample by sample.
pub struct Recorder<W: Write> {
    out: W,
}

impl<W: Write> Recorder<W> {
    /// Writes the header.
    pub fn new(mut out: W) -> std::io::Result<Recorder<W>> {
        serde_json::to_writer(&mut out, &Header { vramfit_recording: VERSION })?;
        out.write_all(b"\n")?;
        Ok(Recorder { out })
    }

    /// Adds a sample and flushes it.
    pub fn add(&mut self, sample: &Sample) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(sample)?;
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()
    }
}

/// A recording read from a file.
#[derive(Debug)]
pub struct Recording {
    /// Its samples, at least one.
    pub samples: Vec<Sample>,
    /// The lines that were skipped.
    pub damage: Vec<Damage>,
}

/// A line that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Damage {
    /// The line.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// Reads a whole recording. Samples do not depend on each other, so a damaged line (of a recorder that was killed, or on a
/// full disk) is skipped and reported. Only a file without any sample is an error.
pub fn read(mut input: impl BufRead) -> Result<Recording, RecordingError> {
    let mut recording = Recording { samples: Vec::new(), damage: Vec::new() };
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        match read_line(&mut input, &mut text) {
            Ok(0) => break,
            Ok(_) => {}
            // Nothing can be read beyond it; most likely a truncated compressed file.
            Err(error) if !recording.samples.is_empty() => {
                recording.damage.push(Damage { line, what: format!("{error}; what follows is left out") });
                break;
            }
            Err(error) => return Err(RecordingError::Unreadable { line, error }),
        }
        if line == 1 {
            let header: Header =
                serde_json::from_slice(&text).map_err(|error| RecordingError::NotARecording(error.to_string()))?;
            if header.vramfit_recording != VERSION {
                return Err(RecordingError::Version { found: header.vramfit_recording });
            }
            continue;
        }
        let is_whole = text.last() == Some(&b'\n');
        let content = text.trim_ascii();
        // Recordings may be concatenated; each then brings its header.
        let is_header = || {
            let header: Option<Header> = serde_json::from_slice(content).ok().filter(|_| content.starts_with(b"{"));
            header.is_some_and(|header| header.vramfit_recording == VERSION)
        };
        if content.is_empty() {
            continue;
        }
        match serde_json::from_slice(content) {
            Ok(sample) => recording.samples.push(sample),
            Err(_) if is_header() => {}
            Err(_) if text.len() as u64 >= MAX_LINE => {
                recording.damage.push(Damage { line, what: format!("longer than {} MiB", MAX_LINE >> 20) });
            }
            Err(_) if !is_whole => {
                recording.damage.push(Damage { line, what: "cut off, as by a recorder that was killed".to_owned() });
            }
            Err(error) => recording.damage.push(Damage { line, what: without_line(&error) }),
        }
    }
    match (recording.samples.is_empty(), recording.damage.first()) {
        (false, _) => Ok(recording),
        (true, None) => Err(RecordingError::Empty),
        (true, Some(first)) => Err(RecordingError::Malformed(first.clone())),
    }
}

/// Reads a line; of one that is too long only the beginning.
fn read_line(input: &mut impl BufRead, text: &mut Vec<u8>) -> std::io::Result<usize> {
    let length = std::io::Read::take(&mut *input, MAX_LINE).read_until(b'\n', text)?;
    if length as u64 == MAX_LINE && text.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
    }
    Ok(length)
}

/// The parser's message without its line, which is always 1 here.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(&format!(" at line {} column", error.line()), " at column")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Missing;

    fn written(count: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut recorder = Recorder::new(&mut out).unwrap();
        for taken_at in 0..count {
            recorder
                .add(&Sample {
                    taken_at,
                    took: 0,
                    hostname: "host".to_owned(),
                    driver_version: Err(Missing::Lost),
                    host_memory: Err(Missing::Lost),
                    gpus: Vec::new(),
                })
                .unwrap();
        }
        out
    }

    fn times(recording: &Recording) -> Vec<u64> {
        recording.samples.iter().map(|sample| sample.taken_at).collect()
    }

    #[test]
    fn a_whole_recording_has_no_damage() {
        let recording = read(written(3).as_slice()).unwrap();
        assert_eq!((times(&recording), recording.damage), (vec![0, 1, 2], vec![]));
    }

    #[test]
    fn a_truncated_last_line_is_reported_and_the_others_are_played() {
        let bytes = written(3);
        let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        for end in last + 1..bytes.len() - 1 {
            let recording = read(&bytes[..end]).unwrap();
            assert_eq!(times(&recording), [0, 1], "{end}");
            assert_eq!(recording.damage[0].line, 4, "{end}");
            assert!(recording.damage[0].what.contains("cut off"), "{end}");
        }
        let unfinished = read(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!((times(&unfinished), unfinished.damage), (vec![0, 1, 2], vec![]), "only its end of line is missing");
    }

    #[test]
    fn a_bad_line_in_the_middle_is_skipped_and_reported() {
        let text = String::from_utf8(written(3)).unwrap();
        let mut lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        for bad in [&b"{\"taken_at\":"[..], b"nonsense", b"\xff\xfe", b"{}", b"[1]", b"{\"vramfit_recording\":2}"] {
            lines.insert(2, bad);
            let recording = read(lines.join(&b'\n').as_slice()).unwrap();
            lines.remove(2);
            assert_eq!(times(&recording), [0, 1, 2]);
            assert_eq!(recording.damage.len(), 1);
            let said = recording.damage[0].to_string();
            assert!(said.starts_with("line 3: ") && !said.contains("at line"), "{said}");
        }
    }

    #[test]
    fn concatenated_recordings_with_empty_lines_are_one_recording() {
        let bytes = [written(2), b"\n \n".to_vec(), written(1)].concat();
        let recording = read(bytes.as_slice()).unwrap();
        assert_eq!((times(&recording), recording.damage), (vec![0, 1, 0], vec![]));
    }

    #[test]
    fn a_file_without_a_sample_is_refused() {
        assert!(matches!(read(written(0).as_slice()), Err(RecordingError::Empty)));
        assert!(matches!(read(&b"something else\n"[..]), Err(RecordingError::NotARecording(_))));
        assert!(matches!(read(&b""[..]), Err(RecordingError::Empty)));
        let bad = [written(0), b"nonsense\n".to_vec()].concat();
        assert!(matches!(read(bad.as_slice()), Err(RecordingError::Malformed(Damage { line: 2, .. }))));
    }
}
