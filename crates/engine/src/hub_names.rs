//! Models of the Hugging Face Hub that are built in under another name.

/// Names on the Hub without `-Instruct` and the like, and the built-in models of the same sizes.
const NAMES: [(&str, &str); 27] = [
    ("EleutherAI/pythia-160m", "pythia-160m"),
    ("FacebookAI/roberta-base", "roberta-base"),
    ("FacebookAI/roberta-large", "roberta-large"),
    ("Qwen/Qwen2.5-0.5B", "qwen2-0.5b"),
    ("Qwen/Qwen2.5-1.5B", "qwen2-1.5b"),
    ("Qwen/Qwen2.5-3B", "qwen2-3b"),
    ("Qwen/Qwen2.5-7B", "qwen2-7b"),
    ("Qwen/Qwen3-0.6B", "qwen3-0.6b"),
    ("distilbert/distilbert-base-uncased", "distilbert"),
    ("google-bert/bert-base-uncased", "bert-base"),
    ("google-bert/bert-large-uncased", "bert-large"),
    ("google/gemma-2b", "gemma-2b"),
    ("google/gemma-7b", "gemma-7b"),
    ("meta-llama/Llama-2-13b-hf", "llama-13b"),
    ("meta-llama/Llama-2-7b-hf", "llama-7b"),
    ("meta-llama/Llama-3.1-70B", "llama-70b"),
    ("meta-llama/Llama-3.1-8B", "llama-8b"),
    ("meta-llama/Llama-3.2-1B", "llama-1b"),
    ("meta-llama/Llama-3.2-3B", "llama-3b"),
    ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"),
    ("microsoft/phi-2", "phi-2"),
    ("mistralai/Mistral-7B-v0.3", "mistral-7b"),
    ("openai-community/gpt2", "gpt2"),
    ("openai-community/gpt2-large", "gpt2-large"),
    ("openai-community/gpt2-medium", "gpt2-medium"),
    ("openai-community/gpt2-xl", "gpt2-xl"),
    ("openai/whisper-tiny", "whisper-tiny"),
];

/// The built-in model for a name on the Hub. A chat version has the sizes of its base.
pub fn built_in_name(id: &str) -> Option<&'static str> {
    let find = |id: &str| NAMES.iter().find(|(hub, _)| hub.eq_ignore_ascii_case(id)).map(|(_, name)| *name);
    find(id).or_else(|| {
        let (base, _) = id.char_indices().find_map(|(at, _)| {
            let (base, ending) = id.split_at(at);
            ["-instruct", "-it", "-chat-hf"]
                .iter()
                .any(|chat| ending.eq_ignore_ascii_case(chat))
                .then_some((base, ending))
        })?;
        // Chat versions of Llama 2 are named after the size, without `-hf`.
        find(base).or_else(|| find(&format!("{base}-hf")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::built_in;

    #[test]
    fn every_name_leads_to_a_built_in_model() {
        let known = built_in().unwrap();
        for (hub, name) in NAMES {
            assert!(known.iter().any(|model| model.row.name == name), "{hub}: {name}");
        }
    }

    #[test]
    fn chat_versions_have_the_sizes_of_their_base() {
        assert_eq!(built_in_name("meta-llama/Llama-3.2-1B"), Some("llama-1b"));
        assert_eq!(built_in_name("meta-llama/llama-3.2-1b-instruct"), Some("llama-1b"));
        assert_eq!(built_in_name("meta-llama/Llama-2-7b-chat-hf"), Some("llama-7b"));
        assert_eq!(built_in_name("google/gemma-2b-it"), Some("gemma-2b"));
        for other in ["meta-llama/Llama-3.2-11B-Vision", "gpt2", "x/gpt2", "Qwen/Qwen2-0.5B", "-it", ""] {
            assert_eq!(built_in_name(other), None, "{other}");
        }
    }
}
