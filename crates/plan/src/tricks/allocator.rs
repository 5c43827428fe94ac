//! Allocator settings that reduce cached but unused memory.

use super::role::Role;
use super::trick::Trick;
use crate::alloc_conf::AllocatorSetting;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct AllocatorSettings;

impl Trick for AllocatorSettings {
    fn name(&self) -> &'static str {
        "allocator settings"
    }

    fn setting(&self) -> &'static str {
        "alloc-conf"
    }

    fn role(&self) -> Role {
        Role::Allocator
    }

    fn conflicts(&self) -> &'static str {
        "expandable segments: Windows and WSL, and sharing CUDA tensors between processes in older torch"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let unset = AllocatorSetting::ALL.into_iter().filter(|&setting| !start.alloc_conf.sets(setting));
        let setups: Vec<Setup> = unset
            .filter_map(|setting| Some(Setup { alloc_conf: start.alloc_conf.with(setting)?, ..start.clone() }))
            .collect();
        if setups.is_empty() { Err("all of these settings are set already".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.alloc_conf.clone_from(&from.alloc_conf);
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.alloc_conf.text() {
            "" => "the allocator's default settings".to_owned(),
            text => format!("PYTORCH_CUDA_ALLOC_CONF={text}"),
        }
    }

    fn is_searched(&self, start: &Setup, alternative: &Setup) -> bool {
        // Rounding sizes up costs memory.
        let rounds_up = |setup: &Setup| setup.alloc_conf.sets(AllocatorSetting::RoundupPower2Divisions);
        !rounds_up(alternative) || rounds_up(start)
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let text = setup.alloc_conf.text();
        if !text.is_empty() {
            code.standard_imports.once("import os");
            code.environment.line(0, "# Before torch is imported, or in the shell.");
            code.environment.line(0, &format!("os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"{text}\""));
        }
    }
}
