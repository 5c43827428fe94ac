//! Samples as JSON.

use serde_json::{Value, json};
use vramfit_monitor::history::History;
use vramfit_monitor::reading::Reading;
use vramfit_monitor::sample::{Gpu, HostProcess, Memory, MigDevice, Process, Sample, Use, Vendor};

use super::clock::iso_time;
use super::shape::{
    BoundsReport, GpuReport, GpusReport, IdentityReport, MemoryReport, MigReport, ProcessReport, PyTorchReport,
    Reasons, UseName, VendorName,
};

/// A sample as in `gpustat --json`.
pub fn document(sample: &Sample) -> GpusReport {
    GpusReport {
        hostname: sample.hostname.clone(),
        driver_version: sample.driver_version.clone().ok(),
        query_time: iso_time(sample.taken_at),
        gpus: sample.gpus.iter().map(gpu).collect(),
        query_seconds: sample.took as f64 / 1e6,
        host_memory_bytes: sample.host_memory.clone().ok(),
    }
}

/// The last minutes by GPU, for the page: columns of times and percentages.
pub fn history(history: &History, sample: &Sample) -> Value {
    let gpus = sample.gpus.iter().map(|gpu| {
        let points: Vec<_> = history.of(gpu.index).collect();
        json!({
            "index": gpu.index,
            "at": points.iter().map(|point| point.at / 1000).collect::<Vec<u64>>(),
            "memory": points.iter().map(|point| point.memory.map(tenth)).collect::<Vec<Option<f64>>>(),
            "utilization": points.iter().map(|point| point.utilization.map(tenth)).collect::<Vec<Option<f64>>>(),
        })
    });
    json!({ "gpus": gpus.collect::<Vec<Value>>() })
}

fn tenth(value: f32) -> f64 {
    (f64::from(value) * 10.0).round() / 10.0
}

/// Collects why values are missing.
#[derive(Default)]
struct Collector(Reasons);

impl Collector {
    /// The value, or `None` with the reason noted under the value's key.
    fn read<T, V>(&mut self, key: &'static str, reading: &Reading<T>, show: impl FnOnce(&T) -> V) -> Option<V> {
        match reading {
            Ok(value) => Some(show(value)),
            Err(reason) => {
                self.0.insert(key, reason.to_string());
                None
            }
        }
    }

    fn memory(&mut self, memory: &Reading<Memory>) -> MemoryReport {
        MemoryReport {
            used: self.read("memory.used.bytes", memory, |memory| memory.used),
            total: self.read("memory.total.bytes", memory, |memory| memory.total),
            free: self.read("memory.free.bytes", memory, |memory| memory.free),
            reserved: self.read("memory.reserved.bytes", memory, |memory| memory.reserved),
        }
    }
}

fn gpu(gpu: &Gpu) -> GpuReport {
    let mut found = Collector::default();
    let last_known = gpu.last_known.as_ref();
    GpuReport {
        index: gpu.index,
        uuid: found.read("uuid", &gpu.uuid, Clone::clone),
        name: found.read("name", &gpu.name, Clone::clone),
        temperature: found.read("temperature.gpu", &gpu.temperature, |value| *value),
        fan_speed: found.read("fan.speed", &gpu.fan_speed, |value| *value),
        utilization: found.read("utilization.gpu", &gpu.utilization, |value| *value),
        encoder: found.read("utilization.enc", &gpu.encoder, |value| *value),
        decoder: found.read("utilization.dec", &gpu.decoder, |value| *value),
        power: found.read("power.draw", &gpu.power, |value| *value / 1000),
        power_limit: found.read("enforced.power.limit", &gpu.power_limit, |value| *value / 1000),
        memory_used: found.read("memory.used", &gpu.memory, |memory| memory.used >> 20),
        memory_total: found.read("memory.total", &gpu.memory, |memory| memory.total >> 20),
        processes: found.read("processes", &gpu.processes, |list| list.iter().map(process).collect()),
        vendor: match gpu.vendor {
            Vendor::Nvidia => VendorName::Nvidia,
            Vendor::Amd => VendorName::Amd,
        },
        unavailable: gpu.unavailable.as_ref().map(ToString::to_string),
        last_known: last_known.map(|known| IdentityReport { name: known.name.clone(), uuid: known.uuid.clone() }),
        memory: found.memory(&gpu.memory),
        power_milliwatts: found.read("power.draw.milliwatts", &gpu.power, |value| *value),
        mig: gpu.mig.iter().map(mig).collect(),
        missing: found.0,
    }
}

fn mig(device: &MigDevice) -> MigReport {
    let mut found = Collector::default();
    MigReport {
        index: device.index,
        uuid: found.read("uuid", &device.uuid, Clone::clone),
        name: found.read("name", &device.name, Clone::clone),
        memory: found.memory(&device.memory),
        missing: found.0,
    }
}

fn process(process: &Process) -> ProcessReport {
    let mut found = Collector::default();
    let host = &process.host;
    ProcessReport {
        username: found.read("username", host, |host| host.user.clone()),
        command: found.read("command", host, |_| process.command().map(str::to_owned)).flatten(),
        full_command: found.read("full_command", host, |host| match host.arguments.as_slice() {
            [] => vec!["?".to_owned()],
            arguments => arguments.to_vec(),
        }),
        gpu_memory_usage: found.read("gpu_memory_usage", &process.gpu_memory, |bytes| *bytes >> 20),
        cpu_percent: {
            let percent = host.as_ref().map_err(Clone::clone).and_then(|host| host.cpu_percent.clone());
            found.read("cpu_percent", &percent, |percent| *percent)
        },
        cpu_memory_usage: found.read("cpu_memory_usage", host, |host| host.memory),
        pid: process.pid,
        gpu_memory_bytes: found.read("gpu_memory_bytes", &process.gpu_memory, |bytes| *bytes),
        gpu_utilization: found.read("gpu_utilization", &process.gpu_utilization, |percent| *percent),
        r#type: match process.usage {
            Use::Compute => UseName::Compute,
            Use::Graphics => UseName::Graphics,
            Use::ComputeAndGraphics => UseName::Both,
        },
        hidden: process.is_hidden(),
        gpu_instance: process.gpu_instance,
        parent_pid: found.read("parent_pid", host, |host| host.parent),
        state: found.read("state", host, |host| host.state.to_string()),
        age_seconds: found.read("age_seconds", host, |host| host.age),
        cpu_percent_seconds: found.read("cpu_percent_seconds", host, |host| host.cpu_seconds),
        container: found.read("container", host, |host| host.container.clone()).flatten(),
        pytorch: host.as_ref().ok().and_then(|host| pytorch(process, host)),
        missing: found.0,
    }
}

/// How the memory of a process that uses PyTorch is divided.
fn pytorch(process: &Process, host: &HostProcess) -> Option<PyTorchReport> {
    let context = host.context?;
    let used = process.gpu_memory.as_ref().ok();
    let rest = used.map(|used| context.rest_of(*used));
    let context = used.map_or(context, |used| context.within(*used));
    Some(PyTorchReport {
        context_bytes: BoundsReport { low: context.low, high: context.high },
        allocator_bytes: rest.map(|(low, high)| BoundsReport { low, high }),
    })
}
