//! The model in the forms that plans may train it in.

use vramfit_adapters::{
    AttentionPlace, FineTuning, FusedAttention, Lora, Quantize, Refusal, Targets, fine_tuned, output_layer,
    with_fused_attention,
};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Adapters {
    /// What the model as given trains.
    #[default]
    AsGiven,
    /// Adapters on the frozen model.
    Lora,
    /// Adapters on the frozen model with quantised weights.
    Qlora,
}

/// Models with adapters, made from the one that is planned for.
#[derive(Debug, Default)]
pub struct OtherForms {
    lora: Option<Model>,
    qlora: Option<Model>,
    how: FineTuning,
    output: Option<String>,
    why_not: Option<String>,
    fused: Option<FusedAttention>,
    fused_in_place: Option<Model>,
}

impl OtherForms {
    /// The forms of `model`, which the flags have made of `plain`. `lora` are the adapters that it has by them.
    pub fn of(plain: &Model, model: &Model, lora: Option<&Lora>, has_bfloat16: bool) -> OtherForms {
        let compute = if has_bfloat16 { Dtype::Bfloat16 } else { Dtype::Float16 };
        let with = |targets: Targets| Lora { rank: Lora::DEFAULT_RANK, targets, dropout: 0 };
        let candidates = match lora {
            Some(lora) => vec![lora.clone()],
            None => vec![with(Targets::Default), with(Targets::AllLinear)],
        };
        let mut why_not = None;
        for lora in candidates {
            let quantize = Quantize::Nf4 { compute };
            let plain_adapters = FineTuning { lora: Some(lora.clone()), quantize: None };
            let quantized = FineTuning { lora: Some(lora), quantize: Some(quantize) };
            match fine_tuned(plain, &plain_adapters) {
                Ok(adapted) if lora_is_new(model) && adapts_only(&adapted, output_layer(plain)) => {
                    why_not = Some(format!(
                        "the only linear layer is `{}`, which makes the output: adapters leave all weights before it as they are",
                        output_layer(plain).unwrap_or_default()
                    ));
                }
                Ok(adapted) => {
                    return OtherForms {
                        lora: lora_is_new(model).then_some(adapted),
                        qlora: fine_tuned(plain, &quantized).ok(),
                        how: quantized,
                        output: output_layer(plain).map(str::to_owned),
                        ..OtherForms::default()
                    };
                }
                Err(refusal @ Refusal::NoDefaultTargets { .. }) => why_not = Some(refusal.to_string()),
                Err(refusal) => {
                    why_not = Some(refusal.to_string());
                    break;
                }
            }
        }
        OtherForms { why_not, ..OtherForms::default() }
    }

    /// With fused attention; `rewrite` puts activations in place.
    #[must_use]
    pub fn with_fused_attention(self, model: &Model, rewrite: impl Fn(&Model) -> Option<Model>) -> OtherForms {
        let fused = with_fused_attention(model);
        let fused_in_place = fused.as_ref().and_then(|fused| rewrite(&fused.model));
        OtherForms { fused, fused_in_place, ..self }
    }
}

/// Whether adapters would be new to a model.
fn lora_is_new(model: &Model) -> bool {
    model.fine_tuning.lora.is_empty()
}

/// Whether only this layer of a model has adapters.
fn adapts_only(adapted: &Model, layer: Option<&str>) -> bool {
    let mut adapters = adapted
        .parameters
        .iter()
        .filter_map(|weight| weight.names.first()?.split_once(".lora_A."))
        .map(|(path, _)| path);
    adapters.all(|path| Some(path) == layer)
}

/// The forms of a model, borrowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forms<'m>(Option<&'m OtherForms>);

impl<'m> From<&'m OtherForms> for Forms<'m> {
    fn from(forms: &'m OtherForms) -> Forms<'m> {
        Forms(Some(forms))
    }
}

impl<'m> Forms<'m> {
    /// The model that trains these adapters; `None` for the model as given.
    pub fn model(&self, adapters: Adapters) -> Option<&'m Model> {
        match adapters {
            Adapters::AsGiven => None,
            Adapters::Lora => self.0?.lora.as_ref(),
            Adapters::Qlora => self.0?.qlora.as_ref(),
        }
    }

    /// The model with fused attention, and activations in place if asked for and possible.
    pub fn fused(&self, is_in_place: bool) -> Option<&'m Model> {
        let forms = self.0?;
        let plain = || forms.fused.as_ref().map(|fused| &fused.model);
        forms.fused_in_place.as_ref().filter(|_| is_in_place).or_else(plain)
    }

    /// Where the model writes attention itself.
    pub fn attention_places(&self) -> &'m [AttentionPlace] {
        self.0.and_then(|forms| forms.fused.as_ref()).map_or(&[], |fused| &fused.places)
    }

    /// The adapters.
    pub fn lora(&self) -> Option<&'m Lora> {
        self.0?.how.lora.as_ref()
    }

    /// How weights are quantised.
    pub fn quantize(&self) -> Option<Quantize> {
        self.0?.how.quantize
    }

    /// The layer that makes the output, which is never quantised.
    pub fn output(&self) -> Option<&'m str> {
        self.0?.output.as_deref()
    }

    /// Why the model gets no adapters.
    pub fn why_not(&self) -> Option<&'m str> {
        self.0?.why_not.as_deref()
    }
}
