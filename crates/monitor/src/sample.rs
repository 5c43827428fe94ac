//! What one look at the machine has found.

use serde::{Deserialize, Serialize};

use crate::pytorch::Context;
use crate::reading::{Missing, Reading};

/// One look at all GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When it was taken, in microseconds since 1970, UTC.
    pub taken_at: u64,
    /// How long it took, in microseconds.
    pub took: u64,
    /// The machine's name.
    pub hostname: String,
    /// The version of the (first) driver.
    pub driver_version: Reading<String>,
    /// The machine's memory in bytes.
    pub host_memory: Reading<u64>,
    /// The GPUs, by index.
    pub gpus: Vec<Gpu>,
}

/// Whose GPU it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// NVIDIA, through NVML.
    Nvidia,
    /// AMD, through sysfs.
    Amd,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its number on this machine.
    pub index: usize,
    /// Who made it.
    pub vendor: Vendor,
    /// Set where the GPU as a whole cannot be read; then every reading has this reason.
    pub unavailable: Option<Missing>,
    /// Name and identifier when it could last be read; a lost GPU keeps them.
    pub last_known: Option<Identity>,
    /// The product's name.
    pub name: Reading<String>,
    /// An identifier that stays over reboots.
    pub uuid: Reading<String>,
    /// Degrees Celsius.
    pub temperature: Reading<u32>,
    /// Percent of the fan's full speed.
    pub fan_speed: Reading<u32>,
    /// Percent of the time in which a kernel ran.
    pub utilization: Reading<u32>,
    /// Percent of the time in which the encoder ran.
    pub encoder: Reading<u32>,
    /// Percent of the time in which the decoder ran.
    pub decoder: Reading<u32>,
    /// Milliwatts drawn.
    pub power: Reading<u32>,
    /// Milliwatts allowed.
    pub power_limit: Reading<u32>,
    /// The GPU's memory.
    pub memory: Reading<Memory>,
    /// The devices it is split into, where MIG is on.
    pub mig: Vec<MigDevice>,
    /// Who is on it.
    pub processes: Reading<Vec<Process>>,
}

/// What a GPU is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The product's name.
    pub name: String,
    /// An identifier that stays over reboots.
    pub uuid: String,
}

/// Bytes of a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All there is.
    pub total: u64,
    /// In use by processes.
    pub used: u64,
    /// Left.
    pub free: u64,
    /// Kept by the driver for itself.
    pub reserved: u64,
}

/// A part of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigDevice {
    /// Its number on the GPU.
    pub index: u32,
    /// Its profile's name.
    pub name: Reading<String>,
    /// Its identifier.
    pub uuid: Reading<String>,
    /// Its memory.
    pub memory: Reading<Memory>,
}

/// What a process does on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// CUDA, ROCm.
    Compute,
    /// OpenGL, Vulkan.
    Graphics,
    /// Both.
    ComputeAndGraphics,
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// What it does there.
    pub usage: Use,
    /// Bytes of GPU memory.
    pub gpu_memory: Reading<u64>,
    /// Percent of the GPU's time.
    pub gpu_utilization: Reading<u32>,
    /// The MIG device it runs on, by GPU instance.
    pub gpu_instance: Option<u32>,
    /// What the operating system says of it.
    pub host: Reading<HostProcess>,
}

/// A process as the operating system sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostProcess {
    /// The parent's number.
    pub parent: u32,
    /// The user's number, where users have one.
    pub uid: Option<u32>,
    /// The user's name, or number where it has none.
    pub user: String,
    /// The kernel's one-letter state: R, S, D, Z, T …; `-` where it has none.
    pub state: char,
    /// When it began, by a clock of the operating system's: with the PID, its identity.
    pub started: u64,
    /// The arguments; empty for a zombie or where they may not be read.
    pub arguments: Vec<String>,
    /// Percent of one core.
    pub cpu_percent: Reading<f64>,
    /// Seconds over which it was measured.
    pub cpu_seconds: f64,
    /// Bytes of the machine's memory.
    pub memory: u64,
    /// Seconds since it began.
    pub age: f64,
    /// The container it runs in, such as `docker:0123456789ab`.
    pub container: Option<String>,
    /// Set where the process uses PyTorch: what of its memory is not PyTorch's.
    pub context: Option<Context>,
}

impl Gpu {
    /// A GPU that cannot be read: every reading has the same reason.
    pub fn without_readings(index: usize, vendor: Vendor, reason: &Missing) -> Gpu {
        Gpu {
            index,
            vendor,
            unavailable: Some(reason.clone()),
            last_known: None,
            name: Err(reason.clone()),
            uuid: Err(reason.clone()),
            temperature: Err(reason.clone()),
            fan_speed: Err(reason.clone()),
            utilization: Err(reason.clone()),
            encoder: Err(reason.clone()),
            decoder: Err(reason.clone()),
            power: Err(reason.clone()),
            power_limit: Err(reason.clone()),
            memory: Err(reason.clone()),
            mig: Vec::new(),
            processes: Err(reason.clone()),
        }
    }

    /// Its name, as far as it was ever known.
    pub fn known_name(&self) -> Option<&str> {
        self.name.as_deref().ok().or(self.last_known.as_ref().map(|known| known.name.as_str()))
    }

    /// Its identifier, as far as it was ever known.
    pub fn known_uuid(&self) -> Option<&str> {
        self.uuid.as_deref().ok().or(self.last_known.as_ref().map(|known| known.uuid.as_str()))
    }
}

impl Process {
    /// The command's name without its folder; `None` for a hidden process, `?` where it has no arguments.
    pub fn command(&self) -> Option<&str> {
        let host = self.host.as_ref().ok()?;
        Some(host.arguments.first().map_or("?", |first| first.rsplit(['/', '\\']).next().unwrap_or(first)))
    }

    /// Whether the operating system does not show it from here.
    pub fn is_hidden(&self) -> bool {
        self.host.is_err()
    }
}
