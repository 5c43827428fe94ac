//! The allocator's settings: less memory lies cached and unused.

use super::Trick;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct AllocatorSettings;

const CHOICES: [(&str, &str); 3] = [
    ("expandable_segments", "expandable_segments:True"),
    ("max_split_size_mb", "max_split_size_mb:128"),
    ("roundup_power2_divisions", "roundup_power2_divisions:8"),
];

impl Trick for AllocatorSettings {
    fn name(&self) -> &'static str {
        "allocator settings"
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn conflicts(&self) -> &'static str {
        "expandable segments: Windows and WSL, and sharing CUDA tensors between processes in older torch"
    }

    fn written(&self) -> &'static str {
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let given = start.alloc_conf.as_str();
        let setups: Vec<Setup> = CHOICES
            .iter()
            .filter(|(key, _)| !given.contains(key))
            .map(|(_, setting)| {
                let alloc_conf = if given.is_empty() { (*setting).to_owned() } else { format!("{given},{setting}") };
                Setup { alloc_conf, ..start.clone() }
            })
            .collect();
        if setups.is_empty() { Err("all of them are set already".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.alloc_conf.clone_from(&from.alloc_conf);
    }

    fn state(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.alloc_conf.as_str() {
            "" => "the allocator's default settings".to_owned(),
            text => format!("PYTORCH_CUDA_ALLOC_CONF={text}"),
        }
    }
}
