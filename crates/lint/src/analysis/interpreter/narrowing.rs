//! What a test says of a variable: where `isinstance(x, torch.Tensor)` fails, `x` is a number.

use ruff_python_ast::{Expr, StmtIf, UnaryOp};

use super::{Interpreter, Variables};
use crate::analysis::device::Device;
use crate::analysis::names::{self, access_path};
use crate::analysis::value::Value;

impl<'a> Interpreter<'a> {
    /// The two values of `x.item() if isinstance(x, torch.Tensor) else x`.
    pub(super) fn both(&mut self, test: &Expr, body: &'a Expr, orelse: &'a Expr) -> Value {
        let number = number_in(test);
        let mut arm = |expression: &'a Expr, is_body: bool| match &number {
            Some((path, in_body)) if *in_body == is_body && access_path(expression).as_ref() == Some(path) => {
                Value::Plain
            }
            _ => self.eval(expression),
        };
        match (arm(body, true), arm(orelse, false)) {
            // `None if torch.cuda.is_available() else "cpu"`: with a GPU, checkpoints go where they came from.
            (Value::None, Value::Device(Device::Cpu)) | (Value::Device(Device::Cpu), Value::None) => Value::None,
            (body, orelse) => body.join(&orelse),
        }
    }
}

/// Notes what is known where the only arm of an `if` is skipped: `if isinstance(x, torch.Tensor): x = x.item()`.
pub(super) fn skipped(choice: &StmtIf, variables: &mut Variables) {
    if let Some((path, false)) = number_in(&choice.test)
        && choice.elif_else_clauses.is_empty()
        && let Some(binding) = variables.get_mut(&path)
    {
        binding.value = Value::Plain;
    }
}

/// The variable that is no tensor in one arm of a test, and whether that is the first.
fn number_in(test: &Expr) -> Option<(String, bool)> {
    match test {
        Expr::UnaryOp(operation) if operation.op == UnaryOp::Not => {
            number_in(&operation.operand).map(|(path, in_body)| (path, !in_body))
        }
        Expr::Call(call) => {
            let name = names::dotted(&call.func)?;
            let path = access_path(call.arguments.args.first()?)?;
            let is_tensor_test = match (names::last(&name), call.arguments.args.get(1)) {
                ("isinstance", Some(class)) => {
                    names::dotted(class).is_some_and(|class| names::last(&class) == "Tensor")
                }
                ("is_tensor", None) => true,
                ("hasattr", Some(Expr::StringLiteral(attribute))) => {
                    matches!(attribute.value.to_str(), "item" | "detach" | "cpu")
                }
                _ => false,
            };
            is_tensor_test.then_some((path, false))
        }
        _ => None,
    }
}
