//! The shape of `vramfit gpus --json`: gpustat's keys in their order, then vramfit's own.

use indexmap::IndexMap;
use serde::Serialize;

/// Why values are null, by their keys.
pub(super) type Reasons = IndexMap<&'static str, String>;

/// One look at all GPUs. A value that could not be read is null, and `missing` beside it has the reason.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GpusReport {
    /// The machine's name.
    pub(super) hostname: String,
    /// The driver's version.
    pub(super) driver_version: Option<String>,
    /// When the sample was taken, in ISO 8601.
    pub(super) query_time: String,
    /// The GPUs, by index.
    pub(super) gpus: Vec<GpuReport>,
    /// How long it took.
    pub(super) query_seconds: f64,
    /// The machine's memory in bytes.
    pub(super) host_memory_bytes: Option<u64>,
}

impl GpusReport {
    /// Why values of GPUs are null: each key with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.gpus.iter().flat_map(|gpu| gpu.missing.iter().map(|(key, reason)| (*key, reason.as_str())))
    }
}

/// A GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Gpu"))]
pub(super) struct GpuReport {
    /// Its number on this machine.
    pub(super) index: usize,
    /// An identifier that stays over reboots.
    pub(super) uuid: Option<String>,
    /// The product's name.
    pub(super) name: Option<String>,
    /// Degrees Celsius.
    #[serde(rename = "temperature.gpu")]
    pub(super) temperature: Option<u32>,
    /// Percent of the fan's full speed.
    #[serde(rename = "fan.speed")]
    pub(super) fan_speed: Option<u32>,
    /// Percent of the time in which a kernel ran.
    #[serde(rename = "utilization.gpu")]
    pub(super) utilization: Option<u32>,
    /// Percent of the time in which the encoder ran.
    #[serde(rename = "utilization.enc")]
    pub(super) encoder: Option<u32>,
    /// Percent of the time in which the decoder ran.
    #[serde(rename = "utilization.dec")]
    pub(super) decoder: Option<u32>,
    /// Watts drawn.
    #[serde(rename = "power.draw")]
    pub(super) power: Option<u32>,
    /// Watts allowed.
    #[serde(rename = "enforced.power.limit")]
    pub(super) power_limit: Option<u32>,
    /// MiB in use by processes.
    #[serde(rename = "memory.used")]
    pub(super) memory_used: Option<u64>,
    /// MiB in all.
    #[serde(rename = "memory.total")]
    pub(super) memory_total: Option<u64>,
    /// The processes on it.
    pub(super) processes: Option<Vec<ProcessReport>>,
    /// Who made it.
    pub(super) vendor: VendorName,
    /// Why the GPU as a whole cannot be read.
    pub(super) unavailable: Option<String>,
    /// Name and identifier when it could last be read.
    pub(super) last_known: Option<IdentityReport>,
    #[serde(flatten)]
    pub(super) memory: MemoryReport,
    /// Milliwatts drawn.
    #[serde(rename = "power.draw.milliwatts")]
    pub(super) power_milliwatts: Option<u32>,
    /// The devices it is split into, where MIG is on.
    pub(super) mig: Vec<MigReport>,
    /// Why a value is null, by its key.
    pub(super) missing: Reasons,
}

/// Who made a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Vendor"))]
#[serde(rename_all = "lowercase")]
pub(super) enum VendorName {
    /// Read through NVML.
    Nvidia,
    /// Read through sysfs.
    Amd,
}

/// What a GPU is called.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Identity"))]
pub(super) struct IdentityReport {
    /// The product's name.
    pub(super) name: String,
    /// An identifier that stays over reboots.
    pub(super) uuid: String,
}

/// Bytes of memory.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Memory"))]
pub(super) struct MemoryReport {
    /// In use by processes.
    #[serde(rename = "memory.used.bytes")]
    pub(super) used: Option<u64>,
    /// In all.
    #[serde(rename = "memory.total.bytes")]
    pub(super) total: Option<u64>,
    /// Left.
    #[serde(rename = "memory.free.bytes")]
    pub(super) free: Option<u64>,
    /// Kept by the driver for itself.
    #[serde(rename = "memory.reserved.bytes")]
    pub(super) reserved: Option<u64>,
}

/// A part of a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MigDevice"))]
pub(super) struct MigReport {
    /// Its number on the GPU.
    pub(super) index: u32,
    /// Its identifier.
    pub(super) uuid: Option<String>,
    /// Its profile's name.
    pub(super) name: Option<String>,
    #[serde(flatten)]
    pub(super) memory: MemoryReport,
    /// Why a value is null, by its key.
    pub(super) missing: Reasons,
}

/// A process on a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Process"))]
pub(super) struct ProcessReport {
    /// Its user.
    pub(super) username: Option<String>,
    /// The command's name without its folder.
    pub(super) command: Option<String>,
    /// The command's words.
    pub(super) full_command: Option<Vec<String>>,
    /// MiB of GPU memory.
    pub(super) gpu_memory_usage: Option<u64>,
    /// Percent of one CPU core.
    pub(super) cpu_percent: Option<f64>,
    /// Bytes of the machine's memory.
    pub(super) cpu_memory_usage: Option<u64>,
    /// Its number.
    pub(super) pid: u32,
    /// Bytes of GPU memory.
    pub(super) gpu_memory_bytes: Option<u64>,
    /// Percent of the GPU's time.
    pub(super) gpu_utilization: Option<u32>,
    /// What it does on the GPU, in nvidia-smi's letters.
    pub(super) r#type: UseName,
    /// Whether the operating system does not show it from here.
    pub(super) hidden: bool,
    /// The MIG device it runs on, by GPU instance.
    pub(super) gpu_instance: Option<u32>,
    /// Its parent's number.
    pub(super) parent_pid: Option<u32>,
    /// The kernel's one-letter state.
    pub(super) state: Option<String>,
    /// Seconds since it began.
    pub(super) age_seconds: Option<f64>,
    /// Seconds over which `cpu_percent` was measured.
    pub(super) cpu_percent_seconds: Option<f64>,
    /// The container it runs in.
    pub(super) container: Option<String>,
    /// How its memory is divided, where it uses PyTorch.
    pub(super) pytorch: Option<PyTorchReport>,
    /// Why a value is null, by its key.
    pub(super) missing: Reasons,
}

/// What a process does on a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Use"))]
pub(super) enum UseName {
    /// CUDA, ROCm.
    #[serde(rename = "C")]
    Compute,
    /// OpenGL, Vulkan.
    #[serde(rename = "G")]
    Graphics,
    /// Both.
    #[serde(rename = "C+G")]
    Both,
}

/// How a PyTorch process's memory is divided.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PyTorch"))]
pub(super) struct PyTorchReport {
    /// The CUDA context.
    pub(super) context_bytes: BoundsReport,
    /// What the caching allocator has reserved.
    pub(super) allocator_bytes: Option<BoundsReport>,
}

/// Bounds of a number of bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Bounds"))]
pub(super) struct BoundsReport {
    /// The lower bound.
    pub(super) low: u64,
    /// The upper bound.
    pub(super) high: u64,
}
