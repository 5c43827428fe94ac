//! VF009: `torch.cuda.empty_cache()` in the training loop.

use super::group::modulus;
use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::{EventKind, ScopeId, ScopeKind};
use crate::analysis::index::ClassKind;
use crate::analysis::names;
use crate::evidence::{self, Open};
use crate::finding::{Edit, Finding};
use ruff_python_ast::Expr;

pub(super) const RULE: Rule = Rule {
    code: "VF009",
    summary: "empty_cache in the training loop",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF009.md"),
    check,
};

/// A call at every hundredth batch or less often costs next to nothing.
const RARE: f64 = 100.0;

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        for event in events {
            if !matches!(event.kind, EventKind::EmptyCache) || facts.is_in_handler(event.scope) {
                continue;
            }
            let number = facts.batch_loop(events, event.scope);
            let pass = pass_around(facts, event.scope);
            if number.is_none() && pass.is_none() {
                continue;
            }
            let is_asked_for = facts.branches(event.scope, number).iter().any(|(test, _)| {
                let text = test.map_or(String::new(), |test| facts.text(test).to_lowercase());
                text.contains("oom")
                    || text.contains("memory")
                    || text.contains("out of")
                    || text.contains("empty_cache")
                    || text.contains("except")
            });
            // A loop that looks for what fits empties the cache after each failure.
            let probes = number.and_then(|number| facts.loops[number].statement).is_some_and(|statement| {
                let text = facts.text(statement);
                text.contains("OutOfMemory") || text.contains("out of memory")
            });
            let is_rare = facts.branches(event.scope, number).iter().filter_map(|(test, _)| *test).any(|test| {
                // An interval that the file does not show is one for logs or pictures.
                let is_seldom = modulus(test)
                    .is_some_and(|modulus| facts.index.number(&modulus.right).is_none_or(|every| every >= RARE));
                is_seldom || asks_if_finite(test)
            });
            if is_asked_for || probes || is_rare {
                continue;
            }
            let place = match (number, pass) {
                (None, Some(pass)) => format!("in each {pass} pass"),
                _ => "in the training loop".into(),
            };
            let mut finding = Finding::new(RULE.code, event.range, format!("`torch.cuda.empty_cache()` {place}"))
                .leaves_open(evidence::open([(Open::Amount, evidence::runs_each_round(facts, event.scope, number))]))
                .costs("each call waits for the GPU and gives back blocks that the next step asks the driver for again; it lowers no peak")
                .advises("take it out; against fragmentation set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
            if event.statement == event.range && stands_among_others(facts, event.statement.start().into()) {
                let range = whole_line(facts.source, event.statement);
                finding = finding.fixed_by("remove the call", true, vec![Edit { range, text: String::new() }]);
            }
            findings.push(finding);
        }
    }
}

/// Whether a test asks for a loss that is no number any more: it ends a training, or skips a batch now and then.
fn asks_if_finite(test: &Expr) -> bool {
    match test {
        Expr::Call(call) => {
            names::dotted(&call.func).is_some_and(|name| matches!(names::last(&name), "isnan" | "isinf" | "isfinite"))
                || call.arguments.args.iter().any(asks_if_finite)
                || matches!(&*call.func, Expr::Attribute(method) if asks_if_finite(&method.value))
        }
        Expr::BoolOp(operation) => operation.values.iter().any(asks_if_finite),
        Expr::UnaryOp(operation) => asks_if_finite(&operation.operand),
        _ => false,
    }
}

/// The pass of a network, or of an `autograd.Function`, that a scope is in: others run it for each batch.
fn pass_around(facts: &FileFacts<'_>, scope: ScopeId) -> Option<&'static str> {
    facts.scopes_around(scope).find_map(|around| {
        let (ScopeKind::Root(Some(function)) | ScopeKind::Call(function)) = facts.scopes[around].kind else {
            return None;
        };
        let declared = &facts.index.functions[function];
        let class = &facts.index.classes[declared.class?];
        let is_function = class.bases.iter().any(|base| names::last(base) == "Function");
        let is_network = matches!(class.kind, ClassKind::Module | ClassKind::Criterion);
        match declared.name {
            "forward" if is_function || is_network => Some("forward"),
            "backward" if is_function => Some("backward"),
            _ => None,
        }
    })
}

/// Whether the line before is at the same depth: then the block is not left empty.
fn stands_among_others(facts: &FileFacts<'_>, start: usize) -> bool {
    let line = facts.source[..start].rfind('\n').map_or(0, |position| position + 1);
    let indent = &facts.source[line..start];
    if !indent.trim().is_empty() || line == 0 {
        return false;
    }
    let before = facts.source[..line - 1]
        .rsplit('\n')
        .find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    before.is_some_and(|before| {
        before.starts_with(indent)
            && !before[indent.len()..].starts_with([' ', '\t'])
            && !before.trim_end().ends_with(':')
    })
}

fn whole_line(source: &str, statement: ruff_text_size::TextRange) -> ruff_text_size::TextRange {
    let start = source[..usize::from(statement.start())].rfind('\n').map_or(0, |position| position + 1);
    let rest = &source[usize::from(statement.end())..];
    let end = usize::from(statement.end()) + rest.find('\n').map_or(rest.len(), |position| position + 1);
    // Something else on the line stays.
    let after = rest[..end - usize::from(statement.end())].trim();
    if !after.is_empty() && !after.starts_with('#') {
        return statement;
    }
    let size = |position: usize| ruff_text_size::TextSize::try_from(position).unwrap_or_default();
    ruff_text_size::TextRange::new(size(start), size(end))
}
