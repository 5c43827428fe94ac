//! A zip archive, of which only what is asked for is read: the list at its end, then single entries.
//!
//! Written by hand because little is needed (stored and deflated entries, and the 64-bit fields of archives beyond 4 GiB)
//! and every length must be held against the file and a limit before anything is allocated.

mod error;

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use flate2::{Decompress, FlushDecompress, Status};

use super::ReadError;
use super::input::FIRST_ALLOCATION;
pub use error::ZipError;

/// Where the list's place is written: the last of these in the file.
const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
const LISTED: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";

/// The end record and the longest comment after it.
const END_SEARCHED: u64 = 22 + 65_535;
/// The list of a model of 100,000 weights has some 10 MB.
const LIST_LIMIT: u64 = 256 << 20;

/// An entry, as listed.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    method: u16,
    is_encrypted: bool,
    packed: u64,
    plain: u64,
    begin: u64,
}

/// An archive whose list has been read.
pub(super) struct Archive<File> {
    file: File,
    length: u64,
    entries: Vec<Entry>,
}

impl<File: Read + Seek> Archive<File> {
    /// Reads the list of entries, and nothing else.
    pub(super) fn open(mut file: File) -> Result<Archive<File>, ReadError> {
        let length = file.seek(SeekFrom::End(0)).map_err(ReadError::Io)?;
        let (list_begin, list_length) = find_list(&mut file, length)?;
        if list_length > LIST_LIMIT {
            return Err(ZipError::ListTooLong { found: list_length, limit: LIST_LIMIT }.into());
        }
        let list = read_at(&mut file, length, list_begin, list_length)?;
        Ok(Archive { file, length, entries: entries(&list)? })
    }

    /// The names of all entries.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The text of an entry, up to `limit` bytes of it.
    pub(super) fn text(&mut self, name: &str, limit: u64) -> Result<String, ReadError> {
        let not_text =
            |error: std::string::FromUtf8Error| ReadError::NotText { offset: error.utf8_error().valid_up_to() };
        String::from_utf8(self.bytes(name, limit)?).map_err(|error| not_text(error).within(name))
    }

    /// The bytes of an entry, up to `limit` of them.
    pub(super) fn bytes(&mut self, name: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let missing = || ReadError::from(ZipError::EntryMissing { entry: name.to_owned() });
        let entry = self.entries.iter().find(|entry| entry.name == name).cloned().ok_or_else(missing)?;
        if entry.is_encrypted || !matches!(entry.method, 0 | 8) {
            let found = if entry.is_encrypted { "encryption".to_owned() } else { format!("method {}", entry.method) };
            return Err(ZipError::Method { entry: entry.name, found }.into());
        }
        if entry.plain > limit {
            return Err(ZipError::EntryTooLarge { entry: entry.name, limit }.into());
        }
        // The entry's own head may be longer than the list says: only it knows where the bytes begin.
        let head = read_at(&mut self.file, self.length, entry.begin, 30)?;
        if head[..4] != LOCAL {
            return Err(ReadError::from(ZipError::Damaged {
                what: format!("entry `{name}` does not begin at byte {}", entry.begin),
            }));
        }
        let begin = entry.begin + 30 + u64::from(number_16(&head, 26)) + u64::from(number_16(&head, 28));
        let packed = read_at(&mut self.file, self.length, begin, entry.packed)?;
        let plain = if entry.method == 0 { packed } else { inflated(&packed, &entry)? };
        if plain.len() as u64 != entry.plain {
            let (found, needed) = (plain.len() as u64, entry.plain);
            return Err(ZipError::WrongLength { entry: entry.name, found, needed }.into());
        }
        Ok(plain)
    }
}

fn inflated(packed: &[u8], entry: &Entry) -> Result<Vec<u8>, ReadError> {
    // Lengths may lie: what is beyond this is allocated as it comes.
    let mut plain = Vec::with_capacity((entry.plain as usize).saturating_add(1).min(FIRST_ALLOCATION));
    let mut inflater = Decompress::new(false);
    loop {
        // No more than is announced is unpacked, and that is within the limit.
        if plain.len() as u64 > entry.plain {
            return Err(ZipError::UnpacksToMore { entry: entry.name.clone(), announced: entry.plain }.into());
        }
        if plain.len() == plain.capacity() {
            plain.reserve((entry.plain as usize).saturating_add(1).min(plain.len().max(FIRST_ALLOCATION)));
        }
        let rest = &packed[(inflater.total_in() as usize).min(packed.len())..];
        let (taken, made) = (inflater.total_in(), inflater.total_out());
        let status = inflater.decompress_vec(rest, &mut plain, FlushDecompress::Finish);
        let damaged = |source| {
            ReadError::from(ZipError::Deflate { entry: entry.name.clone(), offset: plain.len() as u64, source })
        };
        match status {
            Ok(Status::StreamEnd) => break,
            Ok(_) if (taken, made) != (inflater.total_in(), inflater.total_out()) => {}
            Ok(_) => return Err(damaged(ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(damaged(error.into())),
        }
    }
    if plain.len() as u64 > entry.plain {
        return Err(ZipError::UnpacksToMore { entry: entry.name.clone(), announced: entry.plain }.into());
    }
    Ok(plain)
}

/// Where the list of entries begins, and how long it is.
fn find_list(file: &mut (impl Read + Seek), length: u64) -> Result<(u64, u64), ReadError> {
    let searched = length.min(END_SEARCHED);
    let tail = read_at(file, length, length - searched, searched)?;
    let found = (0..tail.len().saturating_sub(21)).rev().find(|&at| tail[at..].starts_with(&END));
    let at = found.ok_or(ZipError::WithoutEnd { length })?;
    let (list_length, list_begin) = (number_32(&tail, at + 12), number_32(&tail, at + 16));
    if list_length != u32::MAX && list_begin != u32::MAX && number_16(&tail, at + 10) != u16::MAX {
        return Ok((list_begin.into(), list_length.into()));
    }
    let no_locator = || ReadError::from(ZipError::Damaged { what: "its 64-bit end record is missing".to_owned() });
    let locator = at.checked_sub(20).filter(|at| tail[*at..].starts_with(&LOCATOR_64)).ok_or_else(no_locator)?;
    let end = read_at(file, length, number_64(&tail, locator + 8), 56)?;
    if end[..4] != END_64 {
        return Err(no_locator());
    }
    Ok((number_64(&end, 48), number_64(&end, 40)))
}

fn entries(list: &[u8]) -> Result<Vec<Entry>, ReadError> {
    let damaged = |at: usize| {
        ReadError::from(ZipError::Damaged { what: format!("its list of entries is broken after {at} bytes") })
    };
    let mut entries = Vec::new();
    let mut at = 0;
    while at < list.len() {
        let head = list.get(at..at + 46).filter(|head| head[..4] == LISTED).ok_or_else(|| damaged(at))?;
        let lengths = [28, 30, 32].map(|place| usize::from(number_16(head, place)));
        let rest = list.get(at + 46..at + 46 + lengths.iter().sum::<usize>()).ok_or_else(|| damaged(at))?;
        let name = String::from_utf8_lossy(&rest[..lengths[0]]).into_owned();
        let mut entry = Entry {
            name,
            method: number_16(head, 10),
            is_encrypted: number_16(head, 8) & 1 != 0,
            packed: number_32(head, 20).into(),
            plain: number_32(head, 24).into(),
            begin: number_32(head, 42).into(),
        };
        widen(&mut entry, &rest[lengths[0]..lengths[0] + lengths[1]]);
        entries.push(entry);
        at += 46 + lengths.iter().sum::<usize>();
    }
    Ok(entries)
}

/// Takes 64-bit lengths from an entry's extra fields, where its own are too short for them.
fn widen(entry: &mut Entry, mut extra: &[u8]) {
    while extra.len() >= 4 {
        let (kind, length) = (number_16(extra, 0), usize::from(number_16(extra, 2)));
        let Some(field) = extra.get(4..4 + length) else { return };
        if kind == 1 {
            let wide = [&mut entry.plain, &mut entry.packed, &mut entry.begin];
            let needed = wide.into_iter().filter(|value| **value == u64::from(u32::MAX));
            for (value, bytes) in needed.zip(field.chunks_exact(8)) {
                *value = number_64(bytes, 0);
            }
        }
        extra = &extra[4 + length..];
    }
}

/// Bytes of the file; they are known to be there before memory is taken for them.
fn read_at(file: &mut (impl Read + Seek), length: u64, begin: u64, count: u64) -> Result<Vec<u8>, ReadError> {
    if begin.checked_add(count).is_none_or(|end| end > length) {
        return Err(ZipError::Truncated { begin, count, length }.into());
    }
    file.seek(SeekFrom::Start(begin)).map_err(ReadError::Io)?;
    let mut bytes = vec![0; count as usize];
    file.read_exact(&mut bytes).map_err(ReadError::Io)?;
    Ok(bytes)
}

fn number_16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn number_32(bytes: &[u8], at: usize) -> u32 {
    u32::from(number_16(bytes, at)) | u32::from(number_16(bytes, at + 2)) << 16
}

fn number_64(bytes: &[u8], at: usize) -> u64 {
    u64::from(number_32(bytes, at)) | u64::from(number_32(bytes, at + 4)) << 32
}
