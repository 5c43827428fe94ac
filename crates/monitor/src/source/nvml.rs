//! NVIDIA's GPUs through NVML.

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{MemoryInfo, ProcessInfo};
use nvml_wrapper::{Device, Nvml};
use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Source;
use crate::platform::NoDriver;
use crate::question::{Answer, ListedProcess, Question};
use crate::reading::{Missing, Reading};
use crate::sample::{Memory, MigDevice, Vendor};

/// More GPUs than any machine has.
const MAX_GPUS: usize = 64;
/// Process utilisation is queried for the last second.
const SHARE_WINDOW_MICROSECONDS: u64 = 1_000_000;

/// NVML, initialised. It is never shut down, because a hanging call may still be inside it.
pub struct NvmlSource {
    nvml: &'static Nvml,
    /// The newest process-utilisation sample seen on each GPU, by NVML's clock.
    newest_share: [AtomicU64; MAX_GPUS],
}

impl NvmlSource {
    /// Loads NVML from `library` and initialises it.
    pub fn open(library: &OsStr) -> Result<NvmlSource, NoDriver> {
        match Nvml::builder().lib_path(library).init() {
            Ok(nvml) => Ok(NvmlSource {
                nvml: Box::leak(Box::new(nvml)),
                newest_share: [const { AtomicU64::new(0) }; MAX_GPUS],
            }),
            Err(error) => Err(no_driver(&error)),
        }
    }

    fn device(&self, gpu: usize) -> Reading<Device<'static>> {
        let index = u32::try_from(gpu).map_err(|_| Missing::NotSupported)?;
        self.nvml.device_by_index(index).map_err(missing)
    }

    fn shares(&self, gpu: usize, device: &Device<'_>) -> Reading<Answer> {
        let newest = self.newest_share.get(gpu).ok_or(Missing::NotSupported)?;
        let since = newest.load(Ordering::Relaxed).saturating_sub(SHARE_WINDOW_MICROSECONDS);
        let samples = match device.process_utilization_stats(since) {
            Ok(samples) => samples,
            // NVML's answer if no process has used the GPU since.
            Err(NvmlError::NotFound) => return Ok(Answer::Shares(Vec::new())),
            Err(error) => return Err(missing(error)),
        };
        let last = samples.iter().map(|sample| sample.timestamp).max().unwrap_or(0);
        newest.fetch_max(last, Ordering::Relaxed);
        let mut latest: Vec<(u32, u64, u32)> = Vec::new();
        for sample in samples.iter().filter(|sample| sample.pid != 0) {
            match latest.iter_mut().find(|known| known.0 == sample.pid) {
                Some(known) if known.1 >= sample.timestamp => {}
                Some(known) => *known = (sample.pid, sample.timestamp, sample.sm_util),
                None => latest.push((sample.pid, sample.timestamp, sample.sm_util)),
            }
        }
        Ok(Answer::Shares(latest.into_iter().map(|(pid, _, share)| (pid, share)).collect()))
    }
}

impl Source for NvmlSource {
    fn vendor(&self) -> Vendor {
        Vendor::Nvidia
    }

    fn driver_version(&self) -> Reading<String> {
        self.nvml.sys_driver_version().map_err(missing)
    }

    fn gpu_count(&self) -> Reading<usize> {
        self.nvml.device_count().map(|count| count as usize).map_err(missing)
    }

    fn ask(&self, gpu: usize, question: Question) -> Reading<Answer> {
        let device = self.device(gpu)?;
        let answer = match question {
            Question::Name => device.name().map(Answer::Text),
            Question::Uuid => device.uuid().map(Answer::Text),
            Question::Temperature => device.temperature(TemperatureSensor::Gpu).map(Answer::Number),
            Question::FanSpeed => {
                return match device.fan_speed(0) {
                    Ok(percent) => Ok(Answer::Number(percent)),
                    // NVML's answer for a GPU without fans.
                    Err(NvmlError::InvalidArg) => Err(Missing::NotSupported),
                    Err(error) => Err(missing(error)),
                };
            }
            Question::Memory => {
                return match device.memory_info() {
                    Ok(info) => Ok(Answer::Memory(memory(info))),
                    // Every GPU with its own memory reports this; those that share main memory (GB10, Thor) do not.
                    Err(NvmlError::NotSupported) => Err(Missing::UnifiedMemory),
                    Err(error) => Err(missing(error)),
                };
            }
            Question::Utilization => device.utilization_rates().map(|rates| Answer::Number(rates.gpu)),
            Question::Encoder => device.encoder_utilization().map(|info| Answer::Number(info.utilization)),
            Question::Decoder => device.decoder_utilization().map(|info| Answer::Number(info.utilization)),
            Question::Power => device.power_usage().map(Answer::Number),
            Question::PowerLimit => device.enforced_power_limit().map(Answer::Number),
            Question::ComputeProcesses => device.running_compute_processes().map(processes),
            Question::GraphicsProcesses => device.running_graphics_processes().map(processes),
            Question::ProcessUtilization => return self.shares(gpu, &device),
            Question::Mig => return mig(&device),
        };
        answer.map_err(missing)
    }
}

fn memory(info: MemoryInfo) -> Memory {
    Memory { total: info.total, used: info.used, free: info.free, reserved: info.reserved }
}

fn processes(list: Vec<ProcessInfo>) -> Answer {
    let listed = |info: ProcessInfo| ListedProcess {
        pid: info.pid,
        memory: match info.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Ok(bytes),
            UsedGpuMemory::Unavailable => Err(Missing::NotSupported),
        },
        gpu_instance: info.gpu_instance_id,
    };
    Answer::Processes(list.into_iter().map(listed).collect())
}

fn mig(device: &Device<'_>) -> Reading<Answer> {
    match device.mig_mode() {
        Ok(mode) if mode.current == 1 => {}
        Ok(_) | Err(NvmlError::NotSupported) => return Ok(Answer::Mig(None)),
        Err(error) => return Err(missing(error)),
    }
    let count = device.mig_device_count().map_err(missing)?;
    let mut devices = Vec::new();
    for index in 0..count {
        // An index without a device is an error; higher ones may have devices.
        let Ok(part) = device.mig_device_by_index(index) else { continue };
        devices.push(MigDevice {
            index,
            name: part.name().map_err(missing),
            uuid: part.uuid().map_err(missing),
            memory: part.memory_info().map(memory).map_err(missing),
        });
    }
    Ok(Answer::Mig(Some(devices)))
}

fn missing(error: NvmlError) -> Missing {
    match error {
        NvmlError::NotSupported => Missing::NotSupported,
        NvmlError::NoPermission => Missing::NoPermission,
        NvmlError::GpuLost => Missing::Lost,
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => Missing::OldDriver,
        NvmlError::Timeout => Missing::NoAnswer,
        other => Missing::Failed(other.to_string()),
    }
}

fn no_driver(error: &NvmlError) -> NoDriver {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => NoDriver::NoLibrary,
        NvmlError::DriverNotLoaded => NoDriver::NotLoaded,
        NvmlError::LibRmVersionMismatch => NoDriver::Mismatch { loaded: None, library: None },
        NvmlError::NoPermission => NoDriver::NoPermission,
        other => NoDriver::Failed(other.to_string()),
    }
}
