//! A parsed `PYTORCH_CUDA_ALLOC_CONF`.

use std::hash::{Hash, Hasher};

use vramfit_allocator::{Settings, SettingsError};

/// An allocator setting that a plan may add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocatorSetting {
    /// Let segments grow.
    ExpandableSegments,
    /// Do not split blocks above a size.
    MaxSplitSize,
    /// Round requests up to fewer sizes.
    RoundupPower2Divisions,
}

impl AllocatorSetting {
    /// All settings in the order in which they are tried.
    pub const ALL: [AllocatorSetting; 3] = [
        AllocatorSetting::ExpandableSegments,
        AllocatorSetting::MaxSplitSize,
        AllocatorSetting::RoundupPower2Divisions,
    ];

    fn key(self) -> &'static str {
        match self {
            AllocatorSetting::ExpandableSegments => "expandable_segments",
            AllocatorSetting::MaxSplitSize => "max_split_size_mb",
            AllocatorSetting::RoundupPower2Divisions => "roundup_power2_divisions",
        }
    }

    /// The value that a plan sets.
    fn value(self) -> &'static str {
        match self {
            AllocatorSetting::ExpandableSegments => "True",
            AllocatorSetting::MaxSplitSize => "128",
            AllocatorSetting::RoundupPower2Divisions => "8",
        }
    }
}

/// Allocator settings and their text.
#[derive(Clone, Debug, Default)]
pub struct AllocConf {
    text: String,
    settings: Settings,
    set: Vec<AllocatorSetting>,
}

impl AllocConf {
    /// Parses the syntax of `PYTORCH_CUDA_ALLOC_CONF`.
    ///
    /// # Errors
    /// PyTorch would reject the text, or it selects another allocator.
    pub fn parse(text: &str) -> Result<AllocConf, SettingsError> {
        let settings = Settings::parse(text)?;
        let keys = keys(text);
        let set = AllocatorSetting::ALL.into_iter().filter(|setting| keys.contains(&setting.key())).collect();
        Ok(AllocConf { text: text.to_owned(), settings, set })
    }

    /// The text; empty for PyTorch's defaults.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The parsed settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the text has this setting, with any value.
    pub fn sets(&self, setting: AllocatorSetting) -> bool {
        self.set.contains(&setting)
    }

    /// With one more setting; `None` if PyTorch would reject the combination.
    pub fn with(&self, setting: AllocatorSetting) -> Option<AllocConf> {
        let separator = if self.text.is_empty() { "" } else { "," };
        AllocConf::parse(&format!("{}{separator}{}:{}", self.text, setting.key(), setting.value())).ok()
    }
}

impl PartialEq for AllocConf {
    fn eq(&self, other: &AllocConf) -> bool {
        self.text == other.text
    }
}

impl Eq for AllocConf {}

impl Hash for AllocConf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

/// The keys of a valid text. A value may be a list in brackets that contains commas and colons.
fn keys(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let pairs = text.split(move |letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    pairs.filter_map(|pair| Some(pair.split_once(':')?.0.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_with_any_value_at_any_position() {
        let conf = AllocConf::parse("roundup_power2_divisions:[256:1,512:2,>:4], expandable_segments:False").unwrap();
        assert!(conf.sets(AllocatorSetting::RoundupPower2Divisions) && conf.sets(AllocatorSetting::ExpandableSegments));
        assert!(!conf.sets(AllocatorSetting::MaxSplitSize));
        assert!(AllocatorSetting::ALL.iter().all(|&setting| !AllocConf::default().sets(setting)));
    }

    #[test]
    fn every_added_setting_changes_the_parsed_settings() {
        for setting in AllocatorSetting::ALL {
            let conf = AllocConf::default().with(setting).unwrap();
            assert!(conf.sets(setting) && *conf.settings() != Settings::default(), "{}", conf.text());
        }
    }
}
