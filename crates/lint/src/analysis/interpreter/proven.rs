//! What a backward pass proves: of the one operand of a loss that is not known, that it carries a graph.

use std::rc::Rc;

use ruff_python_ast::Expr;
use ruff_text_size::Ranged;

use super::{Binding, Interpreter};
use crate::analysis::device::Device;
use crate::analysis::facts::Gradients;
use crate::analysis::names;
use crate::analysis::value::{Certainty, Provenance, ProvenanceRef, Tensor, Value, merge};

impl<'a> Interpreter<'a> {
    /// For `loss = (out - y).abs().mean()`, which goes into a backward pass: if `y` has no graph, `out` has one. Returns where the two
    /// come from, for the loss to have it too.
    pub(super) fn prove_operand(&mut self, expression: Option<&'a Expr>) -> ProvenanceRef {
        if self.gradients != Gradients::On {
            return None;
        }
        let mut leaves = Vec::new();
        self.operands(expression?, &mut leaves)?;
        let mut unknown: Option<(&'a Expr, Value)> = None;
        for leaf in leaves {
            let value = self.quietly(|this| this.eval(leaf));
            let is_open = match &value {
                Value::Plain | Value::None | Value::Bool(_) | Value::Device(_) => continue,
                // What a loop draws is data.
                _ if matches!(leaf, Expr::Name(name) if self.facts.index.usage.is_drawn(name.id.as_str())) => continue,
                Value::Tensor(tensor) | Value::Structure(tensor) => match tensor.graph {
                    Certainty::No if !tensor.is_leaf => continue,
                    Certainty::Unknown => true,
                    _ => false,
                },
                Value::Unknown(_) => true,
                _ => false,
            };
            let is_same =
                unknown.as_ref().is_some_and(|(known, _)| names::access_path(known) == names::access_path(leaf));
            if !is_open || unknown.is_some() && !is_same {
                return None;
            }
            unknown = Some((leaf, value));
        }
        let (Expr::Name(name), value) = unknown? else { return None };
        let binding = self.lookup_variable(name.id.as_str())?;
        let scope = binding.scope;
        let own = Some(Rc::new(Provenance { forwards: vec![self.statement.start().to_u32()], keeps: Vec::new() }));
        let provenance = merge(&value.provenance(), &own);
        let tensor = value.tensor().unwrap_or_else(|| Tensor::plain(Device::Unknown));
        let tensor = Tensor { graph: Certainty::Yes, provenance: provenance.clone(), ..tensor };
        self.store_at(name.id.to_string(), Binding { value: Value::Structure(tensor), scope });
        provenance
    }

    /// The loss in `loss_fn(out, y).backward()`, whatever computes it.
    pub(super) fn proven_loss(&self, owner: &Value, expression: &Expr) -> Value {
        match owner {
            // `out.sum()` may belong to a pass elsewhere.
            Value::Unknown(provenance) if takes_arguments(expression) && self.gradients == Gradients::On => {
                let own = Some(Rc::new(Provenance {
                    forwards: vec![expression.range().start().to_u32()],
                    keeps: Vec::new(),
                }));
                Value::Tensor(Tensor {
                    graph: Certainty::Yes,
                    is_loss: true,
                    provenance: merge(provenance, &own),
                    ..Tensor::plain(Device::Unknown)
                })
            }
            known => known.clone(),
        }
    }

    /// The variables that an expression computes with; nothing if something else may have a part in it.
    fn operands(&mut self, expression: &'a Expr, leaves: &mut Vec<&'a Expr>) -> Option<()> {
        match expression {
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) => {}
            Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_) => leaves.push(expression),
            Expr::BinOp(operation) => {
                self.operands(&operation.left, leaves)?;
                self.operands(&operation.right, leaves)?;
            }
            Expr::UnaryOp(operation) => self.operands(&operation.operand, leaves)?,
            Expr::Call(call) => {
                let is_function = match self.quietly(|this| this.eval(&call.func)) {
                    Value::Library(path) => path.starts_with("torch."),
                    Value::Criterion => true,
                    _ => false,
                };
                match &*call.func {
                    _ if is_function => {}
                    // A method of a tensor.
                    Expr::Attribute(method) if !matches!(&*method.value, Expr::Name(name) if name.id.as_str() == "self") =>
                    {
                        self.operands(&method.value, leaves)?;
                    }
                    _ => return None,
                }
                for argument in &call.arguments.args {
                    self.operands(argument, leaves)?;
                }
                for keyword in &call.arguments.keywords {
                    self.operands(&keyword.value, leaves)?;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

fn takes_arguments(expression: &Expr) -> bool {
    matches!(expression, Expr::Call(call) if !call.arguments.is_empty())
}
