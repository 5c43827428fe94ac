//! The allocator's settings: less memory is cached and unused.

use super::Trick;
use crate::alloc_conf::AllocatorSetting;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct AllocatorSettings;

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
        let free = AllocatorSetting::ALL.into_iter().filter(|&setting| !start.alloc_conf.sets(setting));
        let setups: Vec<Setup> = free
            .filter_map(|setting| Some(Setup { alloc_conf: start.alloc_conf.with(setting)?, ..start.clone() }))
            .collect();
        if setups.is_empty() { Err("all of them are set already".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.alloc_conf.clone_from(&from.alloc_conf);
    }

    fn state(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.alloc_conf.text() {
            "" => "the allocator's default settings".to_owned(),
            text => format!("PYTORCH_CUDA_ALLOC_CONF={text}"),
        }
    }
}
