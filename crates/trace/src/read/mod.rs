//! Reads the files that `torch.cuda.memory._dump_snapshot` writes, plain or gzip.
//!
//! ```no_run
//! let snapshot = vramfit_trace::read::read_file("snapshot.pickle", &mut |_done, _total| {})?;
//! println!("{} GPUs", snapshot.devices.len());
//! # Ok::<(), vramfit_trace::read::ReadError>(())
//! ```
//!
//! `input` reads the bytes of the file, `pickle` builds data from them and does nothing else, `decode` makes a
//! [`Snapshot`] of the data. A file may come from anywhere: whatever it holds, reading it ends with a snapshot or a
//! [`ReadError`], in time that grows with its length and in memory bounded by it.
//!
//! Supported are recordings of PyTorch 2.1 to 2.15, and what `torch.cuda.memory_snapshot()` returns; older ones as far as
//! they have the same keys.

mod decode;
mod error;
mod input;
mod opcode;
mod pickle;

use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

pub use error::ReadError;

use crate::snapshot::Snapshot;
use decode::condense::Condenser;
use decode::key::Key;
use input::{Input, Source};
use pickle::machine::Budget;

/// Upper bounds for reading a file.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Bytes of the pickle, decompressed.
    length: u64,
    /// Bytes of memory for what the pickle builds, whatever the file's size.
    memory: u64,
    /// Bytes of memory more for each byte read of the file as stored.
    memory_per_byte: u64,
}

/// A recording of forty million events has about 12 GiB and takes about half as much memory; gzip makes it up to 30
/// times smaller.
const LIMITS: Limits = Limits { length: 16 << 30, memory: 256 << 20, memory_per_byte: 64 };

/// How much of a compressed file is read at once.
const COMPRESSED_CHUNK: usize = 256 * 1024;

/// Called with how many bytes of the file have been read, and how many it has (0 if unknown).
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Reads the snapshot in the file at `path`, plain or gzip, and calls `progress` on the way.
pub fn read_file(path: impl AsRef<Path>, progress: &mut Progress<'_>) -> Result<Snapshot, ReadError> {
    let file = File::open(path).map_err(ReadError::Io)?;
    let metadata = file.metadata().map_err(ReadError::Io)?;
    let length = metadata.is_file().then_some(metadata.len());
    let reporting = Reporting { inner: file, done: 0, total: length.unwrap_or(0), progress };
    read(reporting, length, LIMITS)
}

/// Reads the snapshot in `bytes`, plain or gzip.
pub fn read_bytes(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    read(bytes, Some(bytes.len() as u64), LIMITS)
}

fn read<'a>(reader: impl Read + 'a, length: Option<u64>, limits: Limits) -> Result<Snapshot, ReadError> {
    let stored = Rc::new(Cell::new(0));
    let mut reader = Counted { inner: reader, count: Rc::clone(&stored) };
    let mut head = Vec::new();
    reader.by_ref().take(HEAD_LENGTH).read_to_end(&mut head).map_err(ReadError::Io)?;
    let is_gzip = head.starts_with(&[0x1f, 0x8b]);
    if !is_gzip {
        check_head(&head)?;
    }
    let whole = Cursor::new(head).chain(reader);
    let reader: Box<dyn Read + 'a> = if is_gzip {
        Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(COMPRESSED_CHUNK, whole)))
    } else {
        Box::new(whole)
    };
    let source = Source { reader, is_gzip, length: length.filter(|_| !is_gzip), limit: limits.length };
    let mut input = Input::new(source);
    if is_gzip {
        check_head(input.peek(HEAD_LENGTH as usize)?)?;
    }
    let budget = Budget { fixed: limits.memory, per_byte: limits.memory_per_byte, stored };
    let loaded = pickle::load(&mut input, Key::strings(), Condenser::default(), budget)?;
    drop(input);
    decode::decode(loaded)
}

/// How many bytes are enough to recognise a file.
const HEAD_LENGTH: u64 = 16;

fn check_head(head: &[u8]) -> Result<(), ReadError> {
    let found = match head {
        [] => return Err(ReadError::Empty),
        [0x80, ..] => return Ok(()),
        [b'P', b'K', 0x03, 0x04, ..] => "a zip archive, such as torch.save writes".to_owned(),
        [b'{' | b'[', ..] => "text, perhaps JSON".to_owned(),
        [b'<', ..] => "text, perhaps HTML".to_owned(),
        [0x1f, 0x8b, ..] => "gzip inside gzip".to_owned(),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "a zstd file".to_owned(),
        _ => {
            let bytes: Vec<String> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            format!("the bytes {}", bytes.join(" "))
        }
    };
    Err(ReadError::NotAPickle { found })
}

/// Counts what is read.
struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// Reports how much is read.
struct Reporting<'a, 'b, R> {
    inner: R,
    done: u64,
    total: u64,
    progress: &'a mut Progress<'b>,
}

impl<R: Read> Read for Reporting<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done += count as u64;
        (self.progress)(self.done, self.total);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A pickle of an empty snapshot, with `length` empty lists that are dropped on the way.
    fn pickle_with_lists(length: usize) -> Vec<u8> {
        [b"\x80\x04(".as_slice(), &vec![b']'; length], b"1]."].concat()
    }

    fn compress(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn more_bytes_than_the_limit_are_refused_plain_and_gzip() {
        let bytes = pickle_with_lists(10_000);
        let limits = Limits { length: 9_999, ..LIMITS };
        for bytes in [bytes.clone(), compress(&bytes)] {
            let error = read(bytes.as_slice(), Some(bytes.len() as u64), limits).unwrap_err();
            assert!(matches!(error, ReadError::TooLarge { limit: 9_999 }), "{error}");
            read(bytes.as_slice(), Some(bytes.len() as u64), LIMITS).unwrap();
        }
    }

    #[test]
    fn memory_is_measured_against_the_bytes_as_stored() {
        let bytes = pickle_with_lists(4_000_000);
        let limits = Limits { memory: 1 << 20, memory_per_byte: 100, ..LIMITS };
        read(bytes.as_slice(), None, limits).unwrap();
        let error = read(compress(&bytes).as_slice(), None, limits).unwrap_err();
        assert!(matches!(error, ReadError::TooMuchMemory { .. }), "{error}");
    }

    #[test]
    fn all_that_a_pickle_builds_counts_as_memory() {
        let limits = Limits { memory: 1 << 20, memory_per_byte: 0, ..LIMITS };
        let strings = (0..20_000).flat_map(|number| [b"\x8c\x64", format!("{number:0100}").as_bytes(), b"0"].concat());
        let floats = (0..200_000).flat_map(|number| [b"G".as_slice(), &f64::from(number).to_be_bytes(), b"0"].concat());
        let marks = [[b'('; 500_000], [b'0'; 500_000]].concat();
        let stack = [b"(".as_slice(), &[b'N'; 400_000], b"1"].concat();
        for body in [strings.collect::<Vec<u8>>(), floats.collect(), marks, stack] {
            let bytes = [b"\x80\x04".as_slice(), &body, b"]."].concat();
            let error = read(bytes.as_slice(), None, limits).unwrap_err();
            assert!(matches!(error, ReadError::TooMuchMemory { .. }), "{error}");
            read(bytes.as_slice(), None, Limits { memory: 16 << 20, ..limits }).unwrap();
        }
    }

    #[test]
    fn a_stream_of_unknown_length_is_read_and_its_length_fields_are_not_believed() {
        read(b"\x80\x04].".as_slice(), None, LIMITS).unwrap();
        let bytes = [b"\x80\x04\x8d".as_slice(), &10_000_000_000_u64.to_le_bytes(), b"abc"].concat();
        let error = read(bytes.as_slice(), None, LIMITS).unwrap_err();
        assert!(matches!(error, ReadError::ValueTooLong { .. }), "{error}");
    }

    #[test]
    fn a_failing_source_is_an_input_error() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _buffer: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("gone"))
            }
        }
        let error = read(b"\x80\x04".chain(Failing), None, LIMITS).unwrap_err();
        assert!(matches!(error, ReadError::Io(_)), "{error}");
    }
}
