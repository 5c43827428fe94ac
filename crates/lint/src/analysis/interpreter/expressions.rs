//! Expressions other than calls.

use std::rc::Rc;

use ruff_python_ast::{Comprehension, Expr, Operator};
use ruff_text_size::Ranged;

use super::data::named_device;
use super::{Interpreter, NESTING};
use crate::analysis::device::Device;
use crate::analysis::facts::{EventKind, Gradients, Iterates, Keeping};
use crate::analysis::index::ClassKind;
use crate::analysis::names::Role;
use crate::analysis::value::{Bound, Certainty, Tensor, Value, merge};

impl<'a> Interpreter<'a> {
    /// Evaluates an expression.
    pub(super) fn eval(&mut self, expression: &'a Expr) -> Value {
        if self.nesting > NESTING {
            return Value::UNKNOWN;
        }
        self.nesting += 1;
        let value = self.eval_inner(expression);
        self.nesting -= 1;
        value
    }

    fn eval_inner(&mut self, expression: &'a Expr) -> Value {
        match expression {
            Expr::StringLiteral(text) => named_device(text.value.to_str()).map_or(Value::Plain, Value::Device),
            Expr::NumberLiteral(_) | Expr::BytesLiteral(_) | Expr::EllipsisLiteral(_) => Value::Plain,
            Expr::BooleanLiteral(literal) => Value::Bool(literal.value),
            Expr::NoneLiteral(_) => Value::None,
            Expr::Name(name) => self.name(name.id.as_str()),
            Expr::Attribute(attribute) => self.attribute(expression, attribute),
            Expr::Subscript(subscript) => self.subscript(expression, subscript),
            Expr::Call(call) => self.call(call),
            Expr::BinOp(operation) => {
                let (left, right) = (self.eval(&operation.left), self.eval(&operation.right));
                // `"cuda:%d" % rank`, `"cuda:" + str(rank)`.
                if let (Value::Device(_), Operator::Mod | Operator::Add) = (&left, operation.op) {
                    return left;
                }
                match (&left, operation.op) {
                    (Value::List(..), Operator::Mult) => return left,
                    (Value::List(one, bound), Operator::Add) => {
                        let Value::List(two, _) = &right else { return left };
                        return Value::List(Rc::new(one.join(two)), *bound);
                    }
                    _ => {}
                }
                let mut result = self.arithmetic(&left, &right);
                if let Value::Tensor(tensor) = &mut result {
                    let is_fraction = matches!(&*operation.right, Expr::BinOp(inner) if inner.op == Operator::Div)
                        || matches!(&*operation.left, Expr::BinOp(inner) if inner.op == Operator::Div);
                    tensor.is_divided |= operation.op == Operator::Div || operation.op == Operator::Mult && is_fraction;
                    tensor.is_weighed |= matches!(operation.op, Operator::Div | Operator::Mult);
                }
                result
            }
            Expr::UnaryOp(operation) => {
                let value = self.eval(&operation.operand);
                match value {
                    Value::Bool(value) if operation.op == ruff_python_ast::UnaryOp::Not => Value::Bool(!value),
                    Value::Structure(tensor) => Value::Tensor(tensor),
                    other => other,
                }
            }
            Expr::BoolOp(operation) => {
                let mut all = Value::UNKNOWN;
                for (number, value) in operation.values.iter().enumerate() {
                    let value = self.eval(value);
                    all = if number == 0 { value } else { all.join(&value) };
                }
                all
            }
            Expr::Compare(compare) => {
                let mut tensor = self.eval(&compare.left).tensor();
                for side in compare.comparators.iter() {
                    let other = self.eval(side).tensor();
                    tensor = match (tensor, other) {
                        (Some(one), Some(two)) => Some(one.with(&two)),
                        (one, two) => one.or(two),
                    };
                }
                tensor.map_or(Value::Plain, |tensor| Value::Tensor(Tensor { is_data: false, ..tensor.detached() }))
            }
            Expr::If(choice) => {
                self.eval(&choice.test);
                match self.truth(&choice.test) {
                    Some(true) => self.eval(&choice.body),
                    Some(false) => self.eval(&choice.orelse),
                    None => self.both(&choice.test, &choice.body, &choice.orelse),
                }
            }
            Expr::Tuple(tuple) => Value::Tuple(Rc::new(tuple.elts.iter().map(|item| self.eval(item)).collect())),
            Expr::List(list) => self.items(list.elts.iter()),
            Expr::Set(set) => self.items(set.elts.iter()),
            Expr::Dict(dict) => self.items(dict.items.iter().map(|item| &item.value)),
            Expr::ListComp(comprehension) => self.comprehension(&comprehension.generators, &comprehension.elt, true),
            Expr::SetComp(comprehension) => self.comprehension(&comprehension.generators, &comprehension.elt, true),
            Expr::DictComp(comprehension) => self.comprehension(&comprehension.generators, &comprehension.value, true),
            Expr::Generator(generator) => self.comprehension(&generator.generators, &generator.elt, false),
            Expr::Named(named) => {
                let value = self.eval(&named.value);
                self.bind(&named.target, value.clone(), Some(&named.value));
                value
            }
            Expr::Starred(starred) => self.eval(&starred.value),
            Expr::Await(awaited) => self.eval(&awaited.value),
            Expr::Yield(yielded) => {
                if let Some(value) = &yielded.value {
                    let value = self.eval(value);
                    self.escape(&value.provenance());
                    let frame = self.frame();
                    frame.yielded =
                        Some(frame.yielded.as_ref().map_or_else(|| value.clone(), |known| known.join(&value)));
                }
                Value::UNKNOWN
            }
            Expr::FString(_) => match self.device_of(expression) {
                Device::Unknown => Value::Plain,
                device => Value::Device(device),
            },
            _ => Value::UNKNOWN,
        }
    }

    fn items(&mut self, items: impl Iterator<Item = &'a Expr>) -> Value {
        let mut all: Option<Value> = None;
        for item in items {
            let value = self.eval(item);
            all = Some(match all {
                None => value,
                // One tensor with a graph among numbers is enough to keep the graph.
                Some(known) => match (known.tensor(), value.tensor()) {
                    (Some(one), Some(two)) => {
                        let is_loss =
                            one.is_loss && one.graph == Certainty::Yes || two.is_loss && two.graph == Certainty::Yes;
                        Value::Tensor(Tensor { is_loss, ..one.with(&two) })
                    }
                    (Some(_), None) => known,
                    (None, Some(_)) => value,
                    (None, None) => known.join(&value),
                },
            });
        }
        Value::List(Rc::new(all.unwrap_or(Value::UNKNOWN)), Bound::Open)
    }

    /// A comprehension is a loop that keeps all its results.
    fn comprehension(&mut self, generators: &'a [Comprehension], item: &'a Expr, is_kept: bool) -> Value {
        let outer = self.scope;
        let before = self.frame().variables.clone();
        let target = self.target.take();
        for generator in generators {
            let source = self.eval(&generator.iter);
            let iterates = self.iterates(&source, &generator.iter, &generator.target);
            let element = self.item_of(&source, &generator.iter, iterates);
            self.new_loop(iterates, None);
            let last = self.facts.loops.len() - 1;
            // Elsewhere a loop without a statement and with the role of training is a framework's training loop.
            if let Iterates::Batches(Role::Train) = iterates {
                self.facts.loops[last].iterates = Iterates::Batches(Role::Unknown);
            }
            self.bind(&generator.target, element, None);
            for test in &generator.ifs {
                self.eval(test);
            }
        }
        let value = self.eval(item);
        if is_kept {
            let container = target.unwrap_or_else(|| "the list".into());
            self.record(
                EventKind::Keep {
                    container,
                    defined: Some(outer),
                    value: value.clone(),
                    expression: item,
                    how: Keeping::Append,
                    bound: Bound::Open,
                },
                item.range(),
            );
        }
        self.scope = outer;
        self.frame().variables = before;
        Value::List(Rc::new(value), Bound::Open)
    }

    fn name(&mut self, name: &str) -> Value {
        if let Some(binding) = self.lookup_variable(name) {
            return binding.value.clone();
        }
        if let Some(path) = self.facts.index.imports.get(name) {
            return Value::Library(path.as_str().into());
        }
        if let Some(&class) = self.facts.index.class_by_name.get(name) {
            return Value::Class(class);
        }
        if let Some(&function) = self.facts.index.by_name.get(name).and_then(|functions| functions.last()) {
            return Value::Function(function);
        }
        if name == "self"
            && let Some(class) = self.frames.last().and_then(|frame| frame.class)
        {
            return Value::Instance(class, "self".into());
        }
        // It may come by `from helpers import *`.
        match name {
            "torch" => return Value::Library("torch".into()),
            "nn" => return Value::Library("torch.nn".into()),
            "F" => return Value::Library("torch.nn.functional".into()),
            _ => {}
        }
        self.guess(name)
    }

    /// The tensor as the input of an operation: with grad mode off the result has no graph.
    pub(super) fn recorded(&self, tensor: Tensor) -> Tensor {
        if self.gradients == Gradients::Off { tensor.detached() } else { tensor }
    }

    /// The result of an arithmetic operator.
    pub(super) fn arithmetic(&self, left: &Value, right: &Value) -> Value {
        match (left.tensor().map(|tensor| self.recorded(tensor)), right.tensor().map(|tensor| self.recorded(tensor))) {
            (Some(one), Some(two)) => Value::Tensor(one.with(&two)),
            (Some(tensor), None) | (None, Some(tensor)) => {
                let other = if left.tensor().is_some() { right } else { left };
                let provenance = merge(&tensor.provenance, &other.provenance());
                let tensor = tensor.operated();
                // What something unknown computed may have a graph.
                let is_open = matches!(other, Value::Unknown(_)) && self.gradients != Gradients::Off;
                let graph = if is_open { tensor.graph.any(Certainty::Unknown) } else { tensor.graph };
                Value::Tensor(Tensor { graph, is_data: false, provenance, ..tensor })
            }
            (None, None) => match (left, right) {
                (Value::Plain | Value::Bool(_), Value::Plain | Value::Bool(_)) => Value::Plain,
                _ => Value::Unknown(merge(&left.provenance(), &right.provenance())),
            },
        }
    }

    /// The kind of a value's class.
    pub(super) fn class_kind(&self, value: &Value) -> Option<ClassKind> {
        match value {
            Value::Instance(class, _) => Some(self.facts.index.classes[*class].kind),
            _ => None,
        }
    }
}
