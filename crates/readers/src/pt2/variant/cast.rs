//! Casts: those that autocast makes before calls, and what casting the whole model does to the types that calls name.

use super::super::flatten::FlatCall;
use super::super::precision::{is_named_by_code, is_only_moved, is_real, wider};
use super::Builder;
use vramfit_eager::operators::Autocast;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Cast, TensorId};

impl Builder<'_> {
    /// Norms that compute in single precision cast back before they multiply with a weight of half precision: a branch
    /// that an export in single precision does not take.
    pub(super) fn cast_back(&mut self, call: &mut FlatCall) {
        let Some(cast) = self.cast.filter(|cast| cast.is_half()) else { return };
        let site = &self.flat.sites.get(call.site);
        let class = site.calls.last().map(|call| {
            let module = self.flat.sites.calls[*call as usize].module;
            self.flat.sites.modules[module as usize].class.as_str()
        });
        let is_product = self.operators.name(call.operator) == "aten.mul.Tensor";
        if !is_product || !class.is_some_and(|class| class.contains("Norm")) {
            return;
        }
        let is_weight = |argument: &Argument| match argument {
            Argument::Tensor(tensor) => (tensor.0 as usize) < self.flat.weights,
            _ => false,
        };
        if !call.arguments[..2].iter().any(is_weight) {
            return;
        }
        for at in 0..2 {
            if let Argument::Tensor(tensor) = call.arguments[at]
                && self.calls.dtypes[tensor.0 as usize] == Dtype::Float32
            {
                self.calls.has_guessed_types = true;
                let result = self.add_cast(tensor, cast, call.site, Cast::No);
                call.arguments[at] = Argument::Tensor(result);
            }
        }
    }

    /// Makes the casts that autocast makes for a call.
    pub(super) fn cast_call(&mut self, lower: Dtype, call: &mut FlatCall) {
        match self.operators.facts(call.operator).autocast {
            Autocast::Lower => self.cast_arguments(call, lower, lower),
            Autocast::Single => self.cast_arguments(call, Dtype::Float32, lower),
            Autocast::Widest => {
                let mut widest = lower;
                call.each_tensor(&mut |tensor| {
                    let dtype = self.calls.dtypes[tensor.0 as usize];
                    if is_real(dtype) {
                        widest = wider(widest, dtype);
                    }
                });
                self.cast_arguments(call, widest, lower);
            }
            Autocast::SingleByDtype => {
                let is_castable = match call.arguments.first() {
                    Some(Argument::Tensor(tensor)) => self.is_castable(*tensor),
                    _ => false,
                };
                let at = self.operators.argument(call.operator, "dtype");
                if let Some(argument) = at.and_then(|at| call.arguments.get_mut(at))
                    && is_castable
                    && *argument == Argument::None
                {
                    *argument = Argument::Dtype(Dtype::Float32);
                }
            }
            Autocast::Unchanged => {}
        }
    }

    fn is_castable(&self, tensor: TensorId) -> bool {
        let dtype = self.calls.dtypes[tensor.0 as usize];
        is_real(dtype) && dtype != Dtype::Float64 && !self.is_on_host(tensor)
    }

    /// Casts a call's arguments, the last first, as C++ does.
    fn cast_arguments(&mut self, call: &mut FlatCall, target: Dtype, lower: Dtype) {
        let site = call.site;
        for argument in call.arguments.iter_mut().rev() {
            match argument {
                Argument::Tensor(tensor) => *tensor = self.cast_one(*tensor, target, lower, site),
                Argument::List(items) => {
                    for item in items {
                        if let Argument::Tensor(tensor) = item {
                            *tensor = self.cast_one(*tensor, target, lower, site);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn cast_one(&mut self, tensor: TensorId, target: Dtype, lower: Dtype, site: u32) -> TensorId {
        let dtype = self.calls.dtypes[tensor.0 as usize];
        if !self.is_castable(tensor) || dtype == target {
            return tensor;
        }
        let is_weight = (tensor.0 as usize) < self.flat.values.len()
            && self.flat.values[tensor.0 as usize].requires_grad
            && dtype == Dtype::Float32
            && target == lower;
        if is_weight && let Some(cast) = self.cached.get(&tensor) {
            return *cast;
        }
        let result = self.add_cast(tensor, target, site, if is_weight { Cast::Kept } else { Cast::ForCall });
        if is_weight {
            self.cached.insert(tensor, result);
            self.calls.casts.push(result);
        }
        result
    }

    /// Adds a call of `to` and returns its result.
    fn add_cast(&mut self, tensor: TensorId, target: Dtype, site: u32, cast: Cast) -> TensorId {
        let shape = self.calls.shapes[tensor.0 as usize].alone();
        let requires_grad = self.is_grad_on && self.calls.requires_grad[tensor.0 as usize];
        let result = self.add(shape, target, requires_grad);
        let operator = self.operators.number("aten.to.dtype");
        let mut arguments = self.operators.defaults(operator);
        arguments[0] = Argument::Tensor(tensor);
        arguments[1] = Argument::Dtype(target);
        self.push(operator, arguments, vec![Some(result)], site, cast);
        result
    }

    /// Gives a type that a call names what it would be if the model were cast.
    pub(super) fn cast_whole(&mut self, call: &mut FlatCall, original: &FlatCall) {
        let (Some(cast), Some(built)) = (self.cast, self.built) else { return };
        let name = self.operators.name(call.operator);
        let text = self.flat.sites.get(original.site).text;
        for argument in &mut call.arguments {
            if *argument == Argument::Dtype(built) {
                self.calls.has_guessed_types = true;
                if is_only_moved(name, text) {
                    *argument = Argument::None;
                } else if !is_named_by_code(name, original.is_by_method, text) {
                    *argument = Argument::Dtype(cast);
                }
            }
        }
    }
}
