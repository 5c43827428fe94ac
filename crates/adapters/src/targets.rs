//! Which layers get adapters.

use vramfit_graph::model::Model;

use crate::Refusal;

/// Which linear layers get adapters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Targets {
    /// Those that peft adapts by default in models of this kind.
    #[default]
    Default,
    /// All, in a model of transformers but the output embedding.
    AllLinear,
    /// Those whose name, or the end of whose name after a dot, is one of these.
    Named(Vec<String>),
}

/// peft's defaults, by how the class of a transformers model begins; longer beginnings come first.
const DEFAULTS: &[(&str, &[&str])] = &[
    ("Albert", &[]),
    ("Bart", &["q_proj", "v_proj"]),
    ("Bert", &["query", "value"]),
    ("Bloom", &["query_key_value"]),
    ("CodeGen", &["qkv_proj"]),
    ("DebertaV2", &["query_proj", "value_proj"]),
    ("Deberta", &["in_proj"]),
    ("Electra", &["query", "value"]),
    ("Falcon", &["query_key_value"]),
    ("GPT2", &["c_attn"]),
    ("GPTBigCode", &["c_attn"]),
    ("GPTJ", &["q_proj", "v_proj"]),
    ("GPTNeoX", &["query_key_value"]),
    ("GPTNeo", &["q_proj", "v_proj"]),
    ("Gemma3n", &[]),
    ("Gemma", &["q_proj", "v_proj"]),
    ("LayoutLMFor", &["query", "value"]),
    ("LayoutLMModel", &["query", "value"]),
    ("Llama", &["q_proj", "v_proj"]),
    ("MT5", &["q", "v"]),
    ("Mistral", &["q_proj", "v_proj"]),
    ("Mixtral", &["q_proj", "v_proj"]),
    ("Mpt", &["Wqkv"]),
    ("OPT", &["q_proj", "v_proj"]),
    ("Phi3", &[]),
    ("Phi", &["q_proj", "v_proj", "fc1", "fc2"]),
    ("Qwen2", &["q_proj", "v_proj"]),
    ("Qwen3", &["q_proj", "v_proj"]),
    ("Roberta", &["query", "value"]),
    ("StableLm", &["q_proj", "v_proj"]),
    ("T5", &["q", "v"]),
    ("XLMRoberta", &["query", "value"]),
];

/// Whether a layer of this path is wanted by one of these names.
fn is_named(path: &str, name: &str) -> bool {
    path == name || path.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
}

/// Which of these paths of linear layers get adapters; `output` is the output embedding.
///
/// # Errors
/// A name matches none of them, there is no default for the model, or no layer is left.
pub(crate) fn chosen(
    model: &Model,
    paths: &[&str],
    output: Option<&str>,
    targets: &Targets,
) -> Result<Vec<bool>, Refusal> {
    let by_names = |names: &[&str]| -> Vec<bool> {
        paths.iter().map(|path| names.iter().any(|name| is_named(path, name))).collect()
    };
    match targets {
        Targets::AllLinear => match output {
            Some(output) if paths.iter().all(|path| *path == output) => {
                Err(Refusal::OnlyOutput { class: model.class.clone(), output: output.to_owned() })
            }
            _ => Ok(paths.iter().map(|path| Some(*path) != output).collect()),
        },
        Targets::Named(names) => {
            for name in names {
                if !paths.iter().any(|path| is_named(path, name)) {
                    return Err(Refusal::UnknownTarget { wanted: name.clone(), present: last_names(paths) });
                }
            }
            Ok(by_names(&names.iter().map(String::as_str).collect::<Vec<_>>()))
        }
        Targets::Default => {
            let known = DEFAULTS.iter().find(|(class, _)| model.class.starts_with(class));
            let chosen = known.map(|(_, names)| by_names(names)).unwrap_or_default();
            if chosen.contains(&true) {
                return Ok(chosen);
            }
            Err(Refusal::NoDefaultTargets { class: model.class.clone() })
        }
    }
}

/// The last parts of the paths, each once.
fn last_names(paths: &[&str]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for path in paths {
        let name = path.rsplit('.').next().unwrap_or(path);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(16);
    names.join(", ")
}
