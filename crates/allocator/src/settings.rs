//! The allocator's settings, in the syntax of `PYTORCH_CUDA_ALLOC_CONF`.

mod tokens;

use thiserror::Error;

use crate::constants::{LARGE_SEGMENT, OWN_SEGMENT};
use tokens::Tokens;

const MIB: u64 = 1 << 20;
/// `roundup_power2_divisions` holds one number for each power of two from 1 MiB to 64 GiB.
const DIVISION_INTERVALS: usize = 16;

/// The allocator's settings. [`Settings::default`] is PyTorch's default.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Blocks of at least this size are not split (`max_split_size_mb`); `u64::MAX` if unset.
    pub max_split_size: u64,
    /// How much larger than the request an unsplittable block may be (`max_non_split_rounding_mb`).
    pub max_non_split_rounding: u64,
    /// Size of the large pool's shared segments, and of the pages of its expandable segments (`large_segment_size_mb`).
    pub large_segment_size: u64,
    /// How many steps requests are rounded to between two powers of two, for each power from 1 MiB on; 0 is off.
    pub roundup_power2_divisions: [u64; DIVISION_INTERVALS],
    /// The share of the cap above which old free blocks are given back; 0 is off.
    pub garbage_collection_threshold: f64,
    /// Whether new segments are expandable (`expandable_segments`).
    pub expandable_segments: bool,
    /// The share of the GPU's memory that the process may reserve (`per_process_memory_fraction`).
    pub memory_fraction: f64,
    /// The most bytes the allocator may reserve, as `torch.cuda.set_per_process_memory_fraction` sets it.
    pub cap: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_split_size: u64::MAX,
            max_non_split_rounding: LARGE_SEGMENT,
            large_segment_size: LARGE_SEGMENT,
            roundup_power2_divisions: [0; DIVISION_INTERVALS],
            garbage_collection_threshold: 0.0,
            expandable_segments: false,
            memory_fraction: 1.0,
            cap: None,
        }
    }
}

/// Why a settings text was refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SettingsError {
    /// A key PyTorch does not know.
    #[error("allocator settings: unknown key `{key}`, needed one of {}", KEYS.join(", "))]
    UnknownKey {
        /// The key found.
        key: String,
    },
    /// A key without a value, or punctuation in the wrong place.
    #[error("allocator settings: found {found} where `{needed}` was needed, after `{after}`")]
    Syntax {
        /// What was found.
        found: String,
        /// What was needed.
        needed: &'static str,
        /// The text before it.
        after: String,
    },
    /// A value of the wrong kind or out of its range.
    #[error("allocator settings: `{key}:{value}`: {needed}")]
    Value {
        /// The key.
        key: String,
        /// The value found.
        value: String,
        /// What is needed.
        needed: String,
    },
    /// Another allocator, which is not modelled.
    #[error(
        "allocator settings: `backend:{backend}` is not modelled: CUDA's own pool allocator, not PyTorch's caching one, would serve the requests"
    )]
    Backend {
        /// The backend's name.
        backend: String,
    },
}

/// The keys that torch 2.11 accepts.
const KEYS: [&str; 16] = [
    "backend",
    "expandable_segments",
    "garbage_collection_threshold",
    "graph_capture_record_stream_reuse",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "max_split_size_mb",
    "per_process_memory_fraction",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "roundup_power2_divisions",
];

impl Settings {
    /// Parses the syntax of `PYTORCH_CUDA_ALLOC_CONF`: `key:value,key:[value,…]`. The empty text gives the defaults.
    ///
    /// # Errors
    /// What PyTorch itself refuses, and `backend:cudaMallocAsync`.
    pub fn parse(text: &str) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        let mut tokens = Tokens::new(text);
        while let Some(key) = tokens.next() {
            if !KEYS.contains(&key.as_str()) {
                return Err(SettingsError::UnknownKey { key });
            }
            tokens.expect(":")?;
            settings.read_value(&key, &mut tokens)?;
            if !tokens.is_at_end() {
                tokens.expect(",")?;
            }
        }
        Ok(settings)
    }

    fn read_value(&mut self, key: &str, tokens: &mut Tokens) -> Result<(), SettingsError> {
        match key {
            "large_segment_size_mb" => {
                let least = OWN_SEGMENT / MIB;
                self.large_segment_size = mebibytes(key, tokens, |value| {
                    (value <= least).then(|| format!("must be more than {least}, so that it holds any shared block"))
                })?;
            }
            "max_split_size_mb" | "max_non_split_rounding_mb" => {
                let least = self.large_segment_size / MIB;
                let size = mebibytes(key, tokens, |value| {
                    (value < least).then(|| format!("must be at least {least}, the large segment's size"))
                })?;
                if key == "max_split_size_mb" {
                    self.max_split_size = size;
                } else {
                    self.max_non_split_rounding = size;
                }
            }
            "garbage_collection_threshold" => {
                self.garbage_collection_threshold =
                    fraction(key, tokens, "between 0 and 1, both excluded", |value| value > 0.0 && value < 1.0)?;
            }
            "per_process_memory_fraction" => {
                self.memory_fraction = fraction(key, tokens, "between 0 and 1", |value| (0.0..=1.0).contains(&value))?;
            }
            "roundup_power2_divisions" => self.read_divisions(key, tokens)?,
            "expandable_segments" => self.expandable_segments = boolean(key, tokens)?,
            "backend" => {
                let backend = tokens.value()?;
                if backend != "native" {
                    return Err(SettingsError::Backend { backend });
                }
            }
            _ => {
                tokens.value()?;
            }
        }
        Ok(())
    }

    fn read_divisions(&mut self, key: &str, tokens: &mut Tokens) -> Result<(), SettingsError> {
        if !tokens.take("[") {
            let divisions = divisions(key, tokens)?;
            self.roundup_power2_divisions = [divisions; DIVISION_INTERVALS];
            return Ok(());
        }
        let mut last = None;
        while !tokens.take("]") {
            let boundary = tokens.value()?;
            tokens.expect(":")?;
            let divisions = divisions(key, tokens)?;
            if boundary == ">" {
                let from = last.map_or(1, |last: usize| last + 1);
                self.roundup_power2_divisions[from..].fill(divisions);
            } else {
                let number = whole(key, &boundary)?;
                if !number.is_power_of_two() {
                    return Err(bad(key, &boundary, "intervals begin at powers of two, in MiB"));
                }
                let index = (number.ilog2() as usize).min(DIVISION_INTERVALS - 1);
                if last.is_none() {
                    self.roundup_power2_divisions[..index].fill(divisions);
                }
                self.roundup_power2_divisions[index] = divisions;
                last = Some(index);
            }
            if !tokens.peek_is("]") {
                tokens.expect(",")?;
            }
        }
        Ok(())
    }

    /// The entry of `roundup_power2_divisions` for a request of `size` bytes.
    pub fn divisions_for(&self, size: u64) -> u64 {
        let power = size.max(1).ilog2() as usize;
        let index = power.saturating_sub(MIB.ilog2() as usize);
        self.roundup_power2_divisions[index.min(DIVISION_INTERVALS - 1)]
    }

    /// The same settings with the cap that `per_process_memory_fraction` means on a GPU of `total` bytes. A cap that is
    /// already set stays.
    #[must_use]
    pub fn on_device(mut self, total: u64) -> Settings {
        if self.cap.is_none() && self.memory_fraction < 1.0 {
            self.cap = Some((self.memory_fraction * total as f64) as u64);
        }
        self
    }
}

fn bad(key: &str, value: &str, needed: impl Into<String>) -> SettingsError {
    SettingsError::Value { key: key.into(), value: value.into(), needed: needed.into() }
}

fn whole(key: &str, text: &str) -> Result<u64, SettingsError> {
    text.parse().map_err(|_| bad(key, text, "needs a whole number"))
}

fn mebibytes(key: &str, tokens: &mut Tokens, complaint: impl Fn(u64) -> Option<String>) -> Result<u64, SettingsError> {
    let text = tokens.value()?;
    let value = whole(key, &text)?;
    match complaint(value) {
        Some(needed) => Err(bad(key, &text, needed)),
        None => Ok(value.min(u64::MAX / MIB) * MIB),
    }
}

fn fraction(key: &str, tokens: &mut Tokens, needed: &str, is_good: impl Fn(f64) -> bool) -> Result<f64, SettingsError> {
    let text = tokens.value()?;
    match text.parse() {
        Ok(value) if is_good(value) => Ok(value),
        _ => Err(bad(key, &text, format!("needs a number {needed}"))),
    }
}

fn boolean(key: &str, tokens: &mut Tokens) -> Result<bool, SettingsError> {
    let text = tokens.value()?;
    match text.as_str() {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err(bad(key, &text, "needs True or False")),
    }
}

fn divisions(key: &str, tokens: &mut Tokens) -> Result<u64, SettingsError> {
    let text = tokens.value()?;
    let value = whole(key, &text)?;
    if value != 0 && !value.is_power_of_two() {
        return Err(bad(key, &text, "needs a power of two, or 0 for none"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_text_gives_the_defaults() {
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
        assert_eq!(Settings::parse("backend:native").unwrap(), Settings::default());
    }

    #[test]
    fn every_setting_is_read_and_white_space_is_dropped() {
        let settings = Settings::parse(
            " expandable_segments : True, max_split_size_mb:128,max_non_split_rounding_mb: 64,\
             garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,pinned_use_background_threads:True",
        )
        .unwrap();
        assert!(settings.expandable_segments);
        assert_eq!(settings.max_split_size, 128 * MIB);
        assert_eq!(settings.max_non_split_rounding, 64 * MIB);
        assert_eq!(settings.garbage_collection_threshold, 0.8);
        assert_eq!(settings.on_device(100).cap, Some(50));
    }

    #[test]
    fn divisions_are_given_once_or_by_interval() {
        let one = Settings::parse("roundup_power2_divisions:8").unwrap();
        assert_eq!(one.roundup_power2_divisions, [8; 16]);
        let listed = Settings::parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]").unwrap();
        assert_eq!(listed.roundup_power2_divisions[..9], [1; 9]);
        assert_eq!(listed.roundup_power2_divisions[9..], [2, 4, 8, 8, 8, 8, 8]);
        assert_eq!(listed.divisions_for(600 << 20), 2);
        assert_eq!(listed.divisions_for(1), 1);
        assert_eq!(listed.divisions_for(u64::MAX), 8);
    }

    #[test]
    fn what_pytorch_refuses_is_refused_with_the_reason() {
        let refusals = [
            ("max_split_size_mb:10", "must be at least 20"),
            ("large_segment_size_mb:10", "must be more than 10"),
            ("max_split_size_mb:many", "needs a whole number"),
            ("garbage_collection_threshold:1.5", "between 0 and 1"),
            ("garbage_collection_threshold:0", "between 0 and 1, both excluded"),
            ("garbage_collection_threshold:1", "between 0 and 1, both excluded"),
            ("roundup_power2_divisions:3", "power of two"),
            ("roundup_power2_divisions:[3:2]", "powers of two"),
            ("roundup_power2_divisions:[4:2", "found the end"),
            ("expandable_segments:yes", "True or False"),
            ("expandable_segments", "found the end"),
            ("expandable_segments:,", "found `,` where `a value` was needed"),
            ("expandable_segments=True", "unknown key `expandable_segments=True`"),
            ("expandable_segments:True max_split_size_mb:64", "needs True or False"),
            ("backend:cudaMallocAsync", "`backend:cudaMallocAsync` is not modelled"),
            ("colour:red", "unknown key `colour`"),
        ];
        for (text, reason) in refusals {
            let message = Settings::parse(text).unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    #[test]
    fn the_least_split_size_follows_the_large_segment_set_before_it() {
        assert!(Settings::parse("large_segment_size_mb:64,max_split_size_mb:32").is_err());
        assert!(Settings::parse("max_split_size_mb:32,large_segment_size_mb:64").is_ok());
    }

    #[test]
    fn values_at_the_edges_of_their_range_are_accepted() {
        let size = |mib: u64| Settings::parse(&format!("max_split_size_mb:{mib}")).unwrap().max_split_size;
        assert_eq!((size(20), size(2_000_000)), (20 * MIB, 2_000_000 * MIB));
        assert_eq!(size(u64::MAX), u64::MAX / MIB * MIB, "no overflow");
        assert!(!Settings::parse("expandable_segments:True,expandable_segments:False").unwrap().expandable_segments);
        let listed = Settings::parse("roundup_power2_divisions:[32768:2,131072:4]").unwrap();
        assert_eq!(listed.roundup_power2_divisions[14..], [2, 4], "the last interval has no end");
    }

    #[test]
    fn a_fraction_of_the_gpu_is_a_cap_unless_there_is_one() {
        let half = Settings::parse("per_process_memory_fraction:0.5").unwrap();
        assert_eq!(Settings { cap: Some(7), ..half }.on_device(100).cap, Some(7));
        assert_eq!(Settings::parse("per_process_memory_fraction:1").unwrap().on_device(100).cap, None);
        assert_eq!(Settings { cap: Some(7), ..Settings::default() }.on_device(100).cap, Some(7));
    }
}
