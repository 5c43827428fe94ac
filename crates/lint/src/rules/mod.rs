//! The rules, one file each. A new rule is a file here, its page in `docs/lint/`, and a line in `RULES`.

mod kept;
mod vf001;
mod vf002;
mod vf003;
mod vf004;
mod vf005;
mod vf006;
mod vf007;
mod vf008;
mod vf009;
mod vf010;
mod vf011;
mod vf012;
mod vf013;
mod vf014;
mod vf015;
mod vf016;

use crate::analysis::Facts;
use crate::finding::Finding;

/// A rule.
pub struct Rule {
    /// Its code.
    pub code: &'static str,
    /// What it finds, in a line.
    pub summary: &'static str,
    /// Whether it is on unless said otherwise.
    pub is_default: bool,
    /// Its page.
    pub page: &'static str,
    /// Finds.
    pub(crate) check: fn(&Facts<'_>, &mut Vec<Finding>),
}

macro_rules! rule {
    ($code:literal, $module:ident, $default:literal, $summary:literal) => {
        Rule {
            code: $code,
            summary: $summary,
            is_default: $default,
            page: include_str!(concat!("../../../../docs/lint/", $code, ".md")),
            check: $module::check,
        }
    };
}

/// All rules, by code.
pub const RULES: [Rule; 16] = [
    rule!("VF001", vf001, true, "a loss is kept with its graph"),
    rule!("VF002", vf002, true, "a tensor with its graph is kept across iterations"),
    rule!("VF003", vf003, true, "evaluation without no_grad or inference_mode"),
    rule!("VF004", vf004, true, "an evaluation loader with a huge batch"),
    rule!("VF005", vf005, true, "gradients are zeroed in place, or never"),
    rule!("VF006", vf006, true, "zero_grad after the forward pass"),
    rule!("VF007", vf007, true, "a graph is retained for no second backward pass"),
    rule!("VF008", vf008, false, "the last step's outputs live through the next forward pass"),
    rule!("VF009", vf009, true, "empty_cache in the training loop"),
    rule!("VF010", vf010, true, "a checkpoint is loaded onto the GPU beside the model"),
    rule!("VF011", vf011, true, "a retry inside the handler of an out-of-memory error"),
    rule!("VF012", vf012, false, "full-precision training, or half precision without a scaler"),
    rule!("VF013", vf013, false, "an activation that could work in place"),
    rule!("VF014", vf014, true, "gradient accumulation done wrong"),
    rule!("VF015", vf015, true, "a whole data set on the GPU, or tensors made on the CPU and moved in the loop"),
    rule!("VF016", vf016, true, "a growing list of GPU tensors"),
];

/// The rule of that code.
pub fn find(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.code == code)
}
