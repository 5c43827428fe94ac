//! The settings a recording was made under, from its `allocator_settings`.

use vramfit_allocator::{Settings, SettingsError};
use vramfit_trace::snapshot::{Setting, Snapshot};

/// Reads `allocator_settings`: the text of the environment variable first, if recorded, then the single values.
///
/// # Errors
/// [`Settings::parse`] refuses the recorded text, for instance because of another backend.
pub fn recorded_settings(snapshot: &Snapshot) -> Result<Settings, SettingsError> {
    let find = |name: &str| snapshot.settings.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let text = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"].into_iter().find_map(|name| match find(name) {
        Some(Setting::Text(text)) => Some(text.as_str()),
        _ => None,
    });
    let mut settings = Settings::parse(text.unwrap_or(""))?;
    if let Some(&Setting::Int(size)) = find("max_split_size") {
        settings.max_split_size = u64::try_from(size).unwrap_or(u64::MAX);
    }
    if let Some(&Setting::Float(threshold)) = find("garbage_collection_threshold") {
        settings.garbage_collection_threshold = threshold;
    }
    if let Some(&Setting::Bool(is_on)) = find("expandable_segments") {
        settings.expandable_segments = is_on;
    }
    if let Some(Setting::Map(intervals)) = find("roundup_power2_divisions") {
        for (boundary, divisions) in intervals {
            if let (Ok(boundary), &Setting::Int(divisions)) = (boundary.parse::<u64>(), divisions)
                && boundary.is_power_of_two()
                && let Some(entry) = settings.roundup_power2_divisions.get_mut(boundary.ilog2() as usize)
            {
                *entry = u64::try_from(divisions).unwrap_or(0);
            }
        }
    }
    Ok(settings)
}
