//! The scenario file: what the stand-in answers.

use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// NVML's code for a scenario that cannot be read.
pub const UNKNOWN: u32 = 999;

/// A machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    #[serde(default)]
    pub driver_version: String,
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    /// Calls that fail or hang; the first that matches counts.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    pub name: String,
    pub uuid: String,
    pub temperature: Option<u32>,
    pub fan: Option<u32>,
    pub memory: Option<Memory>,
    pub utilization: Option<u32>,
    pub encoder: Option<u32>,
    pub decoder: Option<u32>,
    /// Milliwatts.
    pub power: Option<u32>,
    pub power_limit: Option<u32>,
    pub compute: Option<Vec<Process>>,
    pub graphics: Option<Vec<Process>>,
    /// Present: MIG is on.
    pub mig: Option<Vec<MigDevice>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub total: u64,
    pub used: u64,
    pub free: u64,
    #[serde(default)]
    pub reserved: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub pid: u32,
    /// Missing: not available, as on Windows' display driver model.
    pub memory: Option<u64>,
    #[serde(default)]
    pub utilization: u32,
    pub gpu_instance: Option<u32>,
    /// Listed in this many calls only, then gone.
    pub calls: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigDevice {
    pub name: String,
    pub uuid: String,
    pub memory: Memory,
}

/// A call that does not go well.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Without the version at its end: `nvmlDeviceGetMemoryInfo`.
    pub function: String,
    /// Only on this GPU.
    pub gpu: Option<usize>,
    /// NVML's error code.
    pub code: Option<u32>,
    /// Hangs so long first.
    pub seconds: Option<f64>,
    /// Only from this call on, counted from 0.
    #[serde(default)]
    pub after: u64,
    /// Only until this call.
    pub until: Option<u64>,
}

#[derive(Default)]
struct Loaded {
    scenario: Scenario,
    modified: Option<SystemTime>,
    is_good: bool,
    calls: HashMap<(String, Option<usize>), u64>,
}

static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

/// Does what every call does: hangs or fails where the scenario says so, else gives `answer` of the scenario and of
/// how often this call came before.
pub fn call<T>(
    function: &str,
    gpu: Option<usize>,
    answer: impl FnOnce(&Scenario, u64) -> Result<T, u32>,
) -> Result<T, u32> {
    let (scenario, count) = {
        let mut guard = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = guard.get_or_insert_default();
        reload(loaded);
        if !loaded.is_good {
            return Err(UNKNOWN);
        }
        let count = loaded.calls.entry((function.to_owned(), gpu)).or_default();
        *count += 1;
        (loaded.scenario.clone(), *count - 1)
    };
    let fault = scenario.faults.iter().find(|fault| {
        fault.function == function
            && (fault.gpu.is_none() || fault.gpu == gpu)
            && count >= fault.after
            && fault.until.is_none_or(|until| count < until)
    });
    if let Some(fault) = fault {
        if let Some(seconds) = fault.seconds {
            std::thread::sleep(Duration::from_secs_f64(seconds));
        }
        if let Some(code) = fault.code {
            return Err(code);
        }
    }
    answer(&scenario, count)
}

/// Reads the file again when it has changed, so that a machine can change in mid-run.
fn reload(loaded: &mut Loaded) {
    let Ok(path) = std::env::var("NVML_STANDIN_SCENARIO") else { return };
    // A machine whose file is gone stays as it was.
    let Ok(modified) = std::fs::metadata(&path).and_then(|data| data.modified()) else { return };
    if loaded.modified == Some(modified) {
        return;
    }
    match std::fs::read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
        serde_json::from_slice::<Scenario>(&bytes).map_err(|error| error.to_string())
    }) {
        Ok(scenario) => {
            loaded.scenario = scenario;
            loaded.is_good = true;
        }
        Err(error) => eprintln!("NVML stand-in: {path}: {error}"),
    }
    loaded.modified = Some(modified);
}
