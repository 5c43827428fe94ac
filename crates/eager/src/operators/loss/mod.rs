//! Losses.

mod cross_entropy;
mod ctc;
mod nll;
mod pieces;
mod reduction;
mod regression;

use super::facts::*;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemoryAndStack,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Single,
    Samples::Unknown,
);

pub(super) use cross_entropy::summed as summed_cross_entropy;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.cross_entropy_loss.default"],
        Facts {
            memory: Modelled(cross_entropy::rule),
            time: Time::moves("cross_entropy", Extent::Input),
            keeps: Keeps::Results,
            autocast: Autocast::Unchanged,
            samples: Samples::Loss { reduction: 3, class_weights: Some(2), ignored: Some(4) },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.nll_loss.default"],
        Facts {
            memory: Modelled(nll::rule),
            time: Time::moves("nll_loss", Extent::Input),
            keeps: Keeps::Results,
            samples: Samples::Loss { reduction: 3, class_weights: Some(2), ignored: Some(4) },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.nll_loss2d.default"],
        Facts {
            memory: Modelled(nll::rule_2d),
            launch: Launch::LocalMemory,
            time: Time::moves("nll_loss", Extent::Input),
            keeps: Keeps::Results,
            samples: Samples::Loss { reduction: 3, class_weights: Some(2), ignored: Some(4) },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.nll_loss_nd.default"],
        Facts {
            memory: Modelled(nll::rule_nd),
            time: Time::moves("nll_loss", Extent::Input),
            autocast: Autocast::Unchanged,
            samples: Samples::Loss { reduction: 3, class_weights: Some(2), ignored: Some(4) },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.mse_loss.default"],
        Facts {
            memory: Modelled(regression::mse),
            time: Time::moves("mse_loss", Extent::Input),
            keeps: Keeps::Inputs,
            promotion: Promotion::Widest,
            samples: Samples::Loss { reduction: 2, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.smooth_l1_loss.default"],
        Facts {
            memory: Modelled(regression::smooth_l1),
            time: Time::moves("mse_loss", Extent::Input),
            promotion: Promotion::Widest,
            samples: Samples::Loss { reduction: 2, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.huber_loss.default"],
        Facts {
            memory: Modelled(regression::huber),
            time: Time::moves("mse_loss", Extent::Input),
            promotion: Promotion::Widest,
            samples: Samples::Loss { reduction: 2, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.l1_loss.default"],
        Facts {
            memory: Modelled(regression::l1),
            time: Time::moves("mse_loss", Extent::Input),
            promotion: Promotion::Widest,
            samples: Samples::Loss { reduction: 2, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.binary_cross_entropy.default"],
        Facts {
            memory: Modelled(regression::binary),
            time: Time::moves("mse_loss", Extent::Input),
            autocast: Autocast::Unchanged,
            samples: Samples::Loss { reduction: 3, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.binary_cross_entropy_with_logits.default"],
        Facts {
            memory: Modelled(regression::binary_with_logits),
            time: Time::moves("mse_loss", Extent::Input),
            keeps: Keeps::Inputs,
            samples: Samples::Loss { reduction: 4, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.soft_margin_loss.default"],
        Facts {
            memory: Modelled(regression::soft_margin),
            launch: Launch::LocalMemory,
            samples: Samples::Loss { reduction: 2, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.kl_div.default"],
        Facts {
            memory: Modelled(regression::kl_div),
            samples: Samples::Loss { reduction: 2, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.ctc_loss.IntList", "aten.ctc_loss.Tensor"],
        Facts {
            memory: Modelled(ctc::rule),
            autocast: Autocast::Unchanged,
            samples: Samples::Loss { reduction: 5, class_weights: None, ignored: None },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.multilabel_margin_loss_forward.default"],
        Facts {
            memory: Modelled(regression::multilabel_margin),
            launch: Launch::LocalMemory,
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.multi_margin_loss.default"],
        Facts { memory: Modelled(regression::multi_margin), launch: Launch::LocalMemory, ..FAMILY },
    ),
    Operator::new(
        &[
            "aten.cosine_embedding_loss.default",
            "aten.hinge_embedding_loss.default",
            "aten.margin_ranking_loss.default",
            "aten.multilabel_margin_loss.default",
            "aten.poisson_nll_loss.default",
            "aten.triplet_margin_loss.default",
        ],
        Facts { launch: Launch::LocalMemory, ..FAMILY },
    ),
];
