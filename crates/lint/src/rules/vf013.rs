//! VF013: activations that could work in place. A note.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::names;
use crate::finding::{Edit, Finding, Severity};

pub(super) const RULE: Rule = Rule {
    code: "VF013",
    summary: "an activation that could work in place",
    is_default: false,
    page: include_str!("../../../../docs/lint/VF013.md"),
    check,
};

const ACTIVATIONS: [&str; 12] = [
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "ELU",
    "SELU",
    "CELU",
    "SiLU",
    "Hardswish",
    "Hardtanh",
    "Mish",
    "Hardsigmoid",
    "RReLU",
];
const FUNCTIONS: [&str; 9] = ["relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "hardswish", "mish"];

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    if facts.index.has_torch {
        let mut search = Search { facts, findings };
        search.visit_body(facts.body);
    }
}

struct Search<'f, 'a, 'o> {
    facts: &'f FileFacts<'a>,
    findings: &'o mut Vec<Finding>,
}

impl<'a> Visitor<'a> for Search<'_, 'a, '_> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression
            && self.could_be_in_place(call)
        {
            let name = self.facts.text(&*call.func);
            let end = call.range().end() - TextSize::from(1);
            let separator = if call.arguments.is_empty() { "" } else { ", " };
            let edit = Edit { range: TextRange::empty(end), text: format!("{separator}inplace=True") };
            self.findings.push(
                Finding::new(RULE.code, call.range(), format!("`{name}` could work in place"))
                    .costs("saves a buffer the size of its output for a moment in training (what backward needs is kept either way), and in inference")
                    .advises("`inplace=True`, unless its input is used again")
                    .rated(Severity::Note)
                    .fixed_by("add `inplace=True`", false, vec![edit]),
            );
        }
        visitor::walk_expr(self, expression);
    }
}

impl Search<'_, '_, '_> {
    fn could_be_in_place(&self, call: &ExprCall) -> bool {
        if call.arguments.find_keyword("inplace").is_some() {
            return false;
        }
        let Some(path) = names::dotted(&call.func).and_then(|name| self.facts.index.resolve(&name)) else {
            return false;
        };
        let last = names::last(&path);
        path.starts_with("torch.nn.functional") && FUNCTIONS.contains(&last)
            || path.starts_with("torch.nn.") && ACTIVATIONS.contains(&last)
    }
}
