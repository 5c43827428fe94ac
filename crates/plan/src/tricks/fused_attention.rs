//! Fused attention: `scaled_dot_product_attention` keeps no scores for every pair of positions.

use vramfit_adapters::{AttentionPlace, PlaceMask};

use super::role::Role;
use super::trick::Trick;
use crate::forms::Adapters;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// Where the models of the transformers library are.
const TRANSFORMERS: &str = "site-packages/transformers/";

pub(crate) struct FusedAttention;

impl Trick for FusedAttention {
    fn name(&self) -> &'static str {
        "fused attention"
    }

    fn setting(&self) -> &'static str {
        "fused-attention"
    }

    fn role(&self) -> Role {
        Role::Free { bytes_per_weight: 0 }
    }

    fn conflicts(&self) -> &'static str {
        "code that reads the attention's weights"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let places = bench.forms.attention_places();
        if start.has_fused_attention || bench.model.fine_tuning.has_fused_attention {
            return Err("attention is fused already".to_owned());
        }
        if places.is_empty() {
            return Err("the model writes no attention of products and a softmax itself".to_owned());
        }
        if start.adapters != Adapters::AsGiven {
            return Err("the model is frozen, and its adapters have no attention".to_owned());
        }
        if places.iter().any(|place| place.file.contains(TRANSFORMERS)) {
            return Err(
                "the model is one of transformers: build it with attn_implementation=\"sdpa\" and capture it again"
                    .to_owned(),
            );
        }
        Ok(vec![Setup { has_fused_attention: true, ..start.clone() }])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.has_fused_attention = from.has_fused_attention && setup.adapters == Adapters::AsGiven;
    }

    fn describe(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        if !setup.has_fused_attention {
            return "attention as the model writes it".to_owned();
        }
        let names: Vec<String> = bench.forms.attention_places().iter().map(lines_of).collect();
        format!("scaled_dot_product_attention in {}", names.join(", "))
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        setup.has_fused_attention.then(|| {
            "edit these lines by hand; other random numbers drop scores, and results differ by rounding".to_owned()
        })
    }

    fn write(&self, bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if !setup.has_fused_attention {
            return;
        }
        for place in bench.forms.attention_places() {
            let dropout = if place.has_dropout { ", dropout_p=p if self.training else 0.0" } else { "" };
            let mask = match place.mask {
                PlaceMask::None => "",
                PlaceMask::Added => ", attn_mask=mask",
                PlaceMask::Filled => ", attn_mask=mask.logical_not()",
            };
            let lines = &mut code.before_model;
            lines.line(
                0,
                &format!("# In {} ({}), instead of the products and the softmax:", lines_of(place), place.function),
            );
            lines.line(0, "#     y = torch.nn.functional.scaled_dot_product_attention(");
            lines.line(0, &format!("#         q, k, v{mask}{dropout}, scale=scale)"));
        }
    }
}

/// Such as `model.py:12-16`.
fn lines_of(place: &AttentionPlace) -> String {
    let (first, last) = place.lines;
    let file = place.file.rsplit('/').next().unwrap_or(&place.file);
    if first == last { format!("{file}:{first}") } else { format!("{file}:{first}-{last}") }
}
