//! VF016: a growing list of GPU tensors.

use super::kept::{What, kept, takes_method};
use super::vf001::shorten;
use crate::analysis::Facts;
use crate::finding::{Edit, Finding};
use ruff_text_size::{Ranged, TextRange};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    for kept in kept(facts).into_iter().filter(|kept| kept.what == What::Detached) {
        let message = format!(
            "`{}` grows by a GPU tensor each iteration: `{}`",
            kept.container,
            shorten(facts.text(kept.expression))
        );
        let mut finding = Finding::new("VF016", kept.statement, message)
            .costs("each iteration: the tensor, 512 B on the GPU at least, until the list is let go")
            .advises("move it: `.cpu()`, or `.item()` for a number; or add it up in one tensor");
        if takes_method(kept.expression) {
            let edit = Edit { range: TextRange::empty(kept.expression.end()), text: ".cpu()".into() };
            finding = finding.fixed_by("add `.cpu()`", false, vec![edit]);
        }
        findings.push(finding);
    }
}
