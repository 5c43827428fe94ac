//! Puts a configuration's sizes into a template.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::expression::Expression;
use vramfit_graph::model::{Example, ExpressionId, Model, Precision, Size, Step, Variant};

use super::join::each_size;

/// The batch, and the most tokens of a sequence, of an estimate that names neither: what somebody might train with.
const BATCH: i64 = 8;
const MOST_TOKENS: i64 = 512;

/// `template` with these values for some of its symbols, which it then no longer has. `None` where a size has no value.
pub(super) fn bound(mut template: Model, values: &[(&str, i64)]) -> Option<Model> {
    let given = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let mut kept = 0;
    let symbols: Vec<Result<i64, u32>> = template
        .symbols
        .iter()
        .map(|symbol| {
            given(&symbol.name).ok_or_else(|| {
                kept += 1;
                kept - 1
            })
        })
        .collect();
    let mut expressions: Vec<Expression> = Vec::new();
    let mut sizes: Vec<Size> = Vec::new();
    for expression in &template.expressions {
        let bound = expression.with(&symbols);
        let is_known = bound.symbols().next().is_none();
        sizes.push(if is_known {
            Size::Known(bound.evaluate(&[]).ok()?)
        } else {
            expressions.push(bound);
            Size::Symbolic(ExpressionId(expressions.len() as u32 - 1))
        });
    }
    let put = |size: &mut Size| {
        if let Size::Symbolic(id) = size {
            *size = sizes[id.0 as usize];
        }
    };
    template.expressions = expressions;
    template.symbols.retain(|symbol| given(&symbol.name).is_none());
    let tokens = given("positions").unwrap_or(MOST_TOKENS).min(MOST_TOKENS);
    for symbol in &mut template.symbols {
        symbol.example = Example::Known(if symbol.name == "batch" { BATCH } else { tokens });
    }
    let examples = template.examples()?;
    for input in template.inputs.iter_mut().chain(&mut template.targets) {
        input.shape.iter_mut().for_each(put);
        for (example, size) in input.example.iter_mut().zip(&input.shape) {
            *example = match size {
                Size::Known(value) => *value,
                Size::Symbolic(id) => template.expressions[id.0 as usize].evaluate(&examples).ok()?,
            };
        }
    }
    for kind in template.types.iter_mut().flatten() {
        kind.shape.iter_mut().for_each(put);
        kind.strides.iter_mut().flatten().for_each(put);
    }
    template.tensors.iter_mut().flatten().for_each(|row| put(&mut row.offset));
    let functions = template.variants.iter_mut().flat_map(|variant| &mut variant.functions);
    for step in template.steps.iter_mut().flatten().chain(functions.flat_map(|function| &mut function.steps)) {
        if let Step::Call(call) = step {
            call.arguments.iter_mut().for_each(|argument| each_size(argument, &put));
        }
    }
    let variant = template.variants.first()?;
    let (types, rows) = (&template.types[variant.types], &template.tensors[variant.tensors]);
    for weight in template.parameters.iter_mut().chain(&mut template.buffers) {
        let kind = &types[rows[weight.tensor.0 as usize].r#type as usize];
        weight.shape = kind
            .shape
            .iter()
            .map(|size| match size {
                Size::Known(value) => Some(*value),
                Size::Symbolic(_) => None,
            })
            .collect::<Option<_>>()?;
    }
    Some(template)
}

/// The model as it is built in `dtype`: what its variants that are cast to it do. Right for models whose floating-point
/// buffers and inputs all follow the weights.
pub(super) fn build_in(model: &mut Model, dtype: Dtype) {
    let cast = |variant: &Variant| (variant.precision == Precision::Cast(dtype)).then(|| variant.clone());
    let built: Vec<Variant> = model.variants.iter().filter_map(cast).collect();
    let Some(first) = built.first() else { return };
    let (types, rows) = (&model.types[first.types], &model.tensors[first.tensors]);
    for weight in model.parameters.iter_mut().chain(&mut model.buffers) {
        weight.dtype = types[rows[weight.tensor.0 as usize].r#type as usize].dtype;
    }
    let others = model.variants.iter().filter(|variant| variant.precision != Precision::AsBuilt).cloned();
    let built = built.into_iter().map(|variant| Variant { precision: Precision::AsBuilt, ..variant });
    model.variants = built.chain(others).collect();
}

/// Classes that begin with `from` begin with `to` instead.
pub(super) fn rename_classes(model: &mut Model, from: &str, to: &str) {
    let rename = |class: &mut String| {
        if let Some(rest) = class.strip_prefix(from) {
            *class = format!("{to}{rest}");
        }
    };
    rename(&mut model.class);
    model.modules.iter_mut().for_each(|module| rename(&mut module.class));
}
