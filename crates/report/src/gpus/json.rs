//! gpustat's JSON with the same keys in the same order, then vramfit's own keys.

use serde_json::{Map, Value, json};
use vramfit_monitor::history::History;
use vramfit_monitor::reading::Reading;
use vramfit_monitor::sample::{Gpu, Memory, MigDevice, Process, Sample, Use};

use super::clock::iso_time;

/// A sample as in `gpustat --json`.
pub fn document(sample: &Sample) -> Value {
    json!({
        "hostname": sample.hostname,
        "driver_version": sample.driver_version.as_ref().ok(),
        "query_time": iso_time(sample.taken_at),
        "gpus": sample.gpus.iter().map(gpu).collect::<Vec<Value>>(),
        "query_seconds": sample.took as f64 / 1e6,
        "host_memory_bytes": sample.host_memory.as_ref().ok(),
    })
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

/// An object in which a missing value is null and `missing` has its reason.
#[derive(Default)]
struct Entry {
    fields: Map<String, Value>,
    missing: Map<String, Value>,
}

impl Entry {
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.fields.insert(key.to_owned(), value.into());
    }

    fn read<T, V: Into<Value>>(&mut self, key: &str, reading: &Reading<T>, show: impl FnOnce(&T) -> V) {
        match reading {
            Ok(value) => self.put(key, show(value)),
            Err(reason) => {
                self.put(key, Value::Null);
                self.missing.insert(key.to_owned(), reason.to_string().into());
            }
        }
    }

    fn finish(mut self) -> Value {
        self.fields.insert("missing".to_owned(), self.missing.into());
        self.fields.into()
    }
}

fn gpu(gpu: &Gpu) -> Value {
    let mut entry = Entry::default();
    entry.put("index", gpu.index);
    entry.read("uuid", &gpu.uuid, Clone::clone);
    entry.read("name", &gpu.name, Clone::clone);
    entry.read("temperature.gpu", &gpu.temperature, |value| *value);
    entry.read("fan.speed", &gpu.fan_speed, |value| *value);
    entry.read("utilization.gpu", &gpu.utilization, |value| *value);
    entry.read("utilization.enc", &gpu.encoder, |value| *value);
    entry.read("utilization.dec", &gpu.decoder, |value| *value);
    entry.read("power.draw", &gpu.power, |value| *value / 1000);
    entry.read("enforced.power.limit", &gpu.power_limit, |value| *value / 1000);
    entry.read("memory.used", &gpu.memory, |memory| memory.used >> 20);
    entry.read("memory.total", &gpu.memory, |memory| memory.total >> 20);
    entry.read("processes", &gpu.processes, |list| list.iter().map(process).collect::<Vec<Value>>());
    entry.put("vendor", json!(gpu.vendor));
    entry.put("unavailable", gpu.unavailable.as_ref().map(ToString::to_string));
    entry.put("last_known", json!(gpu.last_known));
    for (key, bytes) in MEMORY_BYTES {
        entry.read(key, &gpu.memory, bytes);
    }
    entry.read("power.draw.milliwatts", &gpu.power, |value| *value);
    entry.put("mig", gpu.mig.iter().map(mig).collect::<Vec<Value>>());
    entry.finish()
}

/// A key and its value.
type MemoryKey = (&'static str, fn(&Memory) -> u64);

const MEMORY_BYTES: [MemoryKey; 4] = [
    ("memory.used.bytes", |memory| memory.used),
    ("memory.total.bytes", |memory| memory.total),
    ("memory.free.bytes", |memory| memory.free),
    ("memory.reserved.bytes", |memory| memory.reserved),
];

fn mig(device: &MigDevice) -> Value {
    let mut entry = Entry::default();
    entry.put("index", device.index);
    entry.read("uuid", &device.uuid, Clone::clone);
    entry.read("name", &device.name, Clone::clone);
    for (key, bytes) in MEMORY_BYTES {
        entry.read(key, &device.memory, bytes);
    }
    entry.finish()
}

fn process(process: &Process) -> Value {
    let mut entry = Entry::default();
    let host = &process.host;
    entry.read("username", host, |host| host.user.clone());
    entry.read("command", host, |_| process.command().map(str::to_owned));
    entry.read("full_command", host, |host| match host.arguments.as_slice() {
        [] => vec!["?".to_owned()],
        arguments => arguments.to_vec(),
    });
    entry.read("gpu_memory_usage", &process.gpu_memory, |bytes| *bytes >> 20);
    match host {
        Ok(host) => entry.read("cpu_percent", &host.cpu_percent, |percent| *percent),
        Err(_) => entry.read("cpu_percent", host, |_| Value::Null),
    }
    entry.read("cpu_memory_usage", host, |host| host.memory);
    entry.put("pid", process.pid);
    entry.read("gpu_memory_bytes", &process.gpu_memory, |bytes| *bytes);
    entry.read("gpu_utilization", &process.gpu_utilization, |percent| *percent);
    entry.put("type", type_of(process.usage));
    entry.put("hidden", process.is_hidden());
    entry.put("gpu_instance", process.gpu_instance);
    entry.read("parent_pid", host, |host| host.parent);
    entry.read("state", host, |host| host.state.to_string());
    entry.read("age_seconds", host, |host| host.age);
    entry.read("cpu_percent_seconds", host, |host| host.cpu_seconds);
    entry.read("container", host, |host| host.container.clone());
    let context = host.as_ref().ok().and_then(|host| host.context);
    let pytorch = context.map(|context| {
        let used = process.gpu_memory.as_ref().ok();
        let rest = used.map(|used| context.rest_of(*used));
        let context = used.map_or(context, |used| context.within(*used));
        json!({
            "context_bytes": { "low": context.low, "high": context.high },
            "allocator_bytes": rest.map(|(low, high)| json!({ "low": low, "high": high })),
        })
    });
    entry.put("pytorch", pytorch);
    entry.finish()
}

/// nvidia-smi's letters.
fn type_of(usage: Use) -> &'static str {
    match usage {
        Use::Compute => "C",
        Use::Graphics => "G",
        Use::ComputeAndGraphics => "C+G",
    }
}
