//! The steps of a model.
//!
//! A tensor is written in one of three ways, by what makes the bytes of equal layers equal: one that the step has made
//! lately as its distance from the newest, an older one by its number (what a model computes once and uses in every layer),
//! and a parameter, buffer or input as its distance from the one named before.

use super::bytes::{Packed, Reader, Writer};
use super::error::UnpackError;
use super::list;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Call, Cast, MemoryFormat, RecordedBackward, Step, TensorId, Variant};

/// How far back a tensor counts as made lately.
const LATELY: u32 = 256;

const MEMORY_FORMATS: [MemoryFormat; 4] =
    [MemoryFormat::Contiguous, MemoryFormat::Preserve, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d];
const CASTS: [Cast; 3] = [Cast::No, Cast::ForCall, Cast::Kept];

pub(super) fn write_sections(sections: &[Vec<Step>], given: u32, writer: &mut Writer) {
    writer.number(sections.len() as u64);
    for section in sections {
        writer.number(section.len() as u64);
        let mut state = StepState::new(given);
        section.iter().for_each(|step| state.write_step(step, writer));
    }
}

pub(super) fn read_sections(given: u32, reader: &mut Reader<'_>) -> Result<Vec<Vec<Step>>, UnpackError> {
    let mut sections = Vec::new();
    for _ in 0..reader.count()? {
        let mut state = StepState::new(given);
        sections.push((0..reader.count()?).map(|_| state.read_step(reader)).collect::<Result<_, _>>()?);
    }
    Ok(sections)
}

/// The backwards of the custom functions in each variant. A model without any has none of these bytes.
pub(super) fn write_functions(variants: &[Variant], given: u32, writer: &mut Writer) {
    if variants.iter().all(|variant| variant.functions.is_empty()) {
        return;
    }
    for variant in variants {
        writer.number(variant.functions.len() as u64);
        for function in &variant.functions {
            let mut state = StepState::new(given);
            writer.number(function.end as u64);
            function.arguments.is_some().write(writer);
            function.arguments.iter().for_each(|arguments| state.write_tensors(arguments, writer));
            state.write_tensors(&function.kept, writer);
            state.write_maybe(&function.gradients, writer);
            state.write_maybe(&function.results, writer);
            writer.number(function.steps.len() as u64);
            function.steps.iter().for_each(|step| state.write_step(step, writer));
        }
    }
}

pub(super) fn read_functions(variants: &mut [Variant], given: u32, reader: &mut Reader<'_>) -> Result<(), UnpackError> {
    if reader.is_at_end() {
        return Ok(());
    }
    for variant in variants {
        for _ in 0..reader.count()? {
            let mut state = StepState::new(given);
            variant.functions.push(RecordedBackward {
                end: u32::read(reader)? as usize,
                arguments: if bool::read(reader)? { Some(state.read_tensors(reader)?) } else { None },
                kept: state.read_tensors(reader)?,
                gradients: state.read_maybe(reader)?,
                results: state.read_maybe(reader)?,
                steps: (0..reader.count()?).map(|_| state.read_step(reader)).collect::<Result<_, _>>()?,
            });
        }
    }
    Ok(())
}

/// What distances are counted from at a step.
struct StepState {
    /// How many tensors exist before the step.
    given: u32,
    /// The number after the newest tensor's.
    next: u32,
    last_given: u32,
    last_module: u32,
}

impl StepState {
    fn new(given: u32) -> Self {
        StepState { given, next: given, last_given: 0, last_module: 0 }
    }

    fn meet(&mut self, tensor: u32) {
        self.next = self.next.max(tensor.saturating_add(1));
        if tensor < self.given {
            self.last_given = tensor;
        }
    }

    fn write_tensor(&mut self, TensorId(tensor): TensorId, writer: &mut Writer) {
        if tensor < self.given {
            let distance = i64::from(tensor) - i64::from(self.last_given);
            writer.number(((distance << 1) ^ (distance >> 63)) as u64 * 3);
        } else if self.next.saturating_sub(tensor) < LATELY && tensor - self.given < u32::MAX / 4 {
            let distance = i64::from(self.next) - i64::from(tensor);
            writer.number(((distance << 1) ^ (distance >> 63)) as u64 * 3 + 1);
        } else {
            writer.number(u64::from(tensor) * 3 + 2);
        }
        self.meet(tensor);
    }

    fn read_tensor(&mut self, reader: &mut Reader<'_>) -> Result<TensorId, UnpackError> {
        let number = reader.number()?;
        let value = number / 3;
        let distance = (value >> 1) as i64 ^ -((value & 1) as i64);
        let tensor = match number % 3 {
            0 => i64::from(self.last_given).checked_add(distance),
            1 => i64::from(self.next).checked_sub(distance),
            _ => i64::try_from(value).ok(),
        };
        let tensor = tensor.and_then(|tensor| u32::try_from(tensor).ok());
        let tensor = tensor.ok_or_else(|| reader.malformed("a tensor"))?;
        self.meet(tensor);
        Ok(TensorId(tensor))
    }

    fn write_maybe(&mut self, tensors: &[Option<TensorId>], writer: &mut Writer) {
        writer.number(tensors.len() as u64);
        for tensor in tensors {
            tensor.is_some().write(writer);
            tensor.iter().for_each(|tensor| self.write_tensor(*tensor, writer));
        }
    }

    fn read_maybe(&mut self, reader: &mut Reader<'_>) -> Result<Vec<Option<TensorId>>, UnpackError> {
        (0..reader.count()?)
            .map(|_| if bool::read(reader)? { self.read_tensor(reader).map(Some) } else { Ok(None) })
            .collect()
    }

    fn write_tensors(&mut self, tensors: &[TensorId], writer: &mut Writer) {
        writer.number(tensors.len() as u64);
        tensors.iter().for_each(|tensor| self.write_tensor(*tensor, writer));
    }

    fn read_tensors(&mut self, reader: &mut Reader<'_>) -> Result<Vec<TensorId>, UnpackError> {
        (0..reader.count()?).map(|_| self.read_tensor(reader)).collect()
    }

    fn write_module(&mut self, module: u32, writer: &mut Writer) {
        writer.signed(i64::from(module) - i64::from(self.last_module));
        self.last_module = module;
    }

    fn write_step(&mut self, step: &Step, writer: &mut Writer) {
        let mut tag = |tag: u8| writer.bytes.push(tag);
        match step {
            Step::Call(call) => {
                tag(0);
                self.write_call(call, writer);
            }
            Step::Free(tensors) => {
                tag(1);
                self.write_tensors(tensors, writer);
            }
            Step::Enter(module, tensors) => {
                tag(2);
                self.write_module(*module, writer);
                self.write_tensors(tensors, writer);
            }
            Step::Exit(module, tensors) => {
                tag(3);
                self.write_module(*module, writer);
                self.write_tensors(tensors, writer);
            }
            Step::Grad(is_on) => {
                tag(4);
                is_on.write(writer);
            }
            Step::Autocast { is_gpu, dtype, is_enabled, has_cache } => {
                tag(5);
                is_gpu.write(writer);
                dtype.write(writer);
                is_enabled.write(writer);
                has_cache.write(writer);
            }
            Step::EndAutocast => tag(6),
            Step::Checkpoint { is_reentrant, preserves_rng, arguments } => {
                tag(7);
                is_reentrant.write(writer);
                preserves_rng.write(writer);
                self.write_tensors(arguments, writer);
            }
            Step::EndCheckpoint(results) => {
                tag(8);
                self.write_tensors(results, writer);
            }
            Step::Function { name, arguments } => {
                tag(9);
                name.write(writer);
                self.write_tensors(arguments, writer);
            }
            Step::EndFunction { results, saved } => {
                tag(10);
                self.write_tensors(results, writer);
                self.write_tensors(saved, writer);
            }
            Step::Loss => tag(11),
            Step::EndLoss => tag(12),
        }
    }

    fn read_step(&mut self, reader: &mut Reader<'_>) -> Result<Step, UnpackError> {
        Ok(match reader.byte()? {
            0 => Step::Call(self.read_call(reader)?),
            1 => Step::Free(self.read_tensors(reader)?),
            2 => Step::Enter(list::moved(&mut self.last_module, reader)?, self.read_tensors(reader)?),
            3 => Step::Exit(list::moved(&mut self.last_module, reader)?, self.read_tensors(reader)?),
            4 => Step::Grad(Packed::read(reader)?),
            5 => Step::Autocast {
                is_gpu: Packed::read(reader)?,
                dtype: Packed::read(reader)?,
                is_enabled: Packed::read(reader)?,
                has_cache: Packed::read(reader)?,
            },
            6 => Step::EndAutocast,
            7 => Step::Checkpoint {
                is_reentrant: Packed::read(reader)?,
                preserves_rng: Packed::read(reader)?,
                arguments: self.read_tensors(reader)?,
            },
            8 => Step::EndCheckpoint(self.read_tensors(reader)?),
            9 => Step::Function { name: Packed::read(reader)?, arguments: self.read_tensors(reader)? },
            10 => Step::EndFunction { results: self.read_tensors(reader)?, saved: self.read_tensors(reader)? },
            11 => Step::Loss,
            12 => Step::EndLoss,
            _ => return Err(reader.malformed("a step")),
        })
    }

    fn write_call(&mut self, call: &Call, writer: &mut Writer) {
        call.operator.write(writer);
        // Which source, or none, and the cast, in one number.
        let source = call.source.map_or(0, |source| u64::from(source) + 1);
        let cast = CASTS.iter().position(|cast| *cast == call.cast).unwrap_or_default() as u64;
        writer.number(source * 3 + cast);
        writer.number(call.arguments.len() as u64);
        call.arguments.iter().for_each(|argument| self.write_argument(argument, writer));
        self.write_maybe(&call.results, writer);
    }

    fn read_call(&mut self, reader: &mut Reader<'_>) -> Result<Call, UnpackError> {
        let operator = Packed::read(reader)?;
        let number = reader.number()?;
        let source = u32::try_from(number / 3).map_err(|_| reader.malformed("the number of a source"))?.checked_sub(1);
        let cast = CASTS[(number % 3) as usize];
        let arguments = (0..reader.count()?).map(|_| self.read_argument(reader, 0)).collect::<Result<_, _>>()?;
        let results = self.read_maybe(reader)?;
        Ok(Call { operator, arguments, results, source, cast })
    }

    fn write_argument(&mut self, argument: &Argument, writer: &mut Writer) {
        let mut tag = |tag: u8| writer.bytes.push(tag);
        match argument {
            Argument::None => tag(0),
            Argument::Bool(value) => tag(1 + u8::from(*value)),
            Argument::Int(size) => {
                tag(3);
                size.write(writer);
            }
            Argument::Float(value) => {
                tag(4);
                value.write(writer);
            }
            Argument::Tensor(tensor) => {
                tag(5);
                self.write_tensor(*tensor, writer);
            }
            Argument::List(items) => {
                tag(6);
                writer.number(items.len() as u64);
                items.iter().for_each(|item| self.write_argument(item, writer));
            }
            Argument::Text(text) => {
                tag(7);
                text.write(writer);
            }
            Argument::Dtype(dtype) => {
                tag(8);
                dtype.write(writer);
            }
            Argument::Device { is_host } => tag(9 + u8::from(*is_host)),
            Argument::MemoryFormat(format) => {
                tag(11);
                let number = MEMORY_FORMATS.iter().position(|known| known == format).unwrap_or_default();
                writer.bytes.push(number as u8);
            }
            Argument::Other => tag(12),
        }
    }

    fn read_argument(&mut self, reader: &mut Reader<'_>, depth: u8) -> Result<Argument, UnpackError> {
        Ok(match reader.byte()? {
            0 => Argument::None,
            1 => Argument::Bool(false),
            2 => Argument::Bool(true),
            3 => Argument::Int(Packed::read(reader)?),
            4 => Argument::Float(Packed::read(reader)?),
            5 => Argument::Tensor(self.read_tensor(reader)?),
            6 if depth < 8 => Argument::List(
                (0..reader.count()?).map(|_| self.read_argument(reader, depth + 1)).collect::<Result<_, _>>()?,
            ),
            7 => Argument::Text(Packed::read(reader)?),
            8 => Argument::Dtype(Dtype::read(reader)?),
            tag @ 9..=10 => Argument::Device { is_host: tag == 10 },
            11 => {
                let number = usize::from(reader.byte()?);
                let format = MEMORY_FORMATS.get(number).copied();
                Argument::MemoryFormat(format.ok_or_else(|| reader.malformed("a memory format"))?)
            }
            12 => Argument::Other,
            _ => return Err(reader.malformed("an argument")),
        })
    }
}
