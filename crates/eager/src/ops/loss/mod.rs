//! Losses.

mod cross_entropy;
mod nll;
mod pieces;
mod regression;

use super::{Call, Context, Outcome, Rule, Unmodelled};

pub(super) use pieces::cast;

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.cross_entropy_loss.default" => cross_entropy::rule,
        "aten.nll_loss.default" => nll::rule,
        "aten.nll_loss2d.default" => nll::rule_2d,
        "aten.nll_loss_nd.default" => nll::rule_nd,
        "aten.mse_loss.default" => regression::mse,
        "aten.smooth_l1_loss.default" => regression::smooth_l1,
        "aten.huber_loss.default" => regression::huber,
        "aten.l1_loss.default" => regression::l1,
        "aten.binary_cross_entropy.default" => regression::binary,
        "aten.binary_cross_entropy_with_logits.default" => regression::binary_with_logits,
        "aten.soft_margin_loss.default" => regression::soft_margin,
        "aten.kl_div.default" => regression::kl_div,
        "aten.multi_margin_loss.default" => regression::multi_margin,
        _ => return None,
    })
}

/// How the losses of elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    None,
    Mean,
    Sum,
}

impl Reduction {
    fn of(call: &Call<'_>, index: usize) -> Result<Reduction, Unmodelled> {
        match call.int(index) {
            Ok(0) => Ok(Reduction::None),
            Ok(1) => Ok(Reduction::Mean),
            Ok(2) => Ok(Reduction::Sum),
            _ if call.is_none(index) => Ok(Reduction::Mean),
            _ => Err(Unmodelled),
        }
    }
}
