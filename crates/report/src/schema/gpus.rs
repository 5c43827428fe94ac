//! The shape of `vramfit gpus --json`, which [`crate::gpus`] writes: gpustat's keys, then vramfit's own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// One look at all GPUs. A value that could not be read is null, and `missing` beside it has the reason.
#[derive(JsonSchema, Serialize)]
pub struct GpusReport {
    /// The machine's name.
    hostname: String,
    /// The driver's version.
    driver_version: Option<String>,
    /// When the sample was taken, in ISO 8601.
    query_time: String,
    /// The GPUs, by index.
    gpus: Vec<Gpu>,
    /// How long it took.
    query_seconds: f64,
    /// The machine's memory in bytes.
    host_memory_bytes: Option<u64>,
}

/// A GPU.
#[derive(JsonSchema, Serialize)]
struct Gpu {
    /// Its number on this machine.
    index: u32,
    /// An identifier that stays over reboots.
    uuid: Option<String>,
    /// The product's name.
    name: Option<String>,
    /// Degrees Celsius.
    #[serde(rename = "temperature.gpu")]
    temperature: Option<u32>,
    /// Percent of the fan's full speed.
    #[serde(rename = "fan.speed")]
    fan_speed: Option<u32>,
    /// Percent of the time in which a kernel ran.
    #[serde(rename = "utilization.gpu")]
    utilization: Option<u32>,
    /// Percent of the time in which the encoder ran.
    #[serde(rename = "utilization.enc")]
    encoder: Option<u32>,
    /// Percent of the time in which the decoder ran.
    #[serde(rename = "utilization.dec")]
    decoder: Option<u32>,
    /// Watts drawn.
    #[serde(rename = "power.draw")]
    power: Option<u32>,
    /// Watts allowed.
    #[serde(rename = "enforced.power.limit")]
    power_limit: Option<u32>,
    /// MiB in use by processes.
    #[serde(rename = "memory.used")]
    memory_used: Option<u64>,
    /// MiB in all.
    #[serde(rename = "memory.total")]
    memory_total: Option<u64>,
    /// The processes on it.
    processes: Option<Vec<Process>>,
    /// Who made it.
    vendor: Vendor,
    /// Why the GPU as a whole cannot be read.
    unavailable: Option<String>,
    /// Name and identifier when it could last be read.
    last_known: Option<Identity>,
    #[serde(flatten)]
    memory: Memory,
    /// Milliwatts drawn.
    #[serde(rename = "power.draw.milliwatts")]
    power_milliwatts: Option<u32>,
    /// The devices it is split into, where MIG is on.
    mig: Vec<MigDevice>,
    /// Why a value is null, by its key.
    missing: BTreeMap<String, String>,
}

/// Who made a GPU.
#[allow(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Vendor {
    /// Read through NVML.
    Nvidia,
    /// Read through sysfs.
    Amd,
}

/// What a GPU is called.
#[derive(JsonSchema, Serialize)]
struct Identity {
    /// The product's name.
    name: String,
    /// An identifier that stays over reboots.
    uuid: String,
}

/// Bytes of memory.
#[derive(JsonSchema, Serialize)]
struct Memory {
    /// In use by processes.
    #[serde(rename = "memory.used.bytes")]
    used: Option<u64>,
    /// In all.
    #[serde(rename = "memory.total.bytes")]
    total: Option<u64>,
    /// Left.
    #[serde(rename = "memory.free.bytes")]
    free: Option<u64>,
    /// Kept by the driver for itself.
    #[serde(rename = "memory.reserved.bytes")]
    reserved: Option<u64>,
}

/// A part of a GPU.
#[derive(JsonSchema, Serialize)]
struct MigDevice {
    /// Its number on the GPU.
    index: u32,
    /// Its identifier.
    uuid: Option<String>,
    /// Its profile's name.
    name: Option<String>,
    #[serde(flatten)]
    memory: Memory,
    /// Why a value is null, by its key.
    missing: BTreeMap<String, String>,
}

/// A process on a GPU.
#[derive(JsonSchema, Serialize)]
struct Process {
    /// Its user.
    username: Option<String>,
    /// The command's name without its folder.
    command: Option<String>,
    /// The command's words.
    full_command: Option<Vec<String>>,
    /// MiB of GPU memory.
    gpu_memory_usage: Option<u64>,
    /// Percent of one CPU core.
    cpu_percent: Option<f64>,
    /// Bytes of the machine's memory.
    cpu_memory_usage: Option<u64>,
    /// Its number.
    pid: u32,
    /// Bytes of GPU memory.
    gpu_memory_bytes: Option<u64>,
    /// Percent of the GPU's time.
    gpu_utilization: Option<u32>,
    /// What it does on the GPU, in nvidia-smi's letters.
    r#type: Use,
    /// Whether the operating system does not show it from here.
    hidden: bool,
    /// The MIG device it runs on, by GPU instance.
    gpu_instance: Option<u32>,
    /// Its parent's number.
    parent_pid: Option<u32>,
    /// The kernel's one-letter state.
    state: Option<String>,
    /// Seconds since it began.
    age_seconds: Option<f64>,
    /// Seconds over which `cpu_percent` was measured.
    cpu_percent_seconds: Option<f64>,
    /// The container it runs in.
    container: Option<String>,
    /// How its memory is divided, where it uses PyTorch.
    pytorch: Option<PyTorch>,
    /// Why a value is null, by its key.
    missing: BTreeMap<String, String>,
}

/// What a process does on a GPU.
#[allow(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema, Serialize)]
enum Use {
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
#[derive(JsonSchema, Serialize)]
struct PyTorch {
    /// The CUDA context.
    context_bytes: Bounds,
    /// What the caching allocator has reserved.
    allocator_bytes: Option<Bounds>,
}

/// Bounds of a number of bytes.
#[derive(JsonSchema, Serialize)]
struct Bounds {
    /// The lower bound.
    low: u64,
    /// The upper bound.
    high: u64,
}
