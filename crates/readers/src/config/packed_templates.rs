//! The templates, packed.

use vramfit_graph::dtype::Dtype;

macro_rules! templates {
    ($($name:literal $(+ $bf16:literal + $fp16:literal)?),+ $(,)?) => {
        /// The template of that name, where it has forms for half precision the one of `half`.
        pub(super) fn packed(name: &str, half: Option<Dtype>) -> Option<&'static [u8]> {
            match (name, half) {
                $($(($name, Some(Dtype::Bfloat16)) => Some(include_bytes!(concat!("templates/", $name, "-", $bf16, ".packed"))),
                ($name, Some(Dtype::Float16)) => Some(include_bytes!(concat!("templates/", $name, "-", $fp16, ".packed"))),)?
                ($name, _) => Some(include_bytes!(concat!("templates/", $name, ".packed"))),)+
                _ => None,
            }
        }

        /// Whether a template has forms that are built in half precision.
        pub(super) fn has_half_forms(name: &str) -> bool {
            match name {
                $($($name => [$bf16, $fp16].len() == 2,)?)+
                _ => false,
            }
        }
    };
}
templates!(
    "llama" + "bf16" + "fp16",
    "llama-grouped" + "bf16" + "fp16",
    "llama-tied" + "bf16" + "fp16",
    "llama-tied-grouped" + "bf16" + "fp16",
    "mistral-grouped" + "bf16" + "fp16",
    "mixtral-grouped" + "bf16" + "fp16",
    "qwen2" + "bf16" + "fp16",
    "qwen2-grouped" + "bf16" + "fp16",
    "qwen2-tied-grouped" + "bf16" + "fp16",
    "qwen3-grouped" + "bf16" + "fp16",
    "qwen3-tied-grouped" + "bf16" + "fp16",
    "phi3" + "bf16" + "fp16",
    "phi3-grouped" + "bf16" + "fp16",
    "gemma-tied" + "bf16" + "fp16",
    "gemma-tied-grouped" + "bf16" + "fp16",
    "gpt_neox" + "bf16" + "fp16",
    "vit" + "bf16" + "fp16",
    "bert-sequence",
    "bert-masked",
    "bert-tokens",
    "bert-spans",
    "roberta-sequence",
    "roberta-masked",
    "roberta-tokens",
    "roberta-spans",
    "xlm-roberta-sequence",
    "xlm-roberta-masked",
    "xlm-roberta-tokens",
    "xlm-roberta-spans",
    "opt",
    "distilbert-sequence",
    "distilbert-masked",
    "distilbert-tokens",
    "distilbert-spans",
    "electra-sequence",
    "electra-sequence-projected",
    "electra-masked",
    "electra-masked-projected",
    "electra-tokens",
    "electra-tokens-projected",
    "electra-spans",
    "electra-spans-projected",
    "deberta-v2-sequence",
    "deberta-v2-masked",
    "deberta-v2-tokens",
    "deberta-v2-spans",
    "gpt2",
    "t5",
    "t5-unscaled",
    "t5-gated",
    "t5-gated-unscaled",
    "t5-no-dropout",
    "t5-unscaled-no-dropout",
    "t5-gated-no-dropout",
    "t5-gated-unscaled-no-dropout",
);
