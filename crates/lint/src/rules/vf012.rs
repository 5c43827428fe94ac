//! VF012: full-precision training where autocast serves; `.half()` training without a scaler. A note.

use std::collections::HashSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::{EventKind, Gradients};
use crate::analysis::names;
use crate::finding::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    code: "VF012",
    summary: "full-precision training, or half precision without a scaler",
    is_default: false,
    page: include_str!("../../../../docs/lint/VF012.md"),
    check,
};

/// Words which show that the author has chosen a precision.
const PRECISION_WORDS: [&str; 11] = [
    "autocast",
    "half()",
    "bfloat16",
    "float16",
    "GradScaler",
    "amp",
    "precision",
    "fp16",
    "bf16",
    "Accelerator",
    "deepspeed",
];

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    let trains = facts.roots.iter().flatten().any(|event| matches!(event.kind, EventKind::Backward { .. }));
    if !trains || !facts.index.has_gpu {
        return;
    }
    let words: HashSet<&str> = facts
        .source
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '(' && letter != ')')
        .collect();
    let is_chosen = PRECISION_WORDS
        .iter()
        .any(|word| if *word == "amp" { words.contains("amp") } else { facts.source.contains(word) });
    if !is_chosen {
        full_precision(facts, findings);
    } else if !facts.source.contains("Scaler") && !facts.source.contains("autocast") {
        let mut search = Halves { findings };
        search.visit_body(facts.body);
    }
}

fn full_precision(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        let mut reported = HashSet::new();
        for event in events {
            if let EventKind::Forward { module, .. } = &event.kind
                && event.gradients == Gradients::On
                && let Some(number) = facts.batch_loop(events, event.scope)
                && reported.insert(number)
            {
                findings.push(
                    Finding::new(RULE.code, event.range, format!("`{module}` is trained in full precision"))
                        .costs("activations of matrix products and convolutions take 4 B a number where bfloat16 takes 2")
                        .advises("run forward and loss under `torch.autocast(\"cuda\", dtype=torch.bfloat16)`; results round differently")
                        .rated(Severity::Note),
                );
            }
        }
    }
}

struct Halves<'o> {
    findings: &'o mut Vec<Finding>,
}

impl<'a> Visitor<'a> for Halves<'_> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression
            && is_half_model(call)
        {
            self.findings.push(
                Finding::new(RULE.code, call.range(), "the model is trained in float16 without a gradient scaler")
                    .costs("saves memory, but small gradients become zero: float16 ends at 6e-8")
                    .advises("use bfloat16, or autocast with a GradScaler")
                    .rated(Severity::Note),
            );
        }
        visitor::walk_expr(self, expression);
    }
}

fn is_half_model(call: &ExprCall) -> bool {
    let Expr::Attribute(method) = &*call.func else { return false };
    if method.attr.as_str() != "half" || !call.arguments.args.is_empty() {
        return false;
    }
    let mut owner = &*method.value;
    while let Expr::Call(inner) = owner {
        owner = match &*inner.func {
            Expr::Attribute(chained) => &chained.value,
            constructed => {
                return names::dotted(constructed)
                    .is_some_and(|name| names::last(&name).starts_with(char::is_uppercase) || names::is_model(&name));
            }
        };
    }
    names::access_path(owner).is_some_and(|path| names::is_model(&path))
}
