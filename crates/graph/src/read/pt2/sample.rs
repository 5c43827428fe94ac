//! The example that an archive was exported with, as far as its values decide which calls eager code makes.
//!
//! The example is a file of `torch.save` within the archive: a zip archive with a pickle in it. The pickle is not run; the
//! name of an input is looked for in it, and the number of the storage that follows.

use std::collections::HashMap;
use std::io::{Cursor, Read, Seek};

use crate::read::zip::Archive;

/// Storages of more bytes than this are not looked at.
const STORAGE_LIMIT: u64 = 64 << 20;

/// Whether each of some inputs is full of ones in the example; those without values are left out.
pub(super) fn full_of_ones<File: Read + Seek>(
    archive: &mut Archive<File>,
    entry: &str,
    names: &[&str],
) -> HashMap<String, bool> {
    let mut found = HashMap::new();
    let Some(root) = entry.split("models/").next() else { return found };
    let stem = entry.rsplit('/').next().and_then(|file| file.strip_suffix(".json")).unwrap_or("model");
    let example = format!("{root}data/sample_inputs/{stem}.pt");
    // An archive without an example, or with one that is not understood, has no say.
    let Ok(bytes) = archive.bytes(&example, STORAGE_LIMIT) else { return found };
    let Ok(mut inner) = Archive::open(Cursor::new(bytes)) else { return found };
    let Some(pickle) = inner.names().find(|name| name.ends_with("/data.pkl")).map(str::to_owned) else { return found };
    let Ok(program) = inner.bytes(&pickle, STORAGE_LIMIT) else { return found };
    let folder = pickle.trim_end_matches("data.pkl").to_owned();
    for name in names {
        let Some((width, storage)) = storage_of(&program, name) else { continue };
        let Ok(values) = inner.bytes(&format!("{folder}data/{storage}"), STORAGE_LIMIT) else { continue };
        let is_one = |value: &[u8]| value[0] == 1 && value[1..].iter().all(|byte| *byte == 0);
        if !values.is_empty() && values.len().is_multiple_of(width) {
            found.insert((*name).to_owned(), values.chunks_exact(width).all(is_one));
        }
    }
    found
}

/// The width of its elements and the number of the storage of the input with this name.
fn storage_of(program: &[u8], name: &str) -> Option<(usize, String)> {
    let rest = after(program, &text(name))?;
    let rest = after(rest, &text("storage"))?;
    let line = rest.get(..64.min(rest.len()))?;
    let widths: [(&[u8], usize); 4] =
        [(b"LongStorage", 8), (b"IntStorage", 4), (b"BoolStorage", 1), (b"ByteStorage", 1)];
    let (kind, width) = widths.into_iter().find(|(kind, _)| after(line, kind).is_some())?;
    let rest = after(rest, kind)?;
    let at = rest.iter().position(|byte| *byte == b'X')?;
    let length = u32::from_le_bytes(rest.get(at + 1..at + 5)?.try_into().ok()?) as usize;
    let digits = std::str::from_utf8(rest.get(at + 5..(at + 5).checked_add(length)?)?).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| (width, digits.to_owned()))
}

/// How a pickle writes a short text.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = vec![b'X'];
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

fn after<'a>(bytes: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let at = bytes.windows(wanted.len()).position(|window| window == wanted)?;
    Some(&bytes[at + wanted.len()..])
}
