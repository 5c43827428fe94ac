//! Records the calls that eager PyTorch makes for the layers, without values.
//!
//! Autocast's casts are made here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::arguments::{Given, Kind, Made, tensors_of};
use super::dimension::Dimension;
use super::tables::Tables;
use super::tensor::{Handle, Recorded, Tensor, TensorFacts, drop_in_order};
use vramfit_eager::operators::{self, Autocast};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{self, Argument, Call, Cast, Mode, Precision, Step, TensorId, Type};

/// One variant being recorded.
#[derive(Clone)]
pub(super) struct Tape {
    recorded: Rc<RefCell<Recorded>>,
    precision: Precision,
    mode: Mode,
}

impl Tape {
    pub(super) fn new(tables: &Rc<RefCell<Tables>>, precision: Precision, mode: Mode) -> Tape {
        let recorded = Recorded {
            tables: Rc::clone(tables),
            types: Vec::new(),
            tensors: Vec::new(),
            facts: Vec::new(),
            steps: Vec::new(),
            storages: 0,
            given: 0,
            kept: HashMap::new(),
            kept_order: Vec::new(),
        };
        let tape = Tape { recorded: Rc::new(RefCell::new(recorded)), precision, mode };
        if let Some(dtype) = tape.lower() {
            let dtype = Some(dtype);
            tape.step(Step::Autocast { is_gpu: true, dtype, is_enabled: true, has_cache: true });
        }
        tape
    }

    /// What autocast casts to.
    pub(super) fn lower(&self) -> Option<Dtype> {
        match self.precision {
            Precision::Autocast(dtype) => Some(dtype),
            _ => None,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn step(&self, step: Step) {
        self.recorded.borrow_mut().steps.push(step);
    }

    /// A parameter, buffer or input, which is there before the step.
    pub(super) fn give(&self, shape: &[Dimension], dtype: Dtype, requires_grad: bool) -> Tensor {
        let cast = match self.precision {
            Precision::Cast(cast) if dtype.is_differentiable() => cast,
            _ => dtype,
        };
        let facts = TensorFacts {
            dtype: cast,
            shape: shape.to_vec(),
            strides: None,
            requires_grad,
            is_leaf: true,
            storage: 0,
            offset: 0.into(),
        };
        let tensor = self.add(facts, true, None);
        self.recorded.borrow_mut().given += 1;
        tensor
    }

    /// The given tensor of that number.
    pub(super) fn given(&self, id: u32) -> Tensor {
        let facts = self.recorded.borrow().facts[id as usize].clone();
        Tensor(Rc::new(Handle { id, facts, recorded: Rc::downgrade(&self.recorded), is_given: true }))
    }

    fn add(&self, mut facts: TensorFacts, is_given: bool, view_of: Option<u32>) -> Tensor {
        let recorded = &mut *self.recorded.borrow_mut();
        facts.storage = view_of.unwrap_or(recorded.storages);
        recorded.storages = recorded.storages.max(facts.storage + 1);
        let tables = &mut *recorded.tables.borrow_mut();
        let mut sizes = |list: &[Dimension]| list.iter().map(|size| tables.size(size)).collect::<Vec<_>>();
        let shape = sizes(&facts.shape);
        let strides = facts.strides.as_deref().map(&mut sizes);
        let wanted = Type { dtype: facts.dtype, shape, strides };
        let known = recorded.types.iter().position(|known| *known == wanted);
        let number = known.unwrap_or_else(|| {
            recorded.types.push(wanted);
            recorded.types.len() - 1
        });
        let id = recorded.tensors.len() as u32;
        recorded.tensors.push(model::Tensor {
            r#type: number as u32,
            storage: facts.storage,
            offset: tables.size(&facts.offset),
            requires_grad: facts.requires_grad,
            is_leaf: facts.is_leaf,
            is_on_host: false,
            is_view: view_of.is_some(),
        });
        recorded.facts.push(facts.clone());
        Tensor(Rc::new(Handle { id, facts, recorded: Rc::downgrade(&self.recorded), is_given }))
    }

    /// Calls an operator that makes new tensors.
    pub(super) fn call(&self, operator: &str, mut given: Vec<Given>, made: Vec<Made>) -> Vec<Tensor> {
        let casts = self.cast(operator, &mut given);
        let tensors: Vec<Tensor> = tensors_of(&given).cloned().collect();
        let first = tensors.first().map_or(Dtype::Float32, Tensor::dtype);
        let widest = tensors.iter().map(Tensor::dtype).filter(|dtype| dtype.is_differentiable()).reduce(wider);
        let is_tracked = self.mode != Mode::Eval && tensors.iter().any(|tensor| tensor.0.facts.requires_grad);
        let results: Vec<Tensor> = made
            .into_iter()
            .map(|made| {
                let dtype = match made.kind {
                    Kind::First => first,
                    Kind::Promoted => widest.unwrap_or(first),
                    Kind::Exactly(dtype) => dtype,
                };
                let requires_grad = is_tracked && dtype.is_differentiable();
                let facts = TensorFacts {
                    dtype,
                    shape: made.shape,
                    strides: made.strides,
                    requires_grad,
                    is_leaf: !requires_grad,
                    storage: 0,
                    offset: 0.into(),
                };
                self.add(facts, false, None)
            })
            .collect();
        self.write(operator, &given, results.iter().map(|result| Some(result.id())).collect(), Cast::No);
        drop(tensors);
        drop(given);
        drop_in_order(casts);
        results
    }

    /// Calls an operator whose result is its argument, or is handed to nobody.
    pub(super) fn call_in_place(&self, operator: &str, given: Vec<Given>, result: Option<&Tensor>) {
        let results = result.map(|tensor| vec![Some(tensor.id())]).unwrap_or_default();
        self.write(operator, &given, results, Cast::No);
    }

    /// Calls an operator of inference, with one result and one undefined one.
    pub(super) fn call_with_undefined(&self, operator: &str, given: Vec<Given>, made: Made) -> Tensor {
        let facts = TensorFacts {
            dtype: tensors_of(&given).next().map_or(Dtype::Float32, Tensor::dtype),
            shape: made.shape,
            strides: made.strides,
            requires_grad: false,
            is_leaf: true,
            storage: 0,
            offset: 0.into(),
        };
        let result = self.add(facts, false, None);
        self.write(operator, &given, vec![Some(result.id()), None], Cast::No);
        result
    }

    /// Calls an operator that gives a view of `base`.
    pub(super) fn view(
        &self,
        operator: &str,
        base: &Tensor,
        more: Vec<Given>,
        shape: Vec<Dimension>,
        strides: Option<Vec<Dimension>>,
        offset: Dimension,
    ) -> Tensor {
        let requires_grad = self.mode != Mode::Eval && base.0.facts.requires_grad;
        let facts =
            TensorFacts { shape, strides, offset, requires_grad, is_leaf: !requires_grad, ..base.0.facts.clone() };
        let storage = facts.storage;
        let result = self.add(facts, false, Some(storage));
        let mut given = vec![Given::Tensor(base.clone())];
        given.extend(more);
        self.write(operator, &given, vec![Some(result.id())], Cast::No);
        result
    }

    /// Casts a tensor as code does, not autocast.
    pub(super) fn to(&self, tensor: &Tensor, dtype: Dtype, cast: Cast) -> Tensor {
        let requires_grad = self.mode != Mode::Eval && tensor.0.facts.requires_grad;
        let facts =
            TensorFacts { dtype, requires_grad, is_leaf: !requires_grad, offset: 0.into(), ..tensor.0.facts.clone() };
        let result = self.add(facts, false, None);
        let given = [Given::Tensor(tensor.clone()), Given::Plain(Argument::Dtype(dtype))];
        self.write("aten.to.dtype", &given, vec![Some(result.id())], cast);
        result
    }

    /// Makes the casts that autocast makes for a call; returns those to be freed after it, in order.
    fn cast(&self, operator: &str, given: &mut [Given]) -> Vec<Tensor> {
        let Some(lower) = self.lower() else { return Vec::new() };
        let target = match operators::facts(operators::find(operator)).autocast {
            Autocast::Lower => lower,
            Autocast::Single => Dtype::Float32,
            Autocast::SingleByDtype | Autocast::Widest | Autocast::Unchanged => return Vec::new(),
        };
        let mut casts = Vec::new();
        for argument in given.iter_mut().rev() {
            let list = match argument {
                Given::Tensor(tensor) => std::slice::from_mut(tensor),
                Given::Tensors(tensors) => tensors.as_mut_slice(),
                _ => continue,
            };
            for tensor in list {
                if !tensor.dtype().is_differentiable() || tensor.dtype() == target {
                    continue;
                }
                let facts = &tensor.0.facts;
                let is_kept = facts.requires_grad && facts.is_leaf && facts.dtype == Dtype::Float32 && target == lower;
                if !is_kept {
                    *tensor = self.to(tensor, target, Cast::ForCall);
                    casts.push(tensor.clone());
                    continue;
                }
                let id = tensor.0.id;
                let known = self.recorded.borrow().kept.get(&id).cloned();
                *tensor = known.unwrap_or_else(|| {
                    let made = self.to(tensor, target, Cast::Kept);
                    let mut recorded = self.recorded.borrow_mut();
                    recorded.kept_order.push(made.id());
                    recorded.kept.insert(id, made.clone());
                    made
                });
            }
        }
        casts.reverse();
        casts
    }

    fn write(&self, operator: &str, given: &[Given], results: Vec<Option<TensorId>>, cast: Cast) {
        let recorded = &mut *self.recorded.borrow_mut();
        let tables = &mut *recorded.tables.borrow_mut();
        let number = tables.operator(operator);
        let mut arguments: Vec<Argument> = given
            .iter()
            .map(|argument| match argument {
                Given::Tensor(tensor) => Argument::Tensor(tensor.id()),
                Given::Tensors(tensors) => {
                    Argument::List(tensors.iter().map(|tensor| Argument::Tensor(tensor.id())).collect())
                }
                Given::Int(size) => Argument::Int(tables.size(size)),
                Given::Ints(sizes) => {
                    Argument::List(sizes.iter().map(|size| Argument::Int(tables.size(size))).collect())
                }
                Given::Plain(argument) => argument.clone(),
            })
            .collect();
        let defaults = &tables.defaults[number as usize];
        arguments.extend(defaults.iter().skip(arguments.len()).cloned());
        recorded.steps.push(Step::Call(Call { operator: number, arguments, results, source: None, cast }));
    }

    /// Ends the step that has made `output`.
    pub(super) fn finish(&self, output: &Tensor) -> Finished {
        if self.lower().is_some() {
            self.step(Step::EndAutocast);
            let (kept, order) = {
                let recorded = &mut *self.recorded.borrow_mut();
                (std::mem::take(&mut recorded.kept), std::mem::take(&mut recorded.kept_order))
            };
            // Their handles would be dropped in any order.
            let mut kept: HashMap<TensorId, Tensor> = kept.into_values().map(|tensor| (tensor.id(), tensor)).collect();
            for id in order {
                kept.remove(&id);
            }
        }
        let recorded = &mut *self.recorded.borrow_mut();
        let mut held: Vec<TensorId> = (0..recorded.given).map(TensorId).collect();
        held.extend(Some(output.id()).filter(|output| output.0 >= recorded.given));
        Finished {
            types: std::mem::take(&mut recorded.types),
            tensors: std::mem::take(&mut recorded.tensors),
            steps: std::mem::take(&mut recorded.steps),
            output: output.id(),
            held,
        }
    }
}

/// A variant that has been written down.
pub(super) struct Finished {
    pub(super) types: Vec<Type>,
    pub(super) tensors: Vec<model::Tensor>,
    pub(super) steps: Vec<Step>,
    pub(super) output: TensorId,
    pub(super) held: Vec<TensorId>,
}

fn wider(left: Dtype, right: Dtype) -> Dtype {
    match (left.bytes(), right.bytes()) {
        (left_bytes, right_bytes) if left_bytes > right_bytes => left,
        (left_bytes, right_bytes) if left_bytes < right_bytes => right,
        _ if left == right => left,
        _ => Dtype::Float32,
    }
}
