//! Attention that a model writes itself: a product, a scale, a mask, a softmax, a dropout and another product.
//!
//! `scaled_dot_product_attention` computes the same without a tensor of one number for every pair of positions.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_graph::model::{Argument, Call, Model, Size, Step, TensorId, Variant};

const SOFTMAX: [&str; 2] = ["aten.softmax.int", "aten._softmax.default"];
const PRODUCTS: [&str; 2] = ["aten.matmul.default", "aten.bmm.default"];
const CASTS: [&str; 3] = ["aten.to.dtype", "aten.type_as.default", "aten.to.dtype_layout"];
const DROPOUT: &str = "aten.dropout.default";
const SCALES: [&str; 2] = ["aten.mul.Tensor", "aten.div.Tensor"];
const ADD: &str = "aten.add.Tensor";
const FILL: &str = "aten.masked_fill.Scalar";
/// Scores from here on downwards count as masked.
const MASKED: f64 = -1e4;

/// A mask of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenMask {
    /// Numbers that are added to the scores.
    Added(TensorId),
    /// Where it is true, the scores are replaced by a very low number.
    Filled(TensorId),
}

/// One attention that a pass writes itself.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenAttention {
    /// The queries.
    pub query: TensorId,
    /// The keys as the product takes them, with the positions in the last dimension.
    pub turned_key: TensorId,
    /// The values.
    pub value: TensorId,
    /// The mask.
    pub mask: Option<WrittenMask>,
    /// What the scores are multiplied by.
    pub scale: f64,
    /// The chance that a score is dropped.
    pub dropout: f64,
    /// The result of the last product.
    pub result: TensorId,
    /// The calls that it consists of, from the first product to the last, by their indices among the steps.
    pub calls: Vec<usize>,
    /// What these calls make, without the result.
    pub scores: BTreeSet<TensorId>,
}

/// The attentions that a variant of a model writes itself, in order.
pub fn find_written_attention(model: &Model, variant: &Variant) -> Vec<WrittenAttention> {
    let pass = Pass::new(model, variant);
    let softmaxes = (0..pass.steps.len()).filter(|&at| pass.is_one_of(at, &SOFTMAX));
    softmaxes.filter_map(|at| pass.around(at)).collect()
}

/// Who makes and uses the tensors of a pass.
struct Pass<'m> {
    model: &'m Model,
    variant: &'m Variant,
    steps: &'m [Step],
    makers: BTreeMap<TensorId, usize>,
    users: BTreeMap<TensorId, Vec<usize>>,
    /// Tensors that something else than a call needs.
    kept: BTreeSet<TensorId>,
}

impl<'m> Pass<'m> {
    fn new(model: &'m Model, variant: &'m Variant) -> Pass<'m> {
        let steps = &model.steps[variant.steps];
        let mut pass = Pass {
            model,
            variant,
            steps,
            makers: BTreeMap::new(),
            users: BTreeMap::new(),
            kept: variant.outputs.iter().chain(&variant.held).chain(&variant.loss).copied().collect(),
        };
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Call(call) => {
                    call.each_tensor(&mut |id| pass.users.entry(id).or_default().push(at));
                    for id in call.results.iter().flatten() {
                        pass.makers.entry(*id).or_insert(at);
                    }
                }
                Step::Free(_) | Step::Enter(..) | Step::Exit(..) => {}
                other => other.each_tensor(&mut |id| {
                    pass.kept.insert(id);
                }),
            }
        }
        for function in &variant.functions {
            function.clone().each_tensor_mut(&mut |id| {
                pass.kept.insert(*id);
            });
        }
        pass
    }

    fn call(&self, at: usize) -> Option<&'m Call> {
        match &self.steps[at] {
            Step::Call(call) => Some(call),
            _ => None,
        }
    }

    fn name(&self, call: &Call) -> &'m str {
        &self.model.operators[call.operator as usize].name
    }

    fn is_one_of(&self, at: usize, names: &[&str]) -> bool {
        self.call(at).is_some_and(|call| names.contains(&self.name(call)))
    }

    fn rank(&self, TensorId(id): TensorId) -> usize {
        let row = &self.model.tensors[self.variant.tensors][id as usize];
        self.model.types[self.variant.types][row.r#type as usize].shape.len()
    }

    fn requires_grad(&self, TensorId(id): TensorId) -> bool {
        self.model.tensors[self.variant.tensors][id as usize].requires_grad
    }

    /// Whether only this call, and those that return the tensor as it is, use a tensor.
    fn is_only_used_by(&self, id: TensorId, at: usize) -> bool {
        let users = self.users.get(&id).map_or(&[][..], Vec::as_slice);
        !self.kept.contains(&id)
            && users.iter().all(|&user| user == at || self.call(user).is_some_and(|call| returns_as_is(call, id)))
    }

    /// The one call that uses a tensor and makes another of it.
    fn user(&self, id: TensorId) -> Option<usize> {
        let mut users = self.users.get(&id)?.iter().copied();
        let is_other = |at: &usize| self.call(*at).is_some_and(|call| !returns_as_is(call, id));
        let first = users.by_ref().find(is_other)?;
        self.is_only_used_by(id, first).then_some(first)
    }

    /// The attention whose softmax is at a step.
    fn around(&self, softmax: usize) -> Option<WrittenAttention> {
        let call = self.call(softmax)?;
        let (scores, probabilities) = (tensor(call, 0)?, result(call)?);
        let rank = self.rank(scores) as i64;
        let Some(Argument::Int(Size::Known(dim))) = call.arguments.get(1) else { return None };
        if *dim != -1 && *dim != rank - 1 {
            return None;
        }
        let mut found = WrittenAttention {
            query: scores,
            turned_key: scores,
            value: scores,
            mask: None,
            scale: 1.0,
            dropout: 0.0,
            result: probabilities,
            calls: vec![softmax],
            scores: BTreeSet::from([scores, probabilities]),
        };
        self.back_to_product(&mut found, scores, softmax)?;
        self.on_to_product(&mut found, probabilities)?;
        found.calls.sort_unstable();
        let is_fit = matches!(rank, 3 | 4) && self.rank(found.value) as i64 == rank && self.is_undivided(&found);
        is_fit.then_some(found)
    }

    /// Follows the scores back to the product that makes them.
    fn back_to_product(&self, found: &mut WrittenAttention, mut scores: TensorId, mut user: usize) -> Option<()> {
        let mut is_scaled = false;
        loop {
            if !self.is_only_used_by(scores, user) {
                return None;
            }
            let at = *self.makers.get(&scores)?;
            let call = self.call(at)?;
            found.calls.push(at);
            found.scores.insert(scores);
            let name = self.name(call);
            if PRODUCTS.contains(&name) {
                (found.query, found.turned_key) = (tensor(call, 0)?, tensor(call, 1)?);
                return Some(());
            }
            if CASTS.contains(&name) {
                scores = tensor(call, 0)?;
            } else if SCALES.contains(&name) {
                let factor = number(call.arguments.get(1)?)?;
                found.scale *= if name == SCALES[0] { factor } else { 1.0 / factor };
                is_scaled = true;
                scores = tensor(call, 0)?;
            } else if name == ADD && found.mask.is_none() && !is_scaled {
                let (one, other) = (tensor(call, 0)?, tensor(call, 1)?);
                let is_plain = call.arguments.get(2).is_none_or(|alpha| number(alpha) == Some(1.0));
                // The scores have a product behind them, and the mask is as large or smaller.
                let (next, mask) = if self.comes_from_product(one) { (one, other) } else { (other, one) };
                if !is_plain || self.requires_grad(mask) || !self.comes_from_product(next) {
                    return None;
                }
                found.mask = Some(WrittenMask::Added(mask));
                scores = next;
            } else if name == FILL && found.mask.is_none() && number(call.arguments.get(2)?)? <= MASKED {
                found.mask = Some(WrittenMask::Filled(tensor(call, 1)?));
                scores = tensor(call, 0)?;
            } else {
                return None;
            }
            user = at;
        }
    }

    /// Whether a tensor is a product, perhaps scaled or cast.
    fn comes_from_product(&self, mut id: TensorId) -> bool {
        loop {
            let Some(call) = self.makers.get(&id).and_then(|at| self.call(*at)) else { return false };
            let name = self.name(call);
            match tensor(call, 0) {
                _ if PRODUCTS.contains(&name) => return true,
                Some(before) if (CASTS.contains(&name) || SCALES.contains(&name)) && before != id => id = before,
                _ => return false,
            }
        }
    }

    /// Follows the probabilities to the product that uses them.
    fn on_to_product(&self, found: &mut WrittenAttention, mut probabilities: TensorId) -> Option<()> {
        loop {
            found.scores.insert(probabilities);
            let users = self.users.get(&probabilities)?;
            let as_is =
                users.iter().filter(|&&at| self.call(at).is_some_and(|call| returns_as_is(call, probabilities)));
            found.calls.extend(as_is);
            let at = self.user(probabilities)?;
            let call = self.call(at)?;
            found.calls.push(at);
            let name = self.name(call);
            if PRODUCTS.contains(&name) {
                if tensor(call, 0)? != probabilities {
                    return None;
                }
                (found.value, found.result) = (tensor(call, 1)?, result(call)?);
                return Some(());
            }
            if name == DROPOUT {
                let is_on = call.arguments.get(2) == Some(&Argument::Bool(true));
                found.dropout = if is_on { number(call.arguments.get(1)?)? } else { found.dropout };
            } else if !CASTS.contains(&name) {
                return None;
            }
            probabilities = result(call)?;
        }
    }

    /// Whether nothing but calls, frees and modules lies between the first call and the last.
    fn is_undivided(&self, found: &WrittenAttention) -> bool {
        let (Some(&first), Some(&last)) = (found.calls.first(), found.calls.last()) else { return false };
        let is_plain = |step: &Step| matches!(step, Step::Call(_) | Step::Free(_) | Step::Enter(..) | Step::Exit(..));
        self.steps[first..=last].iter().all(is_plain)
    }
}

/// Whether a call returns a tensor as it is, because there was nothing to do.
fn returns_as_is(call: &Call, id: TensorId) -> bool {
    call.results.contains(&Some(id))
}

fn tensor(call: &Call, index: usize) -> Option<TensorId> {
    match call.arguments.get(index)? {
        Argument::Tensor(id) => Some(*id),
        _ => None,
    }
}

fn result(call: &Call) -> Option<TensorId> {
    call.results.first().copied().flatten()
}

fn number(argument: &Argument) -> Option<f64> {
    match argument {
        Argument::Float(value) => Some(*value),
        Argument::Int(Size::Known(value)) => Some(*value as f64),
        _ => None,
    }
}
