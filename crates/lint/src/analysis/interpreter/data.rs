//! Where data comes from, what it is used for, and the device it is on.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use crate::analysis::device::Device;
use crate::analysis::facts::EventKind;
use crate::analysis::names::{self, Role};
use crate::analysis::value::{Loader, Value};

impl<'a> Interpreter<'a> {
    /// `torch.load`.
    pub(super) fn load(&mut self, call: &'a ExprCall) -> Value {
        let location = call.arguments.find_argument_value("map_location", 1);
        let mut has_location = location.is_some();
        let onto = match location {
            None | Some(Expr::NoneLiteral(_)) => Device::Unknown,
            Some(Expr::Lambda(lambda)) => {
                let goes_to_gpu = self.facts.source[lambda.body.range()].contains("cuda");
                if goes_to_gpu { Device::Gpu } else { Device::Cpu }
            }
            // `{"cuda:0": "cuda:1"}`, or a variable.
            Some(other) => match self.quietly(|this| this.eval(other)) {
                Value::Device(device) => device,
                Value::None => {
                    has_location = false;
                    Device::Unknown
                }
                Value::List(item, _) => match *item {
                    Value::Device(device) => device,
                    _ => Device::Unknown,
                },
                _ => self.device_of(other),
            },
        };
        let bound_to = self.target.clone();
        self.record(EventKind::Load { call, onto, has_location, bound_to }, call.range());
        Value::Checkpoint(Rc::from([call.range().start().to_u32()]))
    }

    /// A `DataLoader` is built.
    pub(super) fn loader_built(&mut self, call: &'a ExprCall) -> Value {
        let role = self.data_role(call);
        let name = self.target.clone();
        let by_name = name.as_deref().map_or(Role::Unknown, names::role);
        let role = if by_name == Role::Unknown { role } else { by_name };
        self.record(EventKind::LoaderBuilt { call, role }, call.range());
        Value::Loader(Loader { role, device: Device::Cpu })
    }

    /// What data is used for, by arguments and names.
    pub(super) fn data_role(&self, call: &'a ExprCall) -> Role {
        for keyword in &call.arguments.keywords {
            match (keyword.arg.as_ref().map(|name| name.as_str()), &keyword.value) {
                (Some("train"), Expr::BooleanLiteral(literal)) => {
                    return if literal.value { Role::Train } else { Role::Evaluation };
                }
                (Some("split" | "mode" | "subset"), Expr::StringLiteral(text)) => {
                    return names::role(text.value.to_str());
                }
                _ => {}
            }
        }
        if let Some(target) = &self.target
            && names::role(target) != Role::Unknown
        {
            return names::role(target);
        }
        let first = call
            .arguments
            .args
            .first()
            .or_else(|| call.arguments.find_keyword("dataset").map(|keyword| &keyword.value));
        match first {
            Some(Expr::Subscript(subscript)) => match &*subscript.slice {
                Expr::StringLiteral(text) => names::role(text.value.to_str()),
                _ => Self::role_of(first.unwrap_or(&subscript.value)),
            },
            Some(other) => {
                match names::access_path(other).and_then(|path| self.lookup(&path)).map(|binding| &binding.value) {
                    Some(Value::Dataset(role)) if *role != Role::Unknown => *role,
                    _ => Self::role_of(other),
                }
            }
            None => Role::Unknown,
        }
    }

    /// The device an expression names.
    pub(super) fn device_of(&self, expression: &Expr) -> Device {
        match expression {
            Expr::StringLiteral(text) => match text.value.to_str() {
                "cpu" => Device::Cpu,
                text => named_device(text).unwrap_or_default(),
            },
            Expr::FString(_) => {
                if self.facts.source[expression.range()].contains("cuda") {
                    Device::Gpu
                } else {
                    Device::Unknown
                }
            }
            Expr::If(choice) => match (self.device_of(&choice.body), self.device_of(&choice.orelse)) {
                (Device::Gpu, _) | (_, Device::Gpu) => Device::Gpu,
                (one, two) if one == two => one,
                _ => Device::Unknown,
            },
            Expr::NumberLiteral(_) => Device::Gpu,
            Expr::Call(call) => match names::dotted(&call.func) {
                Some(name) if names::last(&name) == "device" => {
                    call.arguments.args.first().map_or(Device::Unknown, |first| self.device_of(first))
                }
                _ => Device::Unknown,
            },
            Expr::Name(_) | Expr::Attribute(_) => {
                match names::access_path(expression).and_then(|path| self.lookup(&path)).map(|binding| &binding.value) {
                    Some(Value::Device(device)) => *device,
                    _ => self.device_of_owner(expression),
                }
            }
            _ => Device::Unknown,
        }
    }
}

impl Interpreter<'_> {
    /// `batch.device`: where the batch is.
    fn device_of_owner(&self, expression: &Expr) -> Device {
        let Expr::Attribute(attribute) = expression else { return Device::Unknown };
        if attribute.attr.as_str() != "device" {
            return Device::Unknown;
        }
        let path = names::access_path(&attribute.value);
        match path.and_then(|path| self.lookup(&path)).map(|binding| &binding.value) {
            Some(Value::Tensor(tensor) | Value::Structure(tensor)) => tensor.device,
            Some(Value::Module(module)) if self.on_gpu.contains(&**module) => Device::Gpu,
            _ => Device::Unknown,
        }
    }
}

/// The device of a name such as `cuda:1`.
pub(super) fn named_device(text: &str) -> Option<Device> {
    let kind = text.split(':').next().unwrap_or(text);
    match kind {
        "cpu" => Some(Device::Cpu),
        "cuda" | "xpu" | "mps" | "hip" => Some(Device::Gpu),
        _ => None,
    }
}
