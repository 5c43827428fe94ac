//! Why an estimate from an archive is not exact.

use super::flatten::{Flat, Item};
use super::traced::Masks;
use super::variant::Calls;
use vramfit_graph::model::{Argument, Example, Mode, Precision, Symbol};

const UNRECORDED_FREES: &str =
    "an archive does not record when Python frees tensors; frees are derived from module calls and source lines";
const UNRECORDED_TYPES: &str = "an archive does not record whether a cast names a dtype or uses another tensor's; this is derived from source lines";
const UNRECORDED_AUTOCAST: &str =
    "the archive was exported without autocast; its casts are derived from PyTorch's lists of operators";
const UNRECORDED_MODE: &str =
    "the archive was exported for training; dropout and batch norm were turned off for evaluation";
const UNRECORDED_TRAINING: &str =
    "the archive was exported for evaluation: dropout and batch norm stay off in this training";
const UNRECORDED_HOST: &str =
    "an archive exported on the CPU does not record which tensors the code creates on the host";
const UNDONE_MASKS: &str = "attention masks that transformers builds only while it is traced were removed";
const ASSUMED_MASKS: &str =
    "an input mask masks nothing in the exported example and is assumed to mask nothing in training";
const TAKEN_BRANCH: &str = "the data decides which branch of a torch.cond runs; the one that allocates most is assumed";
const KEPT_MASKS: &str = "attention masks are kept that the code may not build when it is not traced";

/// The reasons why an estimate from this variant is not exact.
pub(super) fn causes(
    flat: &Flat<'_>,
    masks: Masks,
    symbols: &[Symbol],
    calls: &Calls,
    (precision, mode): (Precision, Mode),
) -> Vec<String> {
    let mut causes = vec![UNRECORDED_FREES];
    let facts = [
        (masks.undone > 0, UNDONE_MASKS),
        (masks.assumed > 0, ASSUMED_MASKS),
        (masks.kept > 0, KEPT_MASKS),
        (flat.branches > 0, TAKEN_BRANCH),
        (flat.device == "cpu", UNRECORDED_HOST),
        (calls.has_guessed_types, UNRECORDED_TYPES),
        (matches!(precision, Precision::Autocast(_)), UNRECORDED_AUTOCAST),
        (calls.has_turned_off, UNRECORDED_MODE),
        (mode == Mode::Train && is_for_evaluation(flat), UNRECORDED_TRAINING),
    ];
    causes.extend(facts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, cause)| cause));
    causes.into_iter().map(str::to_owned).chain(symbols.iter().filter_map(unrecorded_size)).collect()
}

/// Whether dropout or batch norm was off when the model was exported.
fn is_for_evaluation(flat: &Flat<'_>) -> bool {
    flat.items.iter().any(|item| {
        let Item::Call(call) = item else { return false };
        let flag = match flat.operators.name(call.operator) {
            "aten.dropout.default" => 2,
            "aten.batch_norm.default" => 5,
            _ => return false,
        };
        call.arguments.get(flag) == Some(&Argument::Bool(false))
    })
}

/// Why an answer is not exact where the user gave a size that data decides.
fn unrecorded_size(symbol: &Symbol) -> Option<String> {
    let Example::DataDependent { producer } = &symbol.example else { return None };
    let name = &symbol.name;
    Some(format!("the data that {producer} gets decides size `{name}`; the value given by hand was used"))
}
