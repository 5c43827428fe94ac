//! Bytes as what they have in common with other bytes: copies of runs of those, and what lies between.
//!
//! Templates of one family differ in few places, which are further apart than deflating looks back.

use std::collections::HashMap;

use super::bytes::{Reader, Writer};
use super::error::UnpackError;

/// Runs are found by their first bytes, this many.
const START: usize = 8;
/// A shorter run elsewhere takes more to name than it saves.
const LEAST: usize = 12;
/// One where the last run would go on costs one byte.
const LEAST_IN_PLACE: usize = 4;
/// How many places with one start are tried.
const TRIED: usize = 64;

/// Writes `bytes` by what they have in common with `base`.
pub(super) fn write(base: &[u8], bytes: &[u8], writer: &mut Writer) {
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, start) in base.windows(START).enumerate() {
        let known = places.entry(start).or_default();
        if known.len() < TRIED {
            known.push(at);
        }
    }
    writer.number(bytes.len() as u64);
    let (mut written, mut expected, mut at) = (0, 0, 0);
    while at < bytes.len() {
        let in_place = expected + (at - written);
        let elsewhere = bytes.get(at..at + START).and_then(|start| places.get(start));
        let candidates = std::iter::once(in_place).chain(elsewhere.into_iter().flatten().copied());
        let run = |from: usize| common(base.get(from..).unwrap_or_default(), &bytes[at..]);
        // Of equal ones the first, which is the one in place.
        let (from, length) = candidates
            .map(|from| (from, run(from)))
            .fold((in_place, 0), |best, found| if found.1 > best.1 { found } else { best });
        if length < if from == in_place { LEAST_IN_PLACE } else { LEAST } {
            at += 1;
            continue;
        }
        between(&bytes[written..at], writer);
        writer.number(length as u64);
        writer.signed(from as i64 - in_place as i64);
        at += length;
        (written, expected) = (at, from + length);
    }
    between(&bytes[written..], writer);
}

fn between(bytes: &[u8], writer: &mut Writer) {
    writer.number(bytes.len() as u64);
    writer.bytes.extend(bytes);
}

fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// The bytes that [`write`] was given.
pub(super) fn read(base: &[u8], reader: &mut Reader<'_>, limit: u64) -> Result<Vec<u8>, UnpackError> {
    let length = reader.number()?;
    if length > limit {
        return Err(reader.malformed("fewer bytes"));
    }
    let length = length as usize;
    let mut bytes = Vec::new();
    let mut expected = 0_usize;
    loop {
        let count = reader.count()?;
        bytes.extend(reader.take(count)?);
        if bytes.len() >= length {
            return if bytes.len() == length { Ok(bytes) } else { Err(reader.malformed("as many bytes as said")) };
        }
        let copied = usize::try_from(reader.number()?).map_err(|_| reader.malformed("a smaller number"))?;
        let from = i64::try_from(expected + count).ok().and_then(|place| place.checked_add(reader.signed().ok()?));
        let from = from.and_then(|from| usize::try_from(from).ok()).ok_or_else(|| reader.malformed("a place"))?;
        let end = from.checked_add(copied).filter(|_| copied > 0 && copied <= length - bytes.len());
        let run = end.and_then(|end| base.get(from..end)).ok_or_else(|| reader.malformed("a run of the base"))?;
        bytes.extend(run);
        expected = from + copied;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(base: &[u8], bytes: &[u8]) -> usize {
        let mut writer = Writer::default();
        write(base, bytes, &mut writer);
        let mut reader = Reader::new(&writer.bytes);
        assert_eq!(read(base, &mut reader, 1 << 20).expect("it was written"), bytes);
        assert!(reader.is_at_end());
        writer.bytes.len()
    }

    #[test]
    fn what_bytes_share_with_a_base_takes_no_room() {
        let base: Vec<u8> =
            (0..40_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let mut changed = base.clone();
        changed[70_000] ^= 1;
        changed.splice(90_000..90_010, [1, 2, 3]);
        changed.rotate_left(30_000);
        assert!(there_and_back(&base, &changed) < 40);
        assert!(there_and_back(&[], &base) > base.len());
        there_and_back(&base, &[]);
        there_and_back(&base[..5], &base[..100]);
    }

    #[test]
    fn damaged_differences_are_refused_or_give_as_many_bytes_as_they_say() {
        let base: Vec<u8> = (0..200).collect();
        let bytes: Vec<u8> = (50..150).chain(0..20).collect();
        let mut writer = Writer::default();
        write(&base, &bytes, &mut writer);
        for at in 0..writer.bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = writer.bytes.clone();
                damaged[at] = value;
                if let Ok(read) = read(&base, &mut Reader::new(&damaged), 1 << 20) {
                    assert!(read.len() <= 1 << 20);
                }
            }
            assert!(read(&base, &mut Reader::new(&writer.bytes[..at]), 1 << 20).is_err());
        }
    }
}
