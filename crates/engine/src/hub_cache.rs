//! Finds the `config.json` of a model of the Hugging Face Hub in the local cache. Nothing is downloaded.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use vramfit_report::failure::Failure;

/// Names that end like this are files, not models of the Hub.
const FILE_ENDINGS: [&str; 7] = [".vramfit", ".pt2", ".json", ".toml", ".py", ".pt", ".safetensors"];

/// Whether a name could be a model of the Hub: `organisation/model`.
pub fn is_hub_id(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_valid)
    };
    let is_file = FILE_ENDINGS.iter().any(|ending| name.ends_with(ending));
    !is_file && name.split_once('/').is_some_and(|(owner, model)| is_part(owner) && is_part(model))
}

/// The configuration of a model of the Hub, from the cache that huggingface_hub fills.
///
/// # Errors
/// The cache does not have it.
pub fn config(id: &str) -> Result<PathBuf, Failure> {
    let cache = cache_folder(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from));
    let Some(cache) = cache else { return Err(missing(id, "there is no home folder to look for a cache in")) };
    config_in(&cache, id)
}

/// As huggingface_hub chooses it.
fn cache_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let home = || variable("HOME").or_else(|| variable("USERPROFILE"));
    let caches = || variable("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")));
    let hugging_face = || variable("HF_HOME").or_else(|| Some(caches()?.join("huggingface")));
    let named = variable("HF_HUB_CACHE").or_else(|| variable("HUGGINGFACE_HUB_CACHE"));
    named.or_else(|| Some(hugging_face()?.join("hub")))
}

fn config_in(cache: &Path, id: &str) -> Result<PathBuf, Failure> {
    let folder = cache.join(format!("models--{}", id.replace('/', "--")));
    let main = folder.join("refs").join("main");
    let Ok(revision) = fs::read_to_string(&main) else {
        return Err(missing(id, &format!("looked for {}", main.display())));
    };
    let revision = revision.trim();
    let config = folder.join("snapshots").join(revision).join("config.json");
    let is_name = !revision.is_empty() && revision.chars().all(|letter| letter.is_ascii_alphanumeric());
    match is_name && config.is_file() {
        true => Ok(config),
        false => Err(missing(id, &format!("looked for {}", config.display()))),
    }
}

fn missing(id: &str, looked: &str) -> Failure {
    Failure::new(format!("{id}: found no such file, and no such model in the local Hugging Face cache ({looked})"))
        .with_hint(Some(format!(
            "vramfit uses no network: `hf download {id} config.json` puts the model's configuration into the cache"
        )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organisation_and_a_model_are_an_id_and_files_are_not() {
        assert!(["meta-llama/Llama-3.2-1B", "org/a_b.c"].into_iter().all(is_hub_id));
        let others =
            ["gpt2", "a/b/c", "/etc", "../x", "a/..", "folder/model.vramfit", "folder/train.py", "a b/c", "a/"];
        assert!(!others.into_iter().any(is_hub_id));
    }

    #[test]
    fn the_cache_is_where_huggingface_hub_has_it() {
        let with = |set: &[(&str, &str)]| {
            let found = cache_folder(|name| set.iter().find(|(it, _)| *it == name).map(|(_, path)| path.into()));
            found.map(|path| path.to_string_lossy().replace('\\', "/"))
        };
        assert_eq!(with(&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/h")]).as_deref(), Some("/c"));
        assert_eq!(with(&[("HF_HOME", "/h"), ("HOME", "/me")]).as_deref(), Some("/h/hub"));
        assert_eq!(with(&[("HOME", "/me")]).as_deref(), Some("/me/.cache/huggingface/hub"));
        assert_eq!(with(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/me")]).as_deref(), Some("/x/huggingface/hub"));
        assert_eq!(with(&[]), None);
    }
}
