//! What error messages call a tensor. Names are searched for only when an error needs one.

use crate::model::{Model, Step, TensorId, Variant};

/// A tensor's number and what it is: a weight, an input, or the result of a call and the line that made it.
pub(super) fn tensor(model: &Model, variant: &Variant, number: usize) -> String {
    let meaning = given(model, number).or_else(|| result(model, variant, number));
    meaning.map_or_else(|| format!("tensor {number}"), |meaning| format!("tensor {number}, {meaning}"))
}

/// The weight, input or target that a tensor is.
fn given(model: &Model, number: usize) -> Option<String> {
    let is_it = |tensor: TensorId| tensor.0 as usize == number;
    let mut weights = model.parameters.iter().chain(&model.buffers);
    if let Some(weight) = weights.find(|weight| is_it(weight.tensor)) {
        return weight.names.first().map(|name| format!("weight `{name}`"));
    }
    let inputs = model.inputs.iter().map(|input| ("input", input));
    let mut inputs = inputs.chain(model.targets.iter().map(|target| ("target", target)));
    inputs.find(|(_, input)| is_it(input.tensor)).map(|(what, input)| format!("{what} `{}`", input.name))
}

/// The call that makes a tensor: its operator, the module it runs in, the line.
fn result(model: &Model, variant: &Variant, number: usize) -> Option<String> {
    let mut modules: Vec<u32> = Vec::new();
    for step in &model.steps[variant.steps] {
        match step {
            Step::Enter(module, _) => modules.push(*module),
            Step::Exit(..) => {
                modules.pop();
            }
            Step::Call(call) if call.results.iter().flatten().any(|tensor| tensor.0 as usize == number) => {
                let operator = &model.operators[call.operator as usize].name;
                let path = modules.last().and_then(|module| model.modules.get(*module as usize)?.path.as_deref());
                let module = path.filter(|path| !path.is_empty()).map(|path| format!(" in `{path}`"));
                let source = call.source.and_then(|source| model.sources.get(source as usize));
                let line = source.map(|it| format!(" ({}:{} in {})", it.file, it.line, it.function));
                return Some(format!(
                    "result of `{operator}`{}{}",
                    module.unwrap_or_default(),
                    line.unwrap_or_default()
                ));
            }
            _ => {}
        }
    }
    None
}
