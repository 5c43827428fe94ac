//! Networks that only compute targets for another one in training: part of VF003.

use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, Repeats};
use crate::analysis::index::ClassKind;

/// Whether a network in a training loop is trained by nothing in the file, while another one in the same loop is: it is in
/// evaluation mode, or the file makes it and gives its parameters to no optimizer.
pub(super) fn is_teacher(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    event: &Event<'_>,
    module: &str,
    is_switched: bool,
) -> bool {
    let Some(number) = facts.batch_loop(events, event.scope) else { return false };
    let usage = &facts.index.usage;
    let wants_inputs =
        events.iter().any(|other| matches!(other.kind, EventKind::RequiresGrad | EventKind::Grad { .. }));
    // A part is trained with the whole, under the name that it has here or where it was made.
    let written = facts.source[event.range].split('(').next().unwrap_or_default().trim();
    let is_trained = [module, written].into_iter().any(|path| {
        let mut wholes = std::iter::successors(Some(path), |path| path.rsplit_once('.').map(|(whole, _)| whole));
        wholes.any(|whole| usage.has_parameters_given(whole))
    });
    if wants_inputs || is_trained {
        return false;
    }
    let own = event.range.start().to_u32();
    let mut others =
        events.iter().filter(|other| facts.is_in(other.scope, number)).filter_map(|other| match &other.kind {
            EventKind::Forward { module: name, arguments, .. } if name != module => Some((name, arguments)),
            _ => None,
        });
    // What goes through another network may train this one too, or prepare its data.
    let feeds =
        others.clone().any(|(_, arguments)| arguments.as_ref().is_some_and(|given| given.forwards.contains(&own)));
    if feeds {
        return false;
    }
    if is_switched {
        let by_framework = facts.loops[number].repeats == Repeats::Framework;
        return (by_framework || !usage.is_handed(module) || is_called_teacher(module)) && others.next().is_some();
    }
    // A part of a network is trained with it.
    let is_part = facts.function(event.scope).is_some_and(|function| {
        facts.index.functions[function].class.is_some_and(|class| {
            matches!(facts.index.classes[class].kind, ClassKind::Module | ClassKind::Lightning | ClassKind::Criterion)
        })
    });
    let is_own = !usage.is_handed(module) || is_called_teacher(module);
    facts.built.contains(module) && is_own && !is_part && others.any(|(name, _)| usage.has_parameters_given(name))
}

/// A network passed to other functions may be trained there, unless its name says that it is not.
fn is_called_teacher(module: &str) -> bool {
    crate::analysis::names::words(module)
        .iter()
        .any(|word| matches!(word.as_str(), "teacher" | "ema" | "target" | "reference" | "ref" | "frozen" | "momentum"))
}
