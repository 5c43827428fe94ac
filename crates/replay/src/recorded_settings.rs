//! The settings a recording was made under, as its `allocator_settings` tell them.

use vramfit_allocator::{Settings, SettingsError};
use vramfit_trace::snapshot::{Setting, Snapshot};

/// Reads `allocator_settings`. The text of the environment variable is taken first, where the recording has it; the
/// single values complete it.
///
/// # Errors
/// The recorded text is one that [`Settings::parse`] refuses, such as another backend's.
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
                && let Some(place) = settings.roundup_power2_divisions.get_mut(boundary.ilog2() as usize)
            {
                *place = u64::try_from(divisions).unwrap_or(0);
            }
        }
    }
    Ok(settings)
}
