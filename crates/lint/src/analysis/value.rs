//! Abstract values: what an expression may be, as far as the program shows.

use std::rc::Rc;

use super::device::Device;
use super::index::{ClassId, FunctionId};
use super::names::Role;

/// Yes, no, or not shown by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// In every run.
    Yes,
    /// In no run.
    No,
    /// The program does not show it.
    Unknown,
}

impl Certainty {
    /// Of a combination of two parts: one yes is enough.
    pub fn any(self, other: Certainty) -> Certainty {
        match (self, other) {
            (Certainty::Yes, _) | (_, Certainty::Yes) => Certainty::Yes,
            (Certainty::No, Certainty::No) => Certainty::No,
            _ => Certainty::Unknown,
        }
    }

    /// Of a value that is one of two.
    pub fn either(self, other: Certainty) -> Certainty {
        if self == other { self } else { Certainty::Unknown }
    }
}

/// What a value was computed from, by offsets in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The model calls.
    pub forwards: Vec<u32>,
    /// The statements that kept one of its inputs.
    pub keeps: Vec<u32>,
}

/// A shared [`Provenance`]; most values have none.
pub type ProvenanceRef = Option<Rc<Provenance>>;

/// Merges two provenances.
pub fn merge(first: &ProvenanceRef, second: &ProvenanceRef) -> ProvenanceRef {
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
    pub graph: Certainty,
    /// Whether it is a loss.
    pub is_loss: bool,
    /// Its device.
    pub device: Device,
    /// Whether it holds a whole data set.
    pub is_whole: bool,
    /// Whether it is a batch as it was loaded.
    pub is_data: bool,
    /// Whether it was divided, as for gradient accumulation.
    pub is_divided: bool,
    /// Whether it was multiplied, divided or summed: then it is no plain mean over a batch.
    pub is_weighed: bool,
    /// Whether it requires a gradient without having been computed: a parameter, or an input made to require one.
    pub is_leaf: bool,
    /// Whether it is random or constant, as in a check of shapes.
    pub is_made_up: bool,
    /// What it was computed from.
    pub provenance: ProvenanceRef,
}

impl Tensor {
    /// A tensor without a graph.
    pub fn plain(device: Device) -> Tensor {
        Tensor {
            graph: Certainty::No,
            is_loss: false,
            device,
            is_whole: false,
            is_data: false,
            is_divided: false,
            is_weighed: false,
            is_leaf: false,
            is_made_up: false,
            provenance: None,
        }
    }

    /// As after `.detach()`.
    pub fn detached(&self) -> Tensor {
        Tensor { graph: Certainty::No, is_leaf: false, provenance: None, ..self.clone() }
    }

    /// The result of an operation on it: what is computed from a parameter has a graph.
    pub fn operated(&self) -> Tensor {
        let graph = if self.is_leaf { Certainty::Yes } else { self.graph };
        Tensor { graph, is_leaf: false, ..self.clone() }
    }

    /// As after `.to(device)`.
    pub fn on(&self, device: Device) -> Tensor {
        Tensor { device, ..self.clone() }
    }

    /// The result of an operation on both.
    pub fn with(&self, other: &Tensor) -> Tensor {
        Tensor {
            graph: self.operated().graph.any(other.operated().graph),
            is_leaf: false,
            is_weighed: self.is_weighed || other.is_weighed,
            is_loss: self.is_loss && self.graph != Certainty::No || other.is_loss && other.graph != Certainty::No,
            device: self.device.with(other.device),
            is_whole: false,
            is_data: false,
            is_divided: self.is_divided || other.is_divided,
            is_made_up: self.is_made_up && other.is_made_up,
            provenance: merge(&self.provenance, &other.provenance),
        }
    }
}

/// A source of batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Loader {
    /// What its data is for.
    pub role: Role,
    /// The device of its batches.
    pub device: Device,
}

/// Whether a container drops old items by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It grows.
    Open,
    /// It holds a few items.
    Few,
    /// It holds many, or a number that the program does not show.
    Many,
}

impl Bound {
    /// Of a container that is one of two.
    pub fn either(self, other: Bound) -> Bound {
        if self == Bound::Open { other } else { self }
    }
}

/// An abstract value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Anything.
    Unknown(ProvenanceRef),
    /// A Python number, string or another object without GPU memory.
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
    /// A list, set, dict or generator with its item, and whether it drops old items by itself.
    List(Rc<Value>, Bound),
    /// A tuple.
    Tuple(Rc<Vec<Value>>),
    /// A model, by its access path.
    Module(Rc<str>),
    /// A loss function.
    Criterion,
    /// An optimizer, by its access path.
    Optimizer(Rc<str>),
    /// A learning-rate scheduler.
    Scheduler,
    /// A gradient scaler.
    Scaler,
    /// Accelerate's or Fabric's own object.
    Accelerator,
    /// A source of batches.
    Loader(Loader),
    /// A data set.
    Dataset(Role),
    /// A probability distribution, by its parameters.
    Distribution(Tensor),
    /// A checkpoint, by the offsets of the `torch.load` that it may be from.
    Checkpoint(Rc<[u32]>),
    /// A function of the file.
    Function(FunctionId),
    /// A class of the file.
    Class(ClassId),
    /// An object of a class of the file, with its access path.
    Instance(ClassId, Rc<str>),
    /// Something of a library, by its full name.
    Library(Rc<str>),
}

impl Value {
    /// Nothing known.
    pub const UNKNOWN: Value = Value::Unknown(None);

    /// The tensor, or all tensors inside combined.
    pub fn tensor(&self) -> Option<Tensor> {
        match self {
            Value::Tensor(tensor) | Value::Structure(tensor) | Value::Distribution(tensor) => Some(tensor.clone()),
            Value::List(item, _) => item.tensor(),
            Value::Tuple(items) => {
                let mut tensors = items.iter().filter_map(Value::tensor);
                let first = tensors.next()?;
                Some(tensors.fold(first, |all, tensor| {
                    let is_loss =
                        all.is_loss && all.graph == Certainty::Yes || tensor.is_loss && tensor.graph == Certainty::Yes;
                    Tensor { is_loss, is_data: all.is_data && tensor.is_data, ..all.with(&tensor) }
                }))
            }
            _ => None,
        }
    }

    /// What it was computed from.
    pub fn provenance(&self) -> ProvenanceRef {
        match self {
            Value::Unknown(provenance) => provenance.clone(),
            Value::Tensor(tensor) | Value::Structure(tensor) | Value::Distribution(tensor) => tensor.provenance.clone(),
            Value::List(item, _) => item.provenance(),
            Value::Tuple(items) => items.iter().fold(None, |all, item| merge(&all, &item.provenance())),
            _ => None,
        }
    }

    /// The checkpoint that it is, or that its items are from.
    pub fn checkpoint(&self) -> Option<Rc<[u32]>> {
        match self {
            Value::Checkpoint(from) => Some(from.clone()),
            Value::List(item, _) => item.checkpoint(),
            Value::Tuple(items) => items.iter().find_map(Value::checkpoint),
            _ => None,
        }
    }

    /// What is known of a variable that has one of two values.
    pub fn join(&self, other: &Value) -> Value {
        match (self, other) {
            (one, two) if one == two => one.clone(),
            (Value::Tensor(one), Value::Tensor(two)) => Value::Tensor(join_tensors(one, two)),
            (Value::Structure(one), Value::Structure(two))
            | (Value::Tensor(one), Value::Structure(two))
            | (Value::Structure(one), Value::Tensor(two)) => Value::Structure(join_tensors(one, two)),
            // An accumulator starts as a number and is a tensor after the first addition.
            (Value::Tensor(tensor), Value::Plain | Value::None)
            | (Value::Plain | Value::None, Value::Tensor(tensor)) => Value::Tensor(tensor.clone()),
            (Value::List(one, first), Value::List(two, second)) => {
                let item = match (&**one, &**two) {
                    (Value::Unknown(None), item) | (item, Value::Unknown(None)) => item.clone(),
                    (one, two) => one.join(two),
                };
                Value::List(Rc::new(item), first.either(*second))
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
            // `cuda` where there is a GPU, and the CPU elsewhere.
            (Value::Device(one), Value::Device(two)) => Value::Device(one.with(*two)),
            // The whole of a checkpoint or a selection of its items, or what one of two branches loads.
            (one, two) => match (one.checkpoint(), two.checkpoint()) {
                (Some(one), Some(two)) => {
                    let mut all = one.to_vec();
                    all.extend(two.iter().filter(|from| !one.contains(from)));
                    Value::Checkpoint(all.into())
                }
                _ => Value::Unknown(merge(&one.provenance(), &two.provenance())),
            },
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
        is_weighed: one.is_weighed || two.is_weighed,
        is_leaf: one.is_leaf || two.is_leaf,
        is_made_up: one.is_made_up && two.is_made_up,
        provenance: merge(&one.provenance, &two.provenance),
    }
}
