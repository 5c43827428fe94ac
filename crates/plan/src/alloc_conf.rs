//! `PYTORCH_CUDA_ALLOC_CONF`, read once.

use std::hash::{Hash, Hasher};

use vramfit_allocator::{Settings, SettingsError};

/// An allocator setting that a plan may add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocatorSetting {
    /// Segments that grow.
    ExpandableSegments,
    /// Blocks above a size are not split.
    MaxSplitSize,
    /// Requests are rounded up to fewer sizes.
    RoundupPower2Divisions,
}

impl AllocatorSetting {
    /// All of them, in the order in which they are tried.
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

    /// The value that a plan gives it.
    fn value(self) -> &'static str {
        match self {
            AllocatorSetting::ExpandableSegments => "True",
            AllocatorSetting::MaxSplitSize => "128",
            AllocatorSetting::RoundupPower2Divisions => "8",
        }
    }
}

/// The allocator's settings, with the text that sets them.
#[derive(Clone, Debug, Default)]
pub struct AllocConf {
    text: String,
    settings: Settings,
    set: Vec<AllocatorSetting>,
}

impl AllocConf {
    /// Reads the syntax of `PYTORCH_CUDA_ALLOC_CONF`.
    ///
    /// # Errors
    /// PyTorch would refuse the text, or another allocator would serve the requests.
    pub fn parse(text: &str) -> Result<AllocConf, SettingsError> {
        let settings = Settings::parse(text)?;
        let keys = keys(text);
        let set = AllocatorSetting::ALL.into_iter().filter(|setting| keys.contains(&setting.key())).collect();
        Ok(AllocConf { text: text.to_owned(), settings, set })
    }

    /// The text, empty for PyTorch's defaults.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the text sets.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the text sets this, to whatever value.
    pub fn sets(&self, setting: AllocatorSetting) -> bool {
        self.set.contains(&setting)
    }

    /// The same with one more setting; `None` where PyTorch would refuse it beside the others.
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

/// The keys of a text that is known to be well formed; a value may be a list in brackets with keys of its own.
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
    fn a_setting_counts_as_set_whatever_its_value_and_wherever_it_is() {
        let conf = AllocConf::parse("roundup_power2_divisions:[256:1,512:2,>:4], expandable_segments:False").unwrap();
        assert!(conf.sets(AllocatorSetting::RoundupPower2Divisions) && conf.sets(AllocatorSetting::ExpandableSegments));
        assert!(!conf.sets(AllocatorSetting::MaxSplitSize));
        assert!(AllocatorSetting::ALL.iter().all(|&setting| !AllocConf::default().sets(setting)));
    }

    #[test]
    fn what_is_added_is_what_pytorch_would_read() {
        for setting in AllocatorSetting::ALL {
            let conf = AllocConf::default().with(setting).unwrap();
            assert!(conf.sets(setting) && *conf.settings() != Settings::default(), "{}", conf.text());
        }
    }
}
