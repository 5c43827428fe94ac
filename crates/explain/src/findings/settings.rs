//! Other allocator settings, tried by replaying the recording under them.

use vramfit_allocator::Settings;
use vramfit_replay::{WhatIf, replay_with};
use vramfit_trace::snapshot::Device;

const MIB: u64 = 1 << 20;

/// A setting to try, as `PYTORCH_CUDA_ALLOC_CONF` spells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The setting.
    pub text: String,
    /// The recording's settings with it.
    pub settings: Settings,
}

/// The reserved peak under another setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// The setting.
    pub text: String,
    /// The reserved peak.
    pub peak_reserved: u64,
}

/// Whether a failed allocation would have succeeded under another setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The setting.
    pub text: String,
    /// Whether it would with the lower bound of the memory there was.
    pub is_served: bool,
    /// Whether it would with the upper bound of the memory there was.
    pub is_perhaps_served: bool,
}

/// The settings worth trying instead of the recorded ones. Garbage collection acts only under a cap.
pub fn changes(recorded: &Settings, has_cap: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |text: String, settings: Settings| {
        if settings != *recorded {
            changes.push(Change { text, settings });
        }
    };
    add("expandable_segments:True".into(), Settings { expandable_segments: true, ..recorded.clone() });
    if !recorded.expandable_segments {
        for mebibytes in [32, 64, 128, 256, 512] {
            let settings = Settings { max_split_size: mebibytes * MIB, ..recorded.clone() };
            add(format!("max_split_size_mb:{mebibytes}"), settings);
        }
        if has_cap {
            for threshold in [0.6, 0.8] {
                let settings = Settings { garbage_collection_threshold: threshold, ..recorded.clone() };
                add(format!("garbage_collection_threshold:{threshold}"), settings);
            }
        }
        for divisions in [4, 8] {
            let roundup_power2_divisions = recorded.roundup_power2_divisions.map(|_| divisions);
            let settings = Settings { roundup_power2_divisions, ..recorded.clone() };
            add(format!("roundup_power2_divisions:{divisions}"), settings);
        }
    }
    changes
}

/// Replays `device`'s requests under `settings` with at most `cap` bytes.
pub fn replay(device: &Device, settings: &Settings, cap: Option<u64>) -> WhatIf {
    replay_with(device, Settings { cap, ..settings.clone() }, u64::MAX)
}
