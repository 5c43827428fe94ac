//! The example that an archive was exported with, as far as its values decide which calls eager code makes.
//!
//! The example is a file of `torch.save` inside the archive: a zip archive with a pickle. The pickle is not executed; it is
//! searched for the name of an input and the number of the storage that follows.

use std::io::{Cursor, Read, Seek};

use hashbrown::HashMap;

use crate::zip_archive::Archive;

/// Storages with more bytes than this are not read.
const STORAGE_LIMIT: u64 = 64 << 20;

/// Whether each of some inputs is all ones in the example; those without values are left out.
pub(super) fn full_of_ones<File: Read + Seek>(
    archive: &mut Archive<File>,
    entry: &str,
    names: &[&str],
) -> HashMap<String, bool> {
    let mut found = HashMap::new();
    let Some(root) = entry.split("models/").next() else { return found };
    let stem = entry.rsplit('/').next().and_then(|file| file.strip_suffix(".json")).unwrap_or("model");
    let example = format!("{root}data/sample_inputs/{stem}.pt");
    // Without an example, or with one that is not understood, nothing is known.
    let Ok(bytes) = archive.bytes(&example, STORAGE_LIMIT) else { return found };
    let Ok(mut inner) = Archive::open(Cursor::new(bytes)) else { return found };
    let Some(pickle) = inner.names().find(|name| name.ends_with("/data.pkl")).map(str::to_owned) else { return found };
    let Ok(program) = inner.bytes(&pickle, STORAGE_LIMIT) else { return found };
    let folder = pickle.trim_end_matches("data.pkl").to_owned();
    for name in names {
        let Some(storage) = storage_of(&program, name) else { continue };
        let Ok(values) = inner.bytes(&format!("{folder}data/{storage}"), STORAGE_LIMIT) else { continue };
        if !values.is_empty() {
            // The elements' width is one of these; ones of one width are not ones of another.
            found.insert((*name).to_owned(), [8, 4, 1].into_iter().any(|width| is_ones(&values, width)));
        }
    }
    found
}

fn is_ones(bytes: &[u8], width: usize) -> bool {
    let is_one = |value: &[u8]| value[0] == 1 && value[1..].iter().all(|byte| *byte == 0);
    bytes.len().is_multiple_of(width) && bytes.chunks_exact(width).all(is_one)
}

/// The number of the storage of the input with this name: the first text of digits after it.
fn storage_of(program: &[u8], name: &str) -> Option<String> {
    let mut rest = after(program, &text(name))?;
    // A storage follows within a few strings, or the input is not a tensor.
    for _ in 0..4 {
        let at = rest.iter().position(|byte| *byte == b'X')?;
        let length = u32::from_le_bytes(rest.get(at + 1..at + 5)?.try_into().ok()?) as usize;
        let word = rest.get(at + 5..(at + 5).checked_add(length)?)?;
        if !word.is_empty() && word.iter().all(u8::is_ascii_digit) {
            return String::from_utf8(word.to_vec()).ok();
        }
        rest = &rest[at + 5 + length..];
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_storage_that_follows_a_name_is_found() {
        let mut program = text("input_ids");
        program.extend(text("storage"));
        program.extend(text("0"));
        program.extend(text("attention_mask"));
        program.extend(b"h\x03h\x04");
        program.extend(text("17"));
        assert_eq!(storage_of(&program, "input_ids").as_deref(), Some("0"));
        assert_eq!(storage_of(&program, "attention_mask").as_deref(), Some("17"));
        assert_eq!(storage_of(&program, "labels"), None);
        assert_eq!(storage_of(&program[..program.len() - 1], "attention_mask"), None);
    }

    #[test]
    fn ones_are_ones_in_any_width() {
        assert!(is_ones(&1_i64.to_le_bytes(), 8));
        assert!(!is_ones(&0_i64.to_le_bytes(), 8));
        assert!(is_ones(&[1, 1, 1], 1));
        assert!(!is_ones(&[1, 0, 1], 1));
    }
}
