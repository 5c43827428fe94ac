//! VF010: a checkpoint is loaded onto the GPU beside the model.

use super::freed_before_move::is_freed_before_move;
use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::device::Device;
use crate::analysis::facts::{Event, EventKind};
use crate::analysis::index::ClassKind;
use crate::analysis::names;
use crate::evidence::{self, Open};
use crate::finding::{Edit, Finding};
use crate::recorded::Subject;
use ruff_python_ast::Expr;
use ruff_text_size::{Ranged, TextRange};

pub(super) const RULE: Rule = Rule {
    code: "VF010",
    summary: "a checkpoint is loaded onto the GPU beside the model",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF010.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for event in facts.roots.iter().flatten() {
        let EventKind::Load { call, onto, has_location, bound_to } = &event.kind else { continue };
        let at = call.range().start().to_u32();
        let goes_into_model = facts.roots.iter().flatten().any(|other| match &other.kind {
            EventKind::LoadState { from, into, .. } => {
                let frees = |into: &str| is_freed_before_move(facts, into, event, other, bound_to.as_deref());
                // A network under construction is not on the GPU yet.
                let is_constructed = is_under_construction(facts, into.as_deref(), event, other, bound_to.as_deref());
                let is_own = is_of_own_class(facts, into.as_deref(), other);
                *from == at && !is_constructed && !is_own && !into.as_deref().is_some_and(frees)
            }
            _ => false,
        });
        let location = call.arguments.find_argument_value("map_location", 1);
        let is_gpu = match onto {
            Device::Gpu => true,
            Device::Cpu => false,
            Device::Unknown => {
                let text = location.map_or(String::new(), |location| facts.text(location).to_lowercase());
                let is_elsewhere = facts.source.contains("torch_xla") || facts.source.contains("BytesIO");
                let is_device = ["device", "rank", "gpu", "cuda"].iter().any(|word| text.contains(word))
                    || location.is_some_and(|location| is_destination(facts, location));
                let is_default = location.is_some_and(|location| is_cpu_by_default(facts, event, location));
                !is_elsewhere && !is_default && if *has_location { is_device } else { facts.index.has_gpu }
            }
        };
        if !goes_into_model || !is_gpu || has_optimizers_alone(facts, at) {
            continue;
        }
        let message = if *has_location {
            "a checkpoint is loaded onto the GPU, where the model already has its own copy"
        } else {
            "a checkpoint is loaded without `map_location`: tensors saved on a GPU go there, beside the model's own"
        };
        let mut finding = Finding::new(RULE.code, event.range, message)
            .about(Subject::Made)
            .leaves_open(evidence::open([(Open::Place, *has_location || is_placed(facts, at))]))
            .costs("a second copy of all weights (and of the optimizer's state, if saved) on the GPU while it lives")
            .advises("`map_location=\"cpu\"`: load_state_dict copies to where the parameters are");
        let text = facts.text(*call);
        finding = match location {
            Some(location) => finding.fixed_by(
                "load onto the CPU",
                true,
                vec![Edit { range: location.range(), text: "\"cpu\"".into() }],
            ),
            None if text.ends_with(')') && !text.ends_with(",)") && !text.contains('\n') => {
                let end = call.range().end() - ruff_text_size::TextSize::from(1);
                finding.fixed_by(
                    "load onto the CPU",
                    true,
                    vec![Edit { range: TextRange::empty(end), text: ", map_location=\"cpu\"".into() }],
                )
            }
            None => finding,
        };
        findings.push(finding);
    }
}

/// Whether the file places what takes the checkpoint over. A training that goes on has its optimizer's state beside its network.
fn is_placed(facts: &FileFacts<'_>, load: u32) -> bool {
    facts.roots.iter().flatten().any(|event| match &event.kind {
        EventKind::LoadState { from, into, is_optimizer } if *from == load => {
            *is_optimizer || into.as_deref().is_some_and(|into| evidence::is_placed(facts, into))
        }
        _ => false,
    })
}

/// Whether a network fills itself or its parts in its constructor, which moves nothing and keeps nothing of the checkpoint.
fn is_under_construction(
    facts: &FileFacts<'_>,
    into: Option<&str>,
    load: &Event<'_>,
    copy: &Event<'_>,
    bound_to: Option<&str>,
) -> bool {
    let Some(into) = into else { return false };
    let Some(function) = facts.function(copy.scope) else { return false };
    let declared = &facts.index.functions[function];
    if declared.name != "__init__" {
        return false;
    }
    if into == "self" {
        return true;
    }
    let is_network = declared
        .class
        .is_some_and(|class| matches!(facts.index.classes[class].kind, ClassKind::Module | ClassKind::Lightning));
    let before = &facts.source[TextRange::new(declared.range.start(), copy.range.start())];
    let is_local = bound_to.is_none_or(|name| !name.contains('.')) && facts.function(load.scope) == Some(function);
    is_network && is_local && into.starts_with("self.") && !before.contains(".to(") && !before.contains(".cuda(")
}

/// Whether a network fills itself in a method of its own, and its class moves nothing: nothing shows where the network is.
fn is_of_own_class(facts: &FileFacts<'_>, into: Option<&str>, copy: &Event<'_>) -> bool {
    let Some(function) = facts.function(copy.scope).filter(|_| into == Some("self")) else { return false };
    let class =
        facts.index.functions[function].class.map(|class| facts.source[facts.index.classes[class].range].to_string());
    class.is_some_and(|text| !text.contains(".to(") && !text.contains(".cuda("))
}

/// Whether a parameter says where the checkpoint goes, and says the CPU unless a caller wants something else. Where the function
/// moves its network there too, that parameter is for a GPU.
fn is_cpu_by_default(facts: &FileFacts<'_>, load: &Event<'_>, location: &Expr) -> bool {
    let Some(function) = facts.function(load.scope) else { return false };
    let Some(name) = names::dotted(location) else { return false };
    let declared = &facts.index.functions[function];
    let text = &facts.source[declared.range];
    if text.contains(".to(") || text.contains(&format!(", {name})")) || text.contains(&format!("device={name}")) {
        return false;
    }
    declared.parameters.iter_non_variadic_params().any(|parameter| {
        parameter.name().as_str() == name
            && matches!(parameter.default(), Some(Expr::StringLiteral(text)) if text.value.to_str() == "cpu")
    })
}

/// Whether several optimizers, and nothing else, take over the parts of a checkpoint: then no tensor of it is left.
fn has_optimizers_alone(facts: &FileFacts<'_>, load: u32) -> bool {
    let parts: Vec<(&str, bool)> = facts
        .roots
        .iter()
        .flatten()
        .filter_map(|event| match &event.kind {
            EventKind::LoadState { from, into, is_optimizer } if *from == load => {
                Some((into.as_deref().unwrap_or_default(), *is_optimizer))
            }
            _ => None,
        })
        .collect();
    parts.iter().all(|(_, is_optimizer)| *is_optimizer) && parts.iter().any(|(into, _)| *into != parts[0].0)
}

/// Whether a variable says where networks and batches go: `.to(where)`.
fn is_destination(facts: &FileFacts<'_>, location: &Expr) -> bool {
    let is_variable = names::access_path(location).is_some();
    is_variable
        && ["", "device="].into_iter().any(|key| facts.source.contains(&format!(".to({key}{})", facts.text(location))))
}
