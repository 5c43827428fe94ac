//! A model at given sizes as lines of text: two models are the same program where the lines are the same.

use vramfit_graph::model::{Argument, Model, Size, Step, TensorId, Variant};

pub struct Described<'a> {
    pub model: &'a Model,
    pub sizes: &'a [i64],
    /// Whether arguments that are floats are shown.
    pub has_floats: bool,
}

impl Described<'_> {
    fn size(&self, size: Size) -> i64 {
        match size {
            Size::Known(value) => value,
            Size::Symbolic(id) => self.model.expressions[id.0 as usize].evaluate(self.sizes).expect("it has a value"),
        }
    }

    fn sizes(&self, sizes: &[Size]) -> Vec<i64> {
        sizes.iter().map(|size| self.size(*size)).collect()
    }

    fn tensor(&self, variant: &Variant, TensorId(id): TensorId) -> String {
        let row = &self.model.tensors[variant.tensors][id as usize];
        let kind = &self.model.types[variant.types][row.r#type as usize];
        let shape = self.sizes(&kind.shape);
        // The stride of a size of 1 says nothing.
        let telling = |strides: Vec<i64>| {
            let shown = strides.iter().zip(&shape).map(|(stride, size)| if *size == 1 { 0 } else { *stride });
            shown.collect::<Vec<_>>()
        };
        let row_major = telling((0..shape.len()).map(|at| shape[at + 1..].iter().product()).collect());
        let strides = kind.strides.as_ref().map(|strides| telling(self.sizes(strides)));
        let strides = strides.filter(|strides| *strides != row_major);
        let flags = (row.requires_grad, row.is_leaf, row.is_on_host, row.is_view);
        format!(
            "%{id} {} {shape:?} {strides:?} storage {} at {} {flags:?}",
            kind.dtype,
            row.storage,
            self.size(row.offset)
        )
    }

    fn argument(&self, argument: &Argument) -> String {
        match argument {
            Argument::Int(size) => self.size(*size).to_string(),
            Argument::List(items) => {
                let items: Vec<String> = items.iter().map(|item| self.argument(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Argument::Tensor(TensorId(id)) => format!("%{id}"),
            Argument::Float(_) if !self.has_floats => "float".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// Parameters, buffers, modules and the like.
    pub fn tables(&self) -> Vec<String> {
        let model = self.model;
        let mut lines = vec![format!("class {} move order {:?}", model.class, model.move_order)];
        lines.extend(model.modules.iter().map(|module| format!("{module:?}")));
        lines.extend(model.parameters.iter().map(|weight| format!("parameter {weight:?}")));
        lines.extend(model.buffers.iter().map(|weight| format!("buffer {weight:?}")));
        for input in model.inputs.iter().chain(&model.targets) {
            lines.push(format!(
                "input {} {:?} {} {:?}",
                input.name,
                input.tensor,
                input.dtype,
                self.sizes(&input.shape)
            ));
        }
        lines
    }

    /// What a variant does.
    pub fn variant(&self, variant: &Variant) -> Vec<String> {
        let tensors = |list: &[TensorId]| list.iter().map(|id| format!("%{}", id.0)).collect::<Vec<_>>().join(" ");
        let mut lines = vec![format!("{} {} gradients {}", variant.precision, variant.mode, variant.has_grad)];
        let given = self.model.given_count() as u32;
        lines.extend((0..given).map(|id| self.tensor(variant, TensorId(id))));
        for step in &self.model.steps[variant.steps] {
            lines.push(match step {
                Step::Call(call) => {
                    let arguments: Vec<String> =
                        call.arguments.iter().map(|argument| self.argument(argument)).collect();
                    let results = call.results.iter();
                    let results: Vec<String> =
                        results.map(|result| result.map_or("None".to_owned(), |id| self.tensor(variant, id))).collect();
                    let name = &self.model.operators[call.operator as usize].name;
                    format!("{name}({}) {:?} -> {}", arguments.join(", "), call.cast, results.join(", "))
                }
                Step::Enter(module, list) => format!("enter {module} {}", tensors(list)),
                Step::Exit(module, list) => format!("exit {module} {}", tensors(list)),
                Step::Free(list) => format!("free {}", tensors(list)),
                other => format!("{other:?}"),
            });
        }
        let [outputs, released, held, constants] =
            [&variant.outputs, &variant.released, &variant.held, &variant.constants].map(|list| tensors(list));
        lines.push(format!(
            "outputs {outputs} released {released} held {held} constants {constants} {:?}",
            variant.loss
        ));
        lines
    }
}

/// Fails at the first line in which the models differ, each at its sizes.
pub fn assert_same(made: Described<'_>, captured: Described<'_>, name: &str) {
    compare(&made.tables(), &captured.tables(), name);
    assert_eq!(made.model.variants.len(), captured.model.variants.len(), "{name}");
    for variant in &captured.model.variants {
        let alike = |other: &&Variant| (other.precision, other.mode) == (variant.precision, variant.mode);
        let other = made.model.variants.iter().find(alike).expect("it has all variants");
        let name = format!("{name} {} {}", variant.precision, variant.mode);
        compare(&made.variant(other), &captured.variant(variant), &name);
    }
}

fn compare(made: &[String], captured: &[String], name: &str) {
    for (at, (left, right)) in made.iter().zip(captured).enumerate() {
        let before = made[at.saturating_sub(3)..at].join("\n  ");
        assert_eq!(left, right, "{name}: line {at}, after\n  {before}");
    }
    assert_eq!(made.len(), captured.len(), "{name}");
}
