//! One model of two that differ in their calls: one for short sequences, one for long ones.

use vramfit_graph::model::{Argument, ExpressionId, Model, Reach, Size, Step, SymbolRange};

/// `short` with the variants of `long` from `least` on of the symbol that is called `symbol`. `None` where they are not the
/// same model.
pub(super) fn joined(mut short: Model, mut long: Model, symbol: &str, least: i64) -> Option<Model> {
    let at = short.symbols.iter().position(|known| known.name == symbol)?;
    let is_same = short.symbol_names() == long.symbol_names()
        && short.modules == long.modules
        && short.parameters == long.parameters
        && short.buffers == long.buffers;
    if !is_same {
        return None;
    }
    renumber(&mut long, &mut short);
    let [types, tensors, steps] = [short.types.len(), short.tensors.len(), short.steps.len()];
    short.types.append(&mut long.types);
    short.tensors.append(&mut long.tensors);
    short.steps.append(&mut long.steps);
    let reach = |range| Some(Reach { symbol: at, range });
    for variant in &mut short.variants {
        variant.reach = reach(SymbolRange { least: 1, most: Some(least - 1) });
    }
    short.variants.extend(long.variants.into_iter().map(|mut variant| {
        variant.types += types;
        variant.tensors += tensors;
        variant.steps += steps;
        variant.reach = reach(SymbolRange { least, most: None });
        variant
    }));
    Some(short)
}

/// Numbers what `model` refers to as `other` does, which gets what it lacks.
fn renumber(model: &mut Model, other: &mut Model) {
    let operators = merged(&mut other.operators, &model.operators);
    let sources = merged(&mut other.sources, &model.sources);
    let expressions = merged(&mut other.expressions, &model.expressions);
    let put = |size: &mut Size| {
        if let Size::Symbolic(ExpressionId(id)) = size {
            *id = expressions[*id as usize];
        }
    };
    for kind in model.types.iter_mut().flatten() {
        kind.shape.iter_mut().for_each(put);
        kind.strides.iter_mut().flatten().for_each(put);
    }
    model.tensors.iter_mut().flatten().for_each(|row| put(&mut row.offset));
    for step in model.steps.iter_mut().flatten() {
        if let Step::Call(call) = step {
            call.operator = operators[call.operator as usize];
            call.source = call.source.map(|source| sources[source as usize]);
            call.arguments.iter_mut().for_each(|argument| each_size(argument, &put));
        }
    }
}

/// The index of each of `added` in `list`, which gets those that it does not have.
fn merged<T: Clone + PartialEq>(list: &mut Vec<T>, added: &[T]) -> Vec<u32> {
    let place = |item: &T| {
        let at = list.iter().position(|known| known == item).unwrap_or_else(|| {
            list.push(item.clone());
            list.len() - 1
        });
        at as u32
    };
    added.iter().map(place).collect()
}

/// Visits every size in an argument.
pub(super) fn each_size(argument: &mut Argument, visit: &impl Fn(&mut Size)) {
    match argument {
        Argument::Int(size) => visit(size),
        Argument::List(items) => items.iter_mut().for_each(|item| each_size(item, visit)),
        _ => {}
    }
}
