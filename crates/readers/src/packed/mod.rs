//! The compact format of the built-in models: [`pack`] and [`unpack`].
//!
//! The same content as a capture's, in binary, deflated. Numbers of tensors and modules are written as distances, so that
//! each of eighty equal layers has the same bytes and deflating leaves next to nothing of all but the first. The format has
//! no versions: a file is written and read by the same build.
//!
//! [`pack_difference`] and [`unpack_difference`] do the same for models that resemble others: all but one are differences.

mod bytes;
mod difference;
mod error;
mod list;
mod step;
mod table;

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use self::bytes::{Packed, Reader, Writer};
pub use self::error::UnpackError;
use crate::check::check_model;
use vramfit_graph::model::{FineTuned, Model, Origin, Symbol};

/// The bytes that are unpacked at most; a Llama of 70 billion parameters has about 2 million.
const LENGTH_LIMIT: u64 = 256 << 20;
/// How many differences may be built on each other.
const BASES_LIMIT: usize = 12;

/// `model` in the compact format. Its origin and the paths of its outputs are not written: the unpacked model counts as a
/// capture without them.
pub fn pack(model: &Model) -> std::io::Result<Vec<u8>> {
    deflated(&bytes_of(model))
}

/// The model that was packed.
pub fn unpack(packed: &[u8]) -> Result<Model, UnpackError> {
    model_of(&inflated(packed)?)
}

/// The same as [`pack`] for a model that resembles another, whose name it then has: only the difference is written.
pub fn pack_difference(model: &Model, base: Option<(&str, &Model)>) -> std::io::Result<Vec<u8>> {
    let mut writer = Writer::default();
    base.map_or("", |(name, _)| name).to_owned().write(&mut writer);
    let base = base.map(|(_, model)| bytes_of(model)).unwrap_or_default();
    difference::write(&base, &bytes_of(model), &mut writer);
    deflated(&writer.bytes)
}

/// The model that [`pack_difference`] packed; `find` gives what was packed under a name.
pub fn unpack_difference<'a>(packed: &[u8], find: impl Fn(&str) -> Option<&'a [u8]>) -> Result<Model, UnpackError> {
    model_of(&undone(packed, &find, BASES_LIMIT)?)
}

fn undone<'a>(packed: &[u8], find: &impl Fn(&str) -> Option<&'a [u8]>, bases: usize) -> Result<Vec<u8>, UnpackError> {
    let bytes = inflated(packed)?;
    let mut reader = Reader::new(&bytes);
    let name = String::read(&mut reader)?;
    let base = match name.as_str() {
        "" => Vec::new(),
        name => {
            let bases = bases.checked_sub(1).ok_or_else(|| reader.malformed("fewer bases"))?;
            undone(find(name).ok_or_else(|| reader.malformed("the name of a base"))?, find, bases)?
        }
    };
    let bytes = difference::read(&base, &mut reader, LENGTH_LIMIT)?;
    if reader.is_at_end() { Ok(bytes) } else { Err(reader.malformed("the end")) }
}

fn bytes_of(model: &Model) -> Vec<u8> {
    let mut writer = Writer::default();
    model.write(&mut writer);
    writer.bytes
}

fn model_of(bytes: &[u8]) -> Result<Model, UnpackError> {
    let mut reader = Reader::new(bytes);
    let model = Model::read(&mut reader)?;
    if !reader.is_at_end() {
        return Err(reader.malformed("the end"));
    }
    check_model(&model)?;
    Ok(model)
}

fn deflated(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn inflated(packed: &[u8]) -> Result<Vec<u8>, UnpackError> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(packed).take(LENGTH_LIMIT).read_to_end(&mut bytes).map_err(UnpackError::Inflate)?;
    Ok(bytes)
}

impl Packed for Model {
    fn write(&self, writer: &mut Writer) {
        self.class.write(writer);
        self.symbols.write(writer);
        table::write_expressions(self, writer);
        self.notes.write(writer);
        table::write_modules(&self.modules, writer);
        self.operators.write(writer);
        self.sources.write(writer);
        table::write_weights(&self.parameters, &self.modules, writer);
        table::write_weights(&self.buffers, &self.modules, writer);
        list::write(&self.move_order, writer);
        self.inputs.write(writer);
        self.targets.write(writer);
        self.variants.write(writer);
        self.types.write(writer);
        table::write_tensors(&self.tensors, writer);
        let given = u32::try_from(self.given_count()).unwrap_or(u32::MAX);
        step::write_sections(&self.steps, given, writer);
        step::write_functions(&self.variants, given, writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        let class = Packed::read(reader)?;
        let symbols: Vec<Symbol> = Packed::read(reader)?;
        let expressions = table::read_expressions(&symbols, reader)?;
        let notes = Packed::read(reader)?;
        let modules = table::read_modules(reader)?;
        let mut model = Model {
            origin: Origin::Capture,
            torch: None,
            class,
            symbols,
            expressions,
            notes,
            operators: Packed::read(reader)?,
            sources: Packed::read(reader)?,
            parameters: table::read_weights(&modules, reader)?,
            buffers: table::read_weights(&modules, reader)?,
            modules,
            move_order: list::read(reader)?,
            inputs: Packed::read(reader)?,
            targets: Packed::read(reader)?,
            variants: Packed::read(reader)?,
            types: Packed::read(reader)?,
            tensors: table::read_tensors(reader)?,
            steps: Vec::new(),
            fine_tuning: FineTuned::default(),
            script: None,
        };
        let given = u32::try_from(model.given_count()).map_err(|_| reader.malformed("fewer tensors"))?;
        model.steps = step::read_sections(given, reader)?;
        step::read_functions(&mut model.variants, given, reader)?;
        Ok(model)
    }
}
