//! One precision and mode of an exported model: its calls and their types.
//!
//! An archive has one run. The others follow from it by PyTorch's own rules: casting the model changes the types of its
//! weights and of what is computed from them, autocast casts the arguments of the operators on its lists, evaluation turns
//! dropout and the like off.

mod cast;
mod effect;
mod workshop;

use hashbrown::HashMap;

use super::event::Event;
use super::fast_path::{fused_attention, fused_layer};
use super::flatten::{Flat, FlatCall, Item};
use super::open;
use super::operators::Operators;
use super::precision::{Types, is_real};
use super::products::Products;
use vramfit_eager::operators::Autocast;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Call, Cast, Mode, Precision, Size, Step, TensorId};

/// The calls of a variant, before module calls and frees are added.
pub(super) struct Calls {
    pub(super) events: Vec<Event>,
    /// Types by tensor, those of casts included.
    pub(super) dtypes: Vec<Dtype>,
    /// The shapes by tensor, those of casts and decomposed operators included.
    pub(super) shapes: Vec<Shape>,
    pub(super) requires_grad: Vec<bool>,
    /// Casts of weights that live until autocast ends.
    pub(super) casts: Vec<TensorId>,
    /// The tensor that replaces each: an operator that has nothing to do returns its argument.
    pub(super) same: Vec<TensorId>,
    /// Whether a call names a type that the code may have taken from another tensor.
    pub(super) has_guessed_types: bool,
    /// Whether random or training-only parts were turned off.
    pub(super) has_turned_off: bool,
}

/// The shape of a tensor: of a value of the graph, or one of its own.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// As this value's.
    Of(TensorId),
    /// Contiguous, with these sizes.
    Own(Vec<Size>),
    /// With these sizes, a part of another tensor.
    Part(TensorId, Vec<Size>),
}

impl Shape {
    /// That of a tensor with the same sizes in memory of its own.
    fn alone(&self) -> Shape {
        match self {
            Shape::Part(_, sizes) => Shape::Own(sizes.clone()),
            other => other.clone(),
        }
    }
}

/// The calls in one precision and mode.
pub(super) fn calls(flat: &Flat, tables: (&mut Operators, &mut Products), precision: Precision, mode: Mode) -> Calls {
    let mut builder = Builder::new(flat, tables, precision, mode);
    let mut at = 0;
    while at < flat.items.len() {
        match builder.fast_path(at) {
            Some((call, end)) => {
                // The branch in the archive may return a view.
                for result in call.results.iter().flatten() {
                    let sizes = flat.values[result.0 as usize].shape.clone();
                    builder.calls.shapes[result.0 as usize] = Shape::Own(sizes);
                }
                builder.call(&call);
                at = end;
            }
            None => {
                builder.item(&flat.items[at]);
                at += 1;
            }
        }
    }
    builder.calls
}

struct Builder<'a> {
    flat: &'a Flat<'a>,
    operators: &'a mut Operators,
    products: &'a mut Products,
    mode: Mode,
    /// What the whole model is cast to.
    cast: Option<Dtype>,
    /// What it was built in.
    built: Option<Dtype>,
    /// Autocast regions, the innermost last: the lower precision where it is on.
    autocast: Vec<Option<Dtype>>,
    is_grad_on: bool,
    cached: HashMap<TensorId, TensorId>,
    calls: Calls,
}

impl<'a> Builder<'a> {
    fn new(
        flat: &'a Flat,
        (operators, products): (&'a mut Operators, &'a mut Products),
        precision: Precision,
        mode: Mode,
    ) -> Builder<'a> {
        let (cast, autocast) = match precision {
            Precision::AsBuilt => (None, None),
            Precision::Cast(dtype) => (Some(dtype), None),
            Precision::Autocast(dtype) => (None, Some(dtype)),
        };
        let built = built_dtype(flat);
        // The model and its inputs are cast; all other types follow.
        let given = |(number, dtype): (usize, Dtype)| match cast {
            Some(cast) if number < flat.given && is_real(dtype) => cast,
            _ => dtype,
        };
        let dtypes = flat.values.iter().map(|value| value.dtype).enumerate().map(given).collect();
        let requires_grad = flat.values.iter().map(|value| value.requires_grad).collect();
        let identity = || (0..flat.values.len() as u32).map(TensorId);
        Builder {
            flat,
            operators,
            products,
            mode,
            cast,
            built,
            autocast: vec![autocast],
            is_grad_on: mode != Mode::Eval,
            cached: HashMap::new(),
            calls: Calls {
                events: Vec::with_capacity(flat.items.len()),
                dtypes,
                shapes: identity().map(Shape::Of).collect(),
                requires_grad,
                casts: Vec::new(),
                same: identity().collect(),
                has_guessed_types: false,
                has_turned_off: false,
            },
        }
    }

    /// The call that replaces the next ones where evaluation takes another branch, and where they end.
    fn fast_path(&mut self, at: usize) -> Option<(FlatCall, usize)> {
        let is_open = self.mode == Mode::Eval && self.autocast.last().copied().flatten().is_none();
        if !is_open {
            return None;
        }
        let layer = fused_layer(self.flat, self.operators, at);
        layer.or_else(|| fused_attention(self.flat, self.operators, at))
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Grad(is_on) => {
                // Evaluation keeps gradients off whatever the model does within.
                self.is_grad_on = *is_on && self.mode != Mode::Eval;
                self.calls.events.push(Event::Mark(Step::Grad(self.is_grad_on)));
            }
            Item::Autocast { is_gpu, dtype, is_enabled, has_cache } => {
                let outer = self.autocast.last().copied().flatten();
                let inner = match (*is_gpu, *is_enabled) {
                    (true, true) => dtype.or(outer),
                    (true, false) => None,
                    (false, _) => outer,
                };
                self.autocast.push(inner);
                let (is_gpu, dtype, is_enabled, has_cache) = (*is_gpu, *dtype, *is_enabled, *has_cache);
                self.calls.events.push(Event::Mark(Step::Autocast { is_gpu, dtype, is_enabled, has_cache }));
            }
            Item::EndAutocast => {
                self.autocast.pop();
                self.calls.events.push(Event::Mark(Step::EndAutocast));
            }
            Item::Call(call) => self.call(call),
        }
    }

    fn call(&mut self, original: &FlatCall) {
        let mut call = original.clone();
        for argument in &mut call.arguments {
            argument.each_tensor_mut(&mut |tensor| *tensor = self.calls.same[tensor.0 as usize]);
        }
        if self.mode != Mode::Train {
            self.turn_off(&mut call);
        }
        self.enable_cudnn(&mut call);
        self.cast_whole(&mut call, original);
        if self.is_without_effect(&call) {
            self.pass_through(&call);
            return;
        }
        if self.pass_broadcast(&call) {
            return;
        }
        self.cast_back(&mut call);
        let lower = self.autocast.last().copied().flatten();
        let name = self.operators.name(call.operator);
        let opener = open::opener::<Builder<'_>>(name);
        let is_listed = self.operators.facts(call.operator).autocast != Autocast::Unchanged;
        match (opener, lower) {
            // Autocast is off inside an operator that it has cast the arguments of.
            (Some(opener), Some(lower)) if is_listed => {
                let given = tensors(&call);
                self.cast_call(lower, &mut call);
                self.autocast.push(None);
                self.open(opener, call, original);
                self.autocast.pop();
                self.calls.events.push(Event::End(given));
            }
            (Some(opener), _) => self.open(opener, call, original),
            (None, _) => self.make_call(call, Some(original)),
        }
    }

    /// Adds the calls inside of a call, or the call itself where it stays whole. Its arguments live until it returns.
    fn open(&mut self, opener: open::Opener<Self>, call: FlatCall, original: &FlatCall) {
        let Some(parts) = opener(open::Inside::new(self, &call)) else {
            return self.make_call(call, Some(original));
        };
        for part in parts {
            match part {
                open::Part::Call(call) => self.make_call(call, None),
                open::Part::End(tensors) => self.calls.events.push(Event::End(tensors)),
            }
        }
        self.calls.events.push(Event::End(tensors(&call)));
    }

    /// Adds a call with the casts that autocast makes for it.
    fn make_call(&mut self, mut call: FlatCall, original: Option<&FlatCall>) {
        if let Some(lower) = self.autocast.last().copied().flatten() {
            self.cast_call(lower, &mut call);
        }
        self.finish(call, original);
    }

    fn is_on_host(&self, tensor: TensorId) -> bool {
        match &self.calls.shapes[tensor.0 as usize] {
            Shape::Of(value) => self.flat.values[value.0 as usize].is_on_host,
            Shape::Own(_) | Shape::Part(..) => false,
        }
    }

    /// The type that a call, its arguments as they are now, gives to this result.
    fn result_dtype(&self, call: &FlatCall, result: TensorId) -> Dtype {
        let promotion = self.operators.facts(call.operator).promotion;
        let (values, dtypes) = (&self.flat.values, &self.calls.dtypes);
        let types = Types { values, dtypes, replaced: &[], promotion };
        let named = match self.operators.name(call.operator) {
            "aten.type_as.default" | "aten.to.other" => match call.arguments.get(1) {
                Some(Argument::Tensor(other)) => Some(self.calls.dtypes[other.0 as usize]),
                _ => None,
            },
            _ => {
                let at = self.operators.argument(call.operator, "dtype");
                match at.and_then(|at| call.arguments.get(at)) {
                    Some(Argument::Dtype(dtype)) => Some(*dtype),
                    _ => None,
                }
            }
        };
        types.result(call, result, named)
    }

    /// The type of a call's result where arguments were cast: it follows from their types, not from the archive's.
    fn cast_dtype(&self, call: &FlatCall, original: &FlatCall, result: TensorId) -> Dtype {
        // The rule looks at the arguments as exported, with the types of those that replace them.
        let mut replaced: Vec<(TensorId, Dtype)> = Vec::new();
        for (now, before) in call.arguments.iter().zip(&original.arguments) {
            let mut pair = |now: &Argument, before: &Argument| {
                if let (Argument::Tensor(now), Argument::Tensor(before)) = (now, before) {
                    replaced.push((*before, self.calls.dtypes[now.0 as usize]));
                }
            };
            match (now, before) {
                (Argument::List(now), Argument::List(before)) => {
                    now.iter().zip(before).for_each(|(now, before)| pair(now, before));
                }
                (now, before) => pair(now, before),
            }
        }
        let promotion = self.operators.facts(call.operator).promotion;
        let types = Types { values: &self.flat.values, dtypes: &self.calls.dtypes, replaced: &replaced, promotion };
        let at = self.operators.argument(call.operator, "dtype");
        let named = match at.and_then(|at| call.arguments.get(at)) {
            Some(Argument::Dtype(dtype)) => Some(*dtype),
            _ => None,
        };
        types.result(original, result, named)
    }

    /// Adds a call with its results' types.
    fn finish(&mut self, call: FlatCall, original: Option<&FlatCall>) {
        let mut wants_grad = false;
        call.each_tensor(&mut |tensor| wants_grad |= self.calls.requires_grad[tensor.0 as usize]);
        let name = self.operators.name(call.operator);
        let is_cut = name.starts_with("aten.detach");
        let wants_grad = wants_grad && self.is_grad_on && !is_cut;
        let is_changed = self.cast.is_some() || self.autocast[0].is_some();
        let mut results = call.results.clone();
        for result in results.iter_mut().flatten() {
            *result = self.calls.same[result.0 as usize];
            let is_argument = call.arguments.contains(&Argument::Tensor(*result));
            if let (Some(original), true, false) = (original, is_changed, is_argument) {
                self.calls.dtypes[result.0 as usize] = match self.operators.name(call.operator) {
                    "aten.type_as.default" | "aten.to.other" => self.result_dtype(&call, *result),
                    _ => self.cast_dtype(&call, original, *result),
                };
            }
            let dtype = self.calls.dtypes[result.0 as usize];
            if !is_argument || wants_grad {
                self.calls.requires_grad[result.0 as usize] = wants_grad && dtype.is_differentiable();
            }
        }
        self.push(call.operator, call.arguments, results, call.site, Cast::No);
    }

    fn push(&mut self, operator: u32, arguments: Vec<Argument>, results: Vec<Option<TensorId>>, site: u32, cast: Cast) {
        let source = self.flat.sites.get(site).source;
        self.calls.events.push(Event::Call(Call { operator, arguments, results, source, cast }, site));
    }

    fn add(&mut self, shape: Shape, dtype: Dtype, requires_grad: bool) -> TensorId {
        let tensor = TensorId(self.calls.dtypes.len() as u32);
        self.calls.dtypes.push(dtype);
        self.calls.shapes.push(shape);
        self.calls.requires_grad.push(requires_grad);
        self.calls.same.push(tensor);
        tensor
    }
}

/// The tensors that a call is given.
fn tensors(call: &FlatCall) -> Vec<TensorId> {
    let mut tensors = Vec::new();
    call.each_tensor(&mut |tensor| tensors.push(tensor));
    tensors
}

/// The one real type that the model's weights have; `None` where there are several or none.
pub(super) fn built_dtype(flat: &Flat) -> Option<Dtype> {
    let mut found = None;
    for value in flat.values.iter().take(flat.weights) {
        match found {
            _ if !is_real(value.dtype) => {}
            None => found = Some(value.dtype),
            Some(dtype) if dtype != value.dtype => return None,
            Some(_) => {}
        }
    }
    found
}
