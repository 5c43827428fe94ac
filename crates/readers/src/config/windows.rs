//! Sliding windows, and which layers have them.

use serde_json::Value;

use super::ConfigError;
use super::fields::Config;
use super::order::Order;

/// The sliding window, and which of the layers have it. Neither where none has it; no list where all are alike.
pub(super) fn windows(
    config: &Config<'_>,
    default: Option<i64>,
    layers: u32,
) -> Result<(Option<i64>, Option<Vec<bool>>), ConfigError> {
    let window = window(config, default)?;
    let kinds = kinds(config, layers, window.is_some())?;
    match kinds {
        Some(kinds) if !kinds.contains(&true) => Ok((None, None)),
        kinds => Ok((window, kinds)),
    }
}

/// The sliding window, if there is one. `default`: what transformers takes where the file does not say.
fn window(config: &Config<'_>, default: Option<i64>) -> Result<Option<i64>, ConfigError> {
    if !matches!(config.family, "qwen2" | "qwen3") {
        config.only("use_sliding_window", &[false.into()])?;
    } else if !config.flag("use_sliding_window", false)? {
        // The number is in the file, and not used.
        config.find("sliding_window");
        return Ok(None);
    }
    if !config.fields.contains_key("sliding_window") {
        return match default {
            Some(window) => config.count("sliding_window", window).map(Some),
            None => Ok(None),
        };
    }
    match config.maybe_count("sliding_window")? {
        Some(1) => Err(config.wrong("sliding_window", "2 or more, or null")),
        window => Ok(window),
    }
}

/// Which layers have a window; `None` where all are alike.
fn kinds(config: &Config<'_>, layers: u32, has_window: bool) -> Result<Option<Vec<bool>>, ConfigError> {
    let numbers = 1..=i64::from(layers);
    let default: Vec<bool> = match config.family {
        "gemma2" => numbers.map(|number| number % 2 != 0).collect(),
        "gemma3_text" => {
            let pattern = config.maybe_count("sliding_window_pattern")?.unwrap_or(6);
            numbers.map(|number| number % pattern != 0).collect()
        }
        "qwen2" | "qwen3" if has_window => {
            let first = match config.find("max_window_layers").map(Value::as_u64) {
                None => 28,
                Some(Some(first)) => first,
                Some(None) => return Err(config.wrong("max_window_layers", "the number of layers without a window")),
            };
            numbers.map(|number| number as u64 > first).collect()
        }
        _ => {
            config.find("layer_types");
            return Ok(None);
        }
    };
    let Some(found) = config.find("layer_types") else { return Ok(Some(default)) };
    let kind = |kind: &Value| match kind.as_str() {
        Some("sliding_attention") => Some(true),
        Some("full_attention") => Some(false),
        _ => None,
    };
    let kinds = found.as_array().and_then(|kinds| kinds.iter().map(kind).collect::<Option<Vec<bool>>>());
    let needed = format!("sliding_attention or full_attention for each of {layers} layers");
    let kinds = kinds.filter(|kinds| kinds.len() == layers as usize);
    kinds.map(Some).ok_or_else(|| config.wrong("layer_types", &needed))
}

/// Which layer of a template each layer is made from, and the ending of the template's name.
pub(super) fn order(
    config: &Config<'_>,
    kinds: Option<Vec<bool>>,
) -> Result<(Option<Order>, &'static str), ConfigError> {
    let Some(kinds) = kinds else { return Ok((None, "")) };
    let (template, ending): (&[bool], _) = match (config.family, kinds.last()) {
        ("gemma2", _) => (&[true, false, true, false], ""),
        ("qwen2" | "qwen3", _) => (&[false, false, true, true, true], ""),
        (_, Some(false)) => (&[true, true, false, true, false], "-full"),
        _ => (&[true, true, false, true, true], ""),
    };
    if let Some(order) = Order::of_kinds(template, &kinds) {
        return Ok((Some(order), ending));
    }
    let kinds: String = kinds.iter().map(|has_window| if *has_window { 's' } else { 'f' }).collect();
    let known = match config.family {
        "gemma2" => "an even number of layers, sliding and full in turn",
        "qwen2" | "qwen3" => "one full one at least, then two sliding ones at least",
        _ => "a sliding one first, no two full ones in a row, and not a single sliding one at the end",
    };
    let found = format!("{kinds} (sliding and full)");
    Err(ConfigError::NotModelled { field: "layer_types".to_owned(), found, known: known.to_owned() })
}
