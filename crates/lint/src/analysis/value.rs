//! What an expression may be, as far as the program shows.

use std::rc::Rc;

use super::index::{ClassId, FunctionId};
use super::names::Role;

/// Yes, no, or not to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Certainly.
    Yes,
    /// Certainly not.
    No,
    /// The program does not show it.
    Unknown,
}

impl Known {
    /// What two parts make together: one yes is enough.
    pub fn any(self, other: Known) -> Known {
        match (self, other) {
            (Known::Yes, _) | (_, Known::Yes) => Known::Yes,
            (Known::No, Known::No) => Known::No,
            _ => Known::Unknown,
        }
    }

    /// What is known when it is either of the two.
    pub fn either(self, other: Known) -> Known {
        if self == other { self } else { Known::Unknown }
    }
}

/// Where a tensor lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// In main memory.
    Cpu,
    /// On a GPU.
    Gpu,
    /// The program does not show it.
    #[default]
    Unknown,
}

impl Device {
    /// Where the result of an operation on both lives.
    pub fn with(self, other: Device) -> Device {
        match (self, other) {
            (Device::Gpu, _) | (_, Device::Gpu) => Device::Gpu,
            (Device::Cpu, Device::Cpu) => Device::Cpu,
            _ => Device::Unknown,
        }
    }
}

/// What a value was made from: model calls and things kept, by the place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Where the model was called.
    pub forwards: Vec<u32>,
    /// Where what went in was kept.
    pub keeps: Vec<u32>,
}

/// A shared trace; most values have none.
pub type TraceRef = Option<Rc<Trace>>;

/// Both traces together.
pub fn merge(first: &TraceRef, second: &TraceRef) -> TraceRef {
    match (first, second) {
        (None, other) | (other, None) => other.clone(),
        (Some(one), Some(two)) if Rc::ptr_eq(one, two) => first.clone(),
        (Some(one), Some(two)) => {
            let mut merged = (**one).clone();
            for forward in &two.forwards {
                if !merged.forwards.contains(forward) && merged.forwards.len() < 64 {
                    merged.forwards.push(*forward);
                }
            }
            for keep in &two.keeps {
                if !merged.keeps.contains(keep) && merged.keeps.len() < 64 {
                    merged.keeps.push(*keep);
                }
            }
            Some(Rc::new(merged))
        }
    }
}

/// A tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Whether it carries a graph.
    pub graph: Known,
    /// Whether it is a loss.
    pub is_loss: bool,
    /// Where it lives.
    pub device: Device,
    /// Whether it holds a whole set of data.
    pub is_whole: bool,
    /// Whether it is a batch as it was loaded.
    pub is_data: bool,
    /// Whether it was divided on its way.
    pub is_divided: bool,
    /// What it was made from.
    pub trace: TraceRef,
}

impl Tensor {
    /// A tensor without a graph.
    pub fn plain(device: Device) -> Tensor {
        Tensor {
            graph: Known::No,
            is_loss: false,
            device,
            is_whole: false,
            is_data: false,
            is_divided: false,
            trace: None,
        }
    }

    /// The same without its graph.
    pub fn detached(&self) -> Tensor {
        Tensor { graph: Known::No, trace: None, ..self.clone() }
    }

    /// The same somewhere else.
    pub fn on(&self, device: Device) -> Tensor {
        Tensor { device, ..self.clone() }
    }

    /// What an operation on both gives.
    pub fn with(&self, other: &Tensor) -> Tensor {
        Tensor {
            graph: self.graph.any(other.graph),
            is_loss: self.is_loss && self.graph != Known::No || other.is_loss && other.graph != Known::No,
            device: self.device.with(other.device),
            is_whole: false,
            is_data: false,
            is_divided: self.is_divided || other.is_divided,
            trace: merge(&self.trace, &other.trace),
        }
    }
}

/// A source of batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Loader {
    /// What for.
    pub role: Role,
    /// Where its batches are.
    pub device: Device,
}

/// What an expression may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Anything; with what it was made from.
    Unknown(TraceRef),
    /// A Python number, text or other small thing without memory on a GPU.
    Plain,
    /// A known truth value.
    Bool(bool),
    /// `None`.
    None,
    /// A device.
    Device(Device),
    /// A tensor.
    Tensor(Tensor),
    /// What a model returned, or a batch: a tensor or a structure of tensors.
    Structure(Tensor),
    /// A list, set, dict or generator by what it holds; a bounded one lets go by itself.
    List(Rc<Value>, bool),
    /// A tuple.
    Tuple(Rc<Vec<Value>>),
    /// A network, by the place it is known by.
    Module(Rc<str>),
    /// A loss function.
    Criterion,
    /// An optimizer, by the place it is known by.
    Optimizer(Rc<str>),
    /// A learning-rate schedule.
    Scheduler,
    /// A gradient scaler.
    Scaler,
    /// Accelerate's or Fabric's own object.
    Accelerator,
    /// A source of batches.
    Loader(Loader),
    /// A data set.
    Dataset(Role),
    /// A probability distribution by its parameters.
    Distribution(Tensor),
    /// A checkpoint loaded at this place in the source.
    Checkpoint(u32),
    /// A function of the file.
    Function(FunctionId),
    /// A class of the file.
    Class(ClassId),
    /// An object of a class of the file.
    Instance(ClassId, Rc<str>),
    /// Something of a library, by its full name.
    Library(Rc<str>),
}

impl Value {
    /// Nothing known.
    pub const UNKNOWN: Value = Value::Unknown(None);

    /// The tensor in it, where it is one or made of some.
    pub fn tensor(&self) -> Option<Tensor> {
        match self {
            Value::Tensor(tensor) | Value::Structure(tensor) | Value::Distribution(tensor) => Some(tensor.clone()),
            Value::List(item, _) => item.tensor(),
            Value::Tuple(items) => {
                let mut tensors = items.iter().filter_map(Value::tensor);
                let first = tensors.next()?;
                Some(tensors.fold(first, |all, tensor| {
                    let is_loss =
                        all.is_loss && all.graph == Known::Yes || tensor.is_loss && tensor.graph == Known::Yes;
                    Tensor { is_loss, is_data: all.is_data && tensor.is_data, ..all.with(&tensor) }
                }))
            }
            _ => None,
        }
    }

    /// What it was made from.
    pub fn trace(&self) -> TraceRef {
        match self {
            Value::Unknown(trace) => trace.clone(),
            Value::Tensor(tensor) | Value::Structure(tensor) | Value::Distribution(tensor) => tensor.trace.clone(),
            Value::List(item, _) => item.trace(),
            Value::Tuple(items) => items.iter().fold(None, |all, item| merge(&all, &item.trace())),
            _ => None,
        }
    }

    /// What is known of a variable that is either of the two.
    pub fn join(&self, other: &Value) -> Value {
        match (self, other) {
            (one, two) if one == two => one.clone(),
            (Value::Tensor(one), Value::Tensor(two)) => Value::Tensor(join_tensors(one, two)),
            (Value::Structure(one), Value::Structure(two))
            | (Value::Tensor(one), Value::Structure(two))
            | (Value::Structure(one), Value::Tensor(two)) => Value::Structure(join_tensors(one, two)),
            // A number to begin with, a tensor after the first addition.
            (Value::Tensor(tensor), Value::Plain | Value::None)
            | (Value::Plain | Value::None, Value::Tensor(tensor)) => Value::Tensor(tensor.clone()),
            (Value::List(one, first), Value::List(two, second)) => {
                let item = match (&**one, &**two) {
                    (Value::Unknown(None), item) | (item, Value::Unknown(None)) => item.clone(),
                    (one, two) => one.join(two),
                };
                Value::List(Rc::new(item), *first || *second)
            }
            (Value::Tuple(one), Value::Tuple(two)) if one.len() == two.len() => {
                Value::Tuple(Rc::new(one.iter().zip(two.iter()).map(|(one, two)| one.join(two)).collect()))
            }
            (Value::None, known) | (known, Value::None) if !matches!(known, Value::Bool(_)) => known.clone(),
            (Value::Loader(one), Value::Loader(two)) => Value::Loader(Loader {
                role: if one.role == two.role { one.role } else { Role::Unknown },
                device: if one.device == two.device { one.device } else { Device::Unknown },
            }),
            (Value::Module(one), Value::Module(_)) => Value::Module(one.clone()),
            (Value::Optimizer(one), Value::Optimizer(_)) => Value::Optimizer(one.clone()),
            (Value::Bool(_), Value::Bool(_)) => Value::Plain,
            (one, two) => Value::Unknown(merge(&one.trace(), &two.trace())),
        }
    }
}

fn join_tensors(one: &Tensor, two: &Tensor) -> Tensor {
    Tensor {
        graph: one.graph.either(two.graph),
        is_loss: one.is_loss || two.is_loss,
        device: if one.device == two.device { one.device } else { Device::Unknown },
        is_whole: one.is_whole && two.is_whole,
        is_data: one.is_data && two.is_data,
        is_divided: one.is_divided || two.is_divided,
        trace: merge(&one.trace, &two.trace),
    }
}
