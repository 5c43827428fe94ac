//! What the code around a forward pass says of it: what it gets, and where its network is.

use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind};
use crate::analysis::names::{self, Role};

/// Whether a network gets what is named as data for evaluations, and nothing for training: `net(x_test)`.
pub(super) fn gets_test_data(facts: &FileFacts<'_>, event: &Event<'_>) -> bool {
    let call = &facts.source[event.range];
    let given = call.split_once('(').map_or("", |(_, given)| given);
    let words = given.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let roles: Vec<Role> = words.filter(|word| !word.is_empty()).map(names::role).collect();
    roles.contains(&Role::Evaluation) && !roles.contains(&Role::Train)
}

/// Whether the function itself asks for gradients of inputs; what it calls may switch parameters on and off.
pub(super) fn wants_inputs_here(facts: &FileFacts<'_>, events: &[Event<'_>], event: &Event<'_>) -> bool {
    let own = facts.function_scope(event.scope);
    let here = events.iter().filter(|other| facts.function_scope(other.scope) == own);
    here.into_iter().any(|other| matches!(other.kind, EventKind::RequiresGrad | EventKind::Grad { .. }))
}

/// Whether the file makes the network, or is a script, and names no device but the CPU, and no framework that could move it: then it stays on the CPU.
pub(super) fn stays_on_cpu(facts: &FileFacts<'_>, event: &Event<'_>, module: &str) -> bool {
    const FRAMEWORKS: [&str; 7] = ["cuda", "gpu", "Accelerator", "Trainer", "Fabric", "lightning", "deepspeed"];
    let names_any = |text: &str, names: &[&str]| names.iter().any(|name| text.contains(name));
    // A script hands no network over from elsewhere, but one that was saved whole is where it was.
    let is_script = facts.function(event.scope).is_none() && !facts.source.contains("torch.load(");
    let is_own = is_script || facts.built.contains(module);
    if !is_own || names_any(facts.source, &FRAMEWORKS) {
        return false;
    }
    let quoted = |text: &str| [text.replace('Q', "\""), text.replace('Q', "'")];
    let sets = |form: &str| quoted(form).iter().any(|form| facts.source.contains(form));
    // The one device that the file knows is the CPU.
    if sets("device = torch.device(QcpuQ)") || sets("device = QcpuQ") {
        return true;
    }
    let forms = ["torch.device(QcpuQ)", ".to(QcpuQ)", "device=QcpuQ"];
    let text = forms.into_iter().flat_map(quoted).fold(facts.source.to_string(), |text, form| text.replace(&form, ""));
    let text = without_devices_of_others(&text);
    !names_any(&text, &[".to(", "device"])
}

/// A text without `.to(x.device)`, which follows another tensor and goes nowhere else, and without devices of other libraries.
fn without_devices_of_others(text: &str) -> String {
    const ATTRIBUTE: &str = ".device";
    let (mut left, mut done) = (String::with_capacity(text.len()), 0);
    for (at, _) in text.match_indices(ATTRIBUTE) {
        let own = &text[done..at];
        let owner = own.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
        if matches!(owner, "torch" | "th" | "self" | "args" | "opt" | "cfg" | "config") {
            continue;
        }
        let before = &own[..own.len() - owner.len()];
        left += before.strip_suffix(".to(").or_else(|| before.strip_suffix("device=")).unwrap_or(before);
        done = at + ATTRIBUTE.len();
    }
    left + &text[done..]
}
