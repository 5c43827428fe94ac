//! A sample: the state of all GPUs and their processes at one moment.

use serde::{Deserialize, Serialize};

use crate::pytorch::CudaContext;
use crate::reading::{Missing, Reading};

/// The state of all GPUs at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When it was taken, in microseconds since 1970, UTC.
    pub taken_at: u64,
    /// How long sampling took, in microseconds.
    pub took: u64,
    /// The machine's name.
    pub hostname: String,
    /// The version of the (first) driver.
    pub driver_version: Reading<String>,
    /// Bytes of main memory.
    pub host_memory: Reading<u64>,
    /// The GPUs, by index.
    pub gpus: Vec<Gpu>,
}

/// The GPU's maker, and with it the driver.
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
    /// Its index on this machine.
    pub index: usize,
    /// Its maker.
    pub vendor: Vendor,
    /// Set if the GPU as a whole cannot be read; every reading then has this reason.
    pub unavailable: Option<Missing>,
    /// Name and UUID when they could last be read; a lost GPU keeps them.
    pub last_known: Option<Identity>,
    /// The product's name.
    pub name: Reading<String>,
    /// Stays the same across reboots.
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
    /// The power limit in milliwatts.
    pub power_limit: Reading<u32>,
    /// The GPU's memory.
    pub memory: Reading<Memory>,
    /// Its MIG devices, if MIG is on.
    pub mig: Vec<MigDevice>,
    /// The processes that use it.
    pub processes: Reading<Vec<Process>>,
}

/// A GPU's name and UUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The product's name.
    pub name: String,
    /// Stays the same across reboots.
    pub uuid: String,
}

/// Bytes of a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Installed.
    pub total: u64,
    /// In use by processes.
    pub used: u64,
    /// Not in use.
    pub free: u64,
    /// Reserved by the driver.
    pub reserved: u64,
}

/// A MIG device, one part of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigDevice {
    /// Its index on the GPU.
    pub index: u32,
    /// Its profile's name.
    pub name: Reading<String>,
    /// Its UUID.
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
    /// Its PID.
    pub pid: u32,
    /// What it uses the GPU for.
    pub usage: Use,
    /// Bytes of GPU memory.
    pub gpu_memory: Reading<u64>,
    /// Percent of the GPU's time.
    pub gpu_utilization: Reading<u32>,
    /// The MIG device it runs on, by GPU instance.
    pub gpu_instance: Option<u32>,
    /// The operating system's view of it.
    pub host: Reading<HostProcess>,
}

/// A process as the operating system sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostProcess {
    /// The parent's PID.
    pub parent: u32,
    /// The user ID, on systems that have one.
    pub uid: Option<u32>,
    /// The user's name, or the user ID if it has none.
    pub user: String,
    /// The kernel's one-letter state: R, S, D, Z, T …; `-` on systems without one.
    pub state: char,
    /// When it started, by a clock of the operating system: together with the PID this identifies it.
    pub started: u64,
    /// The arguments; empty for a zombie, or without permission to read them.
    pub arguments: Vec<String>,
    /// Percent of one core.
    pub cpu_percent: Reading<f64>,
    /// Seconds over which `cpu_percent` was measured.
    pub cpu_seconds: f64,
    /// Bytes of main memory it uses.
    pub memory: u64,
    /// Seconds since it started.
    pub age: f64,
    /// The container it runs in, such as `docker:0123456789ab`.
    pub container: Option<String>,
    /// Set if the process uses PyTorch: the part of its GPU memory that is CUDA context.
    pub context: Option<CudaContext>,
}

impl Gpu {
    /// A GPU that cannot be read: every reading is missing for the same reason.
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

    /// Its name, or its last known one.
    pub fn known_name(&self) -> Option<&str> {
        self.name.as_deref().ok().or(self.last_known.as_ref().map(|known| known.name.as_str()))
    }

    /// Its UUID, or its last known one.
    pub fn known_uuid(&self) -> Option<&str> {
        self.uuid.as_deref().ok().or(self.last_known.as_ref().map(|known| known.uuid.as_str()))
    }
}

impl Process {
    /// The program's file name; `None` for a hidden process, `?` without arguments.
    pub fn command(&self) -> Option<&str> {
        let host = self.host.as_ref().ok()?;
        Some(host.arguments.first().map_or("?", |first| first.rsplit(['/', '\\']).next().unwrap_or(first)))
    }

    /// Whether the operating system hides it from this user.
    pub fn is_hidden(&self) -> bool {
        self.host.is_err()
    }
}
