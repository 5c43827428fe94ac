//! The templates, packed. Most are differences from others (`make.py` says from which).

use vramfit_graph::dtype::Dtype;

macro_rules! file {
    ($($part:literal),+) => {
        (concat!($($part),+), include_bytes!(concat!("templates/", $($part,)+ ".packed")).as_slice())
    };
}

macro_rules! half_forms {
    ($name:literal halves) => {
        &[file!($name, "-bf16"), file!($name, "-fp16")]
    };
    ($name:literal) => {
        &[]
    };
}

/// The name of a file, and what is in it.
type Named = (&'static str, &'static [u8]);

macro_rules! templates {
    ($($name:literal $(+ $halves:ident)?),+ $(,)?) => {
        /// Each template with its forms that are built in half precision.
        static TEMPLATES: &[(Named, &[Named])] = &[$((file!($name), half_forms!($name $($halves)?)),)+];
    };
}

/// The template of that name, where it has forms for half precision the one of `half`.
pub(super) fn packed(name: &str, half: Option<Dtype>) -> Option<&'static [u8]> {
    let ((_, whole), halves) = TEMPLATES.iter().find(|((known, _), _)| *known == name)?;
    let form = match half {
        Some(Dtype::Bfloat16) => halves.first(),
        Some(Dtype::Float16) => halves.last(),
        _ => None,
    };
    Some(form.map_or(whole, |(_, form)| form))
}

/// The file of that name.
pub(super) fn named(name: &str) -> Option<&'static [u8]> {
    let mut files = TEMPLATES.iter().flat_map(|(whole, halves)| std::iter::once(whole).chain(*halves));
    files.find(|(known, _)| *known == name).map(|(_, file)| *file)
}

/// Whether a template has forms that are built in half precision.
pub(super) fn has_half_forms(name: &str) -> bool {
    TEMPLATES.iter().any(|((known, _), halves)| *known == name && !halves.is_empty())
}

templates!(
    "llama" + halves,
    "llama-grouped" + halves,
    "llama-tied" + halves,
    "llama-tied-grouped" + halves,
    "mistral-grouped" + halves,
    "qwen2" + halves,
    "qwen2-grouped" + halves,
    "qwen2-tied-grouped" + halves,
    "mixtral-grouped" + halves,
    "qwen3-grouped" + halves,
    "qwen3-tied-grouped" + halves,
    "phi3" + halves,
    "phi3-grouped" + halves,
    "gemma-tied" + halves,
    "gemma-tied-grouped" + halves,
    "gemma-tied-gelu" + halves,
    "gemma-tied-grouped-gelu" + halves,
    "gemma2-tied-grouped-window" + halves,
    "gemma3_text-tied-grouped-window" + halves,
    "gemma3_text-tied-grouped-window-full" + halves,
    "gemma3_text-tied-one-window" + halves,
    "gemma3_text-tied-one-window-full" + halves,
    "mistral-grouped-window" + halves,
    "mixtral-grouped-window" + halves,
    "phi3-window" + halves,
    "phi3-grouped-window" + halves,
    "starcoder2-tied-grouped-window" + halves,
    "olmo" + halves,
    "olmo-tied" + halves,
    "falcon" + halves,
    "bloom",
    "bloom-power",
    "qwen2-grouped-window" + halves,
    "qwen2-tied-grouped-window" + halves,
    "qwen3-grouped-window" + halves,
    "qwen3-tied-grouped-window" + halves,
    "opt-projected",
    "gpt_neox" + halves,
    "opt",
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
    "distilbert-sequence",
    "distilbert-masked",
    "distilbert-tokens",
    "distilbert-spans",
    "electra-sequence",
    "electra-masked",
    "electra-tokens",
    "electra-spans",
    "electra-sequence-projected",
    "electra-masked-projected",
    "electra-tokens-projected",
    "electra-spans-projected",
    "deberta-v2-sequence",
    "deberta-v2-masked",
    "deberta-v2-tokens",
    "deberta-v2-spans",
    "albert-sequence",
    "albert-sequence-new",
    "albert-sequence-no-dropout",
    "albert-sequence-no-dropout-new",
    "albert-masked",
    "albert-masked-new",
    "albert-masked-no-dropout",
    "albert-masked-no-dropout-new",
    "albert-tokens",
    "albert-tokens-new",
    "albert-tokens-no-dropout",
    "albert-tokens-no-dropout-new",
    "albert-spans",
    "albert-spans-new",
    "albert-spans-no-dropout",
    "albert-spans-no-dropout-new",
    "gpt2",
    "vit" + halves,
    "t5",
    "t5-unscaled",
    "t5-gated",
    "t5-gated-unscaled",
    "t5-no-dropout",
    "t5-unscaled-no-dropout",
    "t5-gated-no-dropout",
    "t5-gated-unscaled-no-dropout",
    "gemma2-tied-grouped-window-beyond" + halves,
    "gemma3_text-tied-grouped-window-beyond" + halves,
    "gemma3_text-tied-grouped-window-full-beyond" + halves,
    "gemma3_text-tied-one-window-beyond" + halves,
    "gemma3_text-tied-one-window-full-beyond" + halves,
    "qwen2-grouped-window-beyond" + halves,
    "qwen2-tied-grouped-window-beyond" + halves,
    "qwen3-grouped-window-beyond" + halves,
    "qwen3-tied-grouped-window-beyond" + halves,
    "mistral-grouped-window-beyond" + halves,
    "mixtral-grouped-window-beyond" + halves,
    "phi3-window-beyond" + halves,
    "phi3-grouped-window-beyond" + halves,
    "starcoder2-tied-grouped-window-beyond" + halves,
);
