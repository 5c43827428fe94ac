//! A sample as OpenMetrics text, for Prometheus.

use std::fmt::{Display, Write};
use vramfit_monitor::reading::Reading;
use vramfit_monitor::sample::{Gpu, Process, Sample};

/// Its `Content-Type`.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is exposed besides the sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exposition {
    /// Whether each process has a series.
    pub processes: bool,
    /// Seconds since the sample was taken.
    pub age: f64,
    /// Samples taken since the start.
    pub samples: u64,
    /// Driver calls that hang.
    pub hanging_calls: usize,
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let Text(text) = self;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {help}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let Text(text) = self;
        text.push_str(name);
        if !labels.is_empty() {
            text.push('{');
            for (position, (key, label)) in labels.iter().enumerate() {
                let comma = if position == 0 { "" } else { "," };
                let _ = write!(text, "{comma}{key}=\"{}\"", escape(label));
            }
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Names, units and help of a GPU's gauges, and how each is read. A missing value has no series.
type Gauge = (&'static str, &'static str, &'static str, fn(&Gpu) -> Reading<f64>);

const GAUGES: [Gauge; 11] = [
    ("vramfit_gpu_memory_used_bytes", "bytes", "Memory in use.", |gpu| {
        gpu.memory.clone().map(|memory| memory.used as f64)
    }),
    ("vramfit_gpu_memory_free_bytes", "bytes", "Memory left.", |gpu| {
        gpu.memory.clone().map(|memory| memory.free as f64)
    }),
    ("vramfit_gpu_memory_reserved_bytes", "bytes", "Memory the driver keeps for itself.", |gpu| {
        gpu.memory.clone().map(|memory| memory.reserved as f64)
    }),
    ("vramfit_gpu_memory_total_bytes", "bytes", "All memory.", |gpu| {
        gpu.memory.clone().map(|memory| memory.total as f64)
    }),
    ("vramfit_gpu_utilization_ratio", "ratio", "Share of the time in which a kernel ran.", |gpu| {
        gpu.utilization.clone().map(percent)
    }),
    ("vramfit_gpu_encoder_utilization_ratio", "ratio", "Share of the time in which the encoder ran.", |gpu| {
        gpu.encoder.clone().map(percent)
    }),
    ("vramfit_gpu_decoder_utilization_ratio", "ratio", "Share of the time in which the decoder ran.", |gpu| {
        gpu.decoder.clone().map(percent)
    }),
    ("vramfit_gpu_fan_speed_ratio", "ratio", "Fan speed as a share of the full one.", |gpu| {
        gpu.fan_speed.clone().map(percent)
    }),
    ("vramfit_gpu_temperature_celsius", "celsius", "Temperature of the chip.", |gpu| {
        gpu.temperature.clone().map(f64::from)
    }),
    ("vramfit_gpu_power_watts", "watts", "Power drawn.", |gpu| {
        gpu.power.clone().map(|milliwatts| f64::from(milliwatts) / 1000.0)
    }),
    ("vramfit_gpu_power_limit_watts", "watts", "Power allowed.", |gpu| {
        gpu.power_limit.clone().map(|milliwatts| f64::from(milliwatts) / 1000.0)
    }),
];

fn percent(value: u32) -> f64 {
    f64::from(value) / 100.0
}

/// The whole exposition.
pub fn openmetrics(sample: &Sample, exposition: &Exposition) -> String {
    let mut text = Text(String::new());
    text.family("vramfit_build", "info", "", "The program that exports these metrics.");
    text.value("vramfit_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.family("vramfit_driver", "info", "", "The GPUs' driver.");
    if let Ok(version) = &sample.driver_version {
        text.value("vramfit_driver_info", &[("version", version)], 1);
    }
    text.family("vramfit_gpus", "gauge", "", "GPUs there are, lost ones included.");
    text.value("vramfit_gpus", &[], sample.gpus.len());
    text.family("vramfit_sample_age_seconds", "gauge", "seconds", "Time since these numbers were read.");
    text.value("vramfit_sample_age_seconds", &[], exposition.age);
    text.family("vramfit_sample_duration_seconds", "gauge", "seconds", "How long reading them took.");
    text.value("vramfit_sample_duration_seconds", &[], sample.took as f64 / 1e6);
    text.family("vramfit_samples", "counter", "", "Samples taken.");
    text.value("vramfit_samples_total", &[], exposition.samples);
    text.family("vramfit_hanging_calls", "gauge", "", "Calls into drivers and the kernel that have not come back.");
    text.value("vramfit_hanging_calls", &[], exposition.hanging_calls);

    text.family("vramfit_gpu_up", "gauge", "", "1 where the GPU can be read, 0 where it is lost.");
    for gpu in &sample.gpus {
        with_labels(gpu, |labels| text.value("vramfit_gpu_up", labels, u8::from(gpu.unavailable.is_none())));
    }
    for (name, unit, help, read) in GAUGES {
        text.family(name, "gauge", unit, help);
        for gpu in &sample.gpus {
            if let Ok(value) = read(gpu) {
                with_labels(gpu, |labels| text.value(name, labels, value));
            }
        }
    }
    text.family("vramfit_gpu_processes", "gauge", "", "Processes on the GPU, hidden ones included.");
    for gpu in &sample.gpus {
        if let Ok(processes) = &gpu.processes {
            with_labels(gpu, |labels| text.value("vramfit_gpu_processes", labels, processes.len()));
        }
    }
    if exposition.processes {
        processes(&mut text, sample);
    }
    text.0.push_str("# EOF\n");
    text.0
}

type ProcessGauge = (&'static str, &'static str, &'static str, fn(&Process) -> Option<f64>);

const PROCESS_GAUGES: [ProcessGauge; 5] = [
    ("vramfit_process_gpu_memory_bytes", "bytes", "GPU memory of a process.", |process| {
        process.gpu_memory.as_ref().ok().map(|bytes| *bytes as f64)
    }),
    ("vramfit_process_gpu_utilization_ratio", "ratio", "Share of the GPU's time of a process.", |process| {
        process.gpu_utilization.as_ref().ok().map(|value| percent(*value))
    }),
    ("vramfit_process_cpu_ratio", "ratio", "Processor cores a process uses.", |process| {
        process.host.as_ref().ok()?.cpu_percent.as_ref().ok().map(|value| value / 100.0)
    }),
    ("vramfit_process_resident_memory_bytes", "bytes", "Host memory of a process.", |process| {
        process.host.as_ref().ok().map(|host| host.memory as f64)
    }),
    ("vramfit_process_age_seconds", "seconds", "Time since a process began.", |process| {
        process.host.as_ref().ok().map(|host| host.age)
    }),
];

fn processes(text: &mut Text, sample: &Sample) {
    for (name, unit, help, read) in PROCESS_GAUGES {
        text.family(name, "gauge", unit, help);
        for gpu in &sample.gpus {
            for process in gpu.processes.iter().flatten() {
                let Some(value) = read(process) else { continue };
                let (index, pid) = (gpu.index.to_string(), process.pid.to_string());
                let host = process.host.as_ref().ok();
                let labels = [
                    ("gpu", index.as_str()),
                    ("uuid", gpu.known_uuid().unwrap_or("")),
                    ("pid", pid.as_str()),
                    ("user", host.map_or("", |host| host.user.as_str())),
                    ("command", process.command().unwrap_or("")),
                    ("container", host.and_then(|host| host.container.as_deref()).unwrap_or("")),
                ];
                text.value(name, &labels, value);
            }
        }
    }
}

/// A lost GPU keeps its last known labels.
fn with_labels(gpu: &Gpu, mut write: impl FnMut(&[(&str, &str)])) {
    let index = gpu.index.to_string();
    write(&[("gpu", &index), ("uuid", gpu.known_uuid().unwrap_or("")), ("name", gpu.known_name().unwrap_or(""))]);
}
