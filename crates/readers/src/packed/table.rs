//! The tables of a model: everything but its steps.

use std::collections::HashMap;

use super::bytes::{Packed, Reader, Writer, packed_struct};
use super::error::UnpackError;
use super::list;
use vramfit_eager::operators;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::expression::Expression;
use vramfit_graph::model::{
    Assumed, Example, Input, Mode, Model, Module, Operator, Precision, Source, Symbol, SymbolRange, Tensor, TensorId,
    Type, Variant, Weight,
};

packed_struct!(SymbolRange { least, most });
packed_struct!(Symbol { name, example, recorded, dims, range });
packed_struct!(Source { file, line, function });
packed_struct!(Input { name, tensor, dtype, example, shape });
packed_struct!(Type { dtype, shape, strides });

impl Packed for Operator {
    fn write(&self, writer: &mut Writer) {
        self.name.write(writer);
        self.arguments.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        Ok(operators::named(Packed::read(reader)?, Packed::read(reader)?))
    }
}

/// No size is 0, so 0 means that data decides it.
impl Packed for Example {
    fn write(&self, writer: &mut Writer) {
        match self {
            Example::Known(value) => value.write(writer),
            Example::DataDependent { producer } => {
                0_i64.write(writer);
                producer.write(writer);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        match i64::read(reader)? {
            0 => Ok(Example::DataDependent { producer: Packed::read(reader)? }),
            value => Ok(Example::Known(value)),
        }
    }
}

impl Packed for Precision {
    fn write(&self, writer: &mut Writer) {
        match self {
            Precision::AsBuilt => writer.bytes.push(0),
            Precision::Cast(dtype) => {
                writer.bytes.push(1);
                dtype.write(writer);
            }
            Precision::Autocast(dtype) => {
                writer.bytes.push(2);
                dtype.write(writer);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        match reader.byte()? {
            0 => Ok(Precision::AsBuilt),
            1 => Dtype::read(reader).map(Precision::Cast),
            2 => Dtype::read(reader).map(Precision::Autocast),
            _ => Err(reader.malformed("a precision")),
        }
    }
}

impl Packed for Mode {
    fn write(&self, writer: &mut Writer) {
        writer.bytes.push(*self as u8);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        match reader.byte()? {
            0 => Ok(Mode::Train),
            1 => Ok(Mode::Eval),
            2 => Ok(Mode::EvalGrad),
            _ => Err(reader.malformed("a mode")),
        }
    }
}

impl Packed for Variant {
    fn write(&self, writer: &mut Writer) {
        self.precision.write(writer);
        self.mode.write(writer);
        self.has_grad.write(writer);
        self.types.write(writer);
        self.tensors.write(writer);
        self.steps.write(writer);
        for tensors in [&self.constants, &self.outputs, &self.released, &self.held] {
            list::write(tensors, writer);
        }
        self.loss.write(writer);
        self.causes.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        Ok(Variant {
            precision: Packed::read(reader)?,
            mode: Packed::read(reader)?,
            assumed: Assumed::Expected,
            reach: None,
            has_grad: Packed::read(reader)?,
            types: Packed::read(reader)?,
            tensors: Packed::read(reader)?,
            steps: Packed::read(reader)?,
            constants: list::read(reader)?,
            outputs: list::read(reader)?,
            paths: Vec::new(),
            released: list::read(reader)?,
            held: list::read(reader)?,
            loss: Packed::read(reader)?,
            late: Vec::new(),
            functions: Vec::new(),
            causes: Packed::read(reader)?,
        })
    }
}

pub(super) fn write_expressions(model: &Model, writer: &mut Writer) {
    let names = model.symbol_names();
    let texts: Vec<String> = model.expressions.iter().map(|expression| expression.named(&names).to_string()).collect();
    texts.write(writer);
}

pub(super) fn read_expressions(symbols: &[Symbol], reader: &mut Reader<'_>) -> Result<Vec<Expression>, UnpackError> {
    let find = |name: &str| symbols.iter().position(|symbol| symbol.name == name).map(|at| at as u32);
    let texts: Vec<String> = Packed::read(reader)?;
    let parsed = texts.iter().map(|text| Expression::parse(text, find));
    parsed.collect::<Result<_, _>>().map_err(|_| reader.malformed("expressions of the symbols before this place"))
}

/// A dotted name, as the index of its module and the rest.
struct Names<'a> {
    modules: HashMap<&'a str, usize>,
    last: usize,
}

impl<'a> Names<'a> {
    /// Writes `name` as 0 and the whole, or as the distance from the module named before and the rest.
    fn write(&mut self, name: &str, writer: &mut Writer) {
        let split = name.rsplit_once('.').unwrap_or(("", name));
        match self.modules.get(split.0) {
            Some(module) if !name.starts_with('.') => {
                true.write(writer);
                writer.signed(*module as i64 - self.last as i64);
                self.last = *module;
                split.1.to_owned().write(writer);
            }
            _ => {
                false.write(writer);
                name.to_owned().write(writer);
            }
        }
    }

    fn add(&mut self, path: Option<&'a str>, number: usize) {
        if let Some(path) = path {
            self.modules.entry(path).or_insert(number);
        }
    }
}

fn read_name(modules: &[Module], last: &mut u32, reader: &mut Reader<'_>) -> Result<String, UnpackError> {
    if !bool::read(reader)? {
        return String::read(reader);
    }
    let parent = modules.get(list::moved(last, reader)? as usize).and_then(|module| module.path.as_deref());
    let parent = parent.ok_or_else(|| reader.malformed("a module that has a path"))?;
    let name = String::read(reader)?;
    Ok(if parent.is_empty() { name } else { format!("{parent}.{name}") })
}

pub(super) fn write_modules(modules: &[Module], writer: &mut Writer) {
    writer.number(modules.len() as u64);
    let mut names = Names { modules: HashMap::new(), last: 0 };
    for (number, module) in modules.iter().enumerate() {
        module.path.is_some().write(writer);
        if let Some(path) = &module.path {
            names.write(path, writer);
        }
        module.class.write(writer);
        names.add(module.path.as_deref(), number);
    }
}

pub(super) fn read_modules(reader: &mut Reader<'_>) -> Result<Vec<Module>, UnpackError> {
    let mut modules = Vec::new();
    let mut last = 0;
    for _ in 0..reader.count()? {
        let path = if bool::read(reader)? { Some(read_name(&modules, &mut last, reader)?) } else { None };
        modules.push(Module { path, class: Packed::read(reader)? });
    }
    Ok(modules)
}

pub(super) fn write_weights(weights: &[Weight], modules: &[Module], writer: &mut Writer) {
    let mut names = Names { modules: HashMap::new(), last: 0 };
    for (number, module) in modules.iter().enumerate() {
        names.add(module.path.as_deref(), number);
    }
    writer.number(weights.len() as u64);
    let mut last = 0;
    for weight in weights {
        writer.number(weight.names.len() as u64);
        weight.names.iter().for_each(|name| names.write(name, writer));
        writer.signed(i64::from(weight.tensor.0) - last);
        last = i64::from(weight.tensor.0);
        weight.shape.write(writer);
        weight.dtype.write(writer);
        weight.requires_grad.write(writer);
    }
}

pub(super) fn read_weights(modules: &[Module], reader: &mut Reader<'_>) -> Result<Vec<Weight>, UnpackError> {
    let (mut module, mut tensor) = (0, 0);
    (0..reader.count()?)
        .map(|_| {
            Ok(Weight {
                names: (0..reader.count()?)
                    .map(|_| read_name(modules, &mut module, reader))
                    .collect::<Result<_, _>>()?,
                tensor: TensorId(list::moved(&mut tensor, reader)?),
                shape: Packed::read(reader)?,
                dtype: Packed::read(reader)?,
                requires_grad: Packed::read(reader)?,
                quantization: None,
            })
        })
        .collect()
}

/// Storages are mostly new ones: each is written as its distance from the last one written.
pub(super) fn write_tensors(sections: &[Vec<Tensor>], writer: &mut Writer) {
    writer.number(sections.len() as u64);
    for section in sections {
        writer.number(section.len() as u64);
        let mut last = 0;
        for tensor in section {
            tensor.r#type.write(writer);
            writer.signed(i64::from(tensor.storage) - last);
            last = i64::from(tensor.storage);
            tensor.offset.write(writer);
            let flags = [tensor.requires_grad, tensor.is_leaf, tensor.is_on_host, tensor.is_view];
            writer.bytes.push((0..).zip(flags).map(|(bit, flag)| u8::from(flag) << bit).sum());
        }
    }
}

pub(super) fn read_tensors(reader: &mut Reader<'_>) -> Result<Vec<Vec<Tensor>>, UnpackError> {
    let mut sections = Vec::new();
    for _ in 0..reader.count()? {
        let mut last = 0;
        sections.push((0..reader.count()?).map(|_| read_tensor(&mut last, reader)).collect::<Result<_, _>>()?);
    }
    Ok(sections)
}

fn read_tensor(last: &mut u32, reader: &mut Reader<'_>) -> Result<Tensor, UnpackError> {
    let (r#type, storage) = (Packed::read(reader)?, list::moved(last, reader)?);
    let (offset, flags) = (Packed::read(reader)?, reader.byte()?);
    let flag = |bit: u8| flags >> bit & 1 == 1;
    Ok(Tensor {
        r#type,
        storage,
        offset,
        requires_grad: flag(0),
        is_leaf: flag(1),
        is_on_host: flag(2),
        is_view: flag(3),
    })
}
