//! Lists of tensors, each as its distance from the one before: what runs on in steps of one is short once deflated.

use super::bytes::{Reader, Writer};
use super::error::UnpackError;
use vramfit_graph::model::TensorId;

pub(super) fn write(list: &[TensorId], writer: &mut Writer) {
    writer.number(list.len() as u64);
    let mut last = 0;
    for tensor in list {
        writer.signed(i64::from(tensor.0) - last);
        last = i64::from(tensor.0);
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<TensorId>, UnpackError> {
    let mut last = 0;
    (0..reader.count()?).map(|_| moved(&mut last, reader).map(TensorId)).collect()
}

/// Reads a distance and goes there.
pub(super) fn moved(last: &mut u32, reader: &mut Reader<'_>) -> Result<u32, UnpackError> {
    let distance = reader.signed()?;
    let there = i64::from(*last).checked_add(distance).and_then(|there| u32::try_from(there).ok());
    *last = there.ok_or_else(|| reader.malformed("a distance to a number of 32 bits"))?;
    Ok(*last)
}
