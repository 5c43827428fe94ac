//! A `libnvidia-ml.so.1` for tests. It answers from the file that `NVML_STANDIN_SCENARIO` names, so that any client of
//! NVML (vramfit, gpustat) can be run on machines that do not exist: sixteen GPUs, a lost one, a call that hangs.

#![allow(non_snake_case, clippy::missing_safety_doc, reason = "NVML's own names; its header is the documentation")]

mod scenario;

use scenario::{Gpu, Memory, Process, Scenario, call};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
const NOT_AVAILABLE: u64 = u64::MAX;
const NO_INSTANCE: u32 = u32::MAX;

type Device = *mut c_void;

/// A handle encodes the GPU's index and the MIG device's index plus one.
fn handle(gpu: usize, mig: Option<usize>) -> Device {
    std::ptr::without_provenance_mut(0x10_000 + gpu * 0x100 + mig.map_or(0, |mig| mig + 1))
}

fn gpu_and_mig(device: Device) -> (usize, Option<usize>) {
    let number = device.addr().wrapping_sub(0x10_000);
    (number / 0x100, (number % 0x100).checked_sub(1))
}

fn code(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(0)
}

/// Writes through a pointer of the caller.
fn put<T>(target: *mut T, value: T) -> Result<(), u32> {
    if target.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: NVML's contract: the caller gives room for one value.
    unsafe { target.write(value) };
    Ok(())
}

fn put_text(target: *mut c_char, length: c_uint, text: &str) -> Result<(), u32> {
    if target.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() + 1 > length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: NVML's contract: the caller gives room for `length` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), target, text.len());
        target.add(text.len()).write(0);
    }
    Ok(())
}

/// Answers a call about one GPU.
fn ask<T>(function: &str, device: Device, answer: impl FnOnce(&Gpu, Option<usize>, u64) -> Result<T, u32>) -> Result<T, u32> {
    let (gpu, mig) = gpu_and_mig(device);
    call(function, Some(gpu), |scenario, count| answer(scenario.gpus.get(gpu).ok_or(INVALID_ARGUMENT)?, mig, count))
}

fn number(function: &str, device: Device, target: *mut c_uint, field: impl FnOnce(&Gpu) -> Option<u32>) -> u32 {
    code(ask(function, device, |gpu, _, _| field(gpu).ok_or(NOT_SUPPORTED)).and_then(|value| put(target, value)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> u32 {
    code(call("nvmlInit", None, |_, _| Ok(())))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> u32 {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> u32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    let text = match code {
        0 => c"Success",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        9 => c"Driver Not Loaded",
        15 => c"GPU is lost",
        18 => c"Driver/library version mismatch",
        999 => c"Unknown Error",
        _ => c"Stand-in error",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(target: *mut c_char, length: c_uint) -> u32 {
    let version = call("nvmlSystemGetDriverVersion", None, |scenario: &Scenario, _| Ok(scenario.driver_version.clone()));
    code(version.and_then(|version| put_text(target, length, &version)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(target: *mut c_uint) -> u32 {
    let count = call("nvmlDeviceGetCount", None, |scenario, _| Ok(scenario.gpus.len() as c_uint));
    code(count.and_then(|count| put(target, count)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, target: *mut Device) -> u32 {
    let gpu = index as usize;
    let found = call("nvmlDeviceGetHandleByIndex", Some(gpu), |scenario, _| {
        scenario.gpus.get(gpu).map(|_| handle(gpu, None)).ok_or(INVALID_ARGUMENT)
    });
    code(found.and_then(|device| put(target, device)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetIndex(device: Device, target: *mut c_uint) -> u32 {
    code(ask("nvmlDeviceGetIndex", device, |_, _, _| Ok(gpu_and_mig(device).0 as c_uint)).and_then(|index| put(target, index)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(device: Device, target: *mut c_char, length: c_uint) -> u32 {
    let name = ask("nvmlDeviceGetName", device, |gpu, mig, _| match (mig, &gpu.mig) {
        (Some(number), Some(parts)) => Ok(parts.get(number).ok_or(INVALID_ARGUMENT)?.name.clone()),
        _ => Ok(gpu.name.clone()),
    });
    code(name.and_then(|name| put_text(target, length, &name)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(device: Device, target: *mut c_char, length: c_uint) -> u32 {
    let uuid = ask("nvmlDeviceGetUUID", device, |gpu, mig, _| match (mig, &gpu.mig) {
        (Some(number), Some(parts)) => Ok(parts.get(number).ok_or(INVALID_ARGUMENT)?.uuid.clone()),
        _ => Ok(gpu.uuid.clone()),
    });
    code(uuid.and_then(|uuid| put_text(target, length, &uuid)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperature(device: Device, _sensor: c_uint, target: *mut c_uint) -> u32 {
    number("nvmlDeviceGetTemperature", device, target, |gpu| gpu.temperature)
}

/// The newer call for the same.
#[repr(C)]
pub struct Temperature {
    version: c_uint,
    sensor: c_uint,
    temperature: c_int,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperatureV(device: Device, target: *mut Temperature) -> u32 {
    let value = ask("nvmlDeviceGetTemperature", device, |gpu, _, _| gpu.temperature.ok_or(NOT_SUPPORTED));
    code(value.and_then(|value| {
        if target.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: NVML's contract: the caller gives room for the structure.
        unsafe { (*target).temperature = value as c_int };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetFanSpeed(device: Device, target: *mut c_uint) -> u32 {
    number("nvmlDeviceGetFanSpeed", device, target, |gpu| gpu.fan)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetFanSpeed_v2(device: Device, _fan: c_uint, target: *mut c_uint) -> u32 {
    nvmlDeviceGetFanSpeed(device, target)
}

fn memory(device: Device) -> Result<Memory, u32> {
    ask("nvmlDeviceGetMemoryInfo", device, |gpu, mig, _| match (mig, &gpu.mig) {
        (Some(number), Some(parts)) => Ok(parts.get(number).ok_or(INVALID_ARGUMENT)?.memory),
        _ => gpu.memory.ok_or(NOT_SUPPORTED),
    })
}

#[repr(C)]
pub struct MemoryV1 {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, target: *mut MemoryV1) -> u32 {
    // The first version counts what the driver keeps as used.
    let value = memory(device).map(|memory| MemoryV1 { total: memory.total, free: memory.free, used: memory.used + memory.reserved });
    code(value.and_then(|value| put(target, value)))
}

#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, target: *mut MemoryV2) -> u32 {
    let version = size_of::<MemoryV2>() as c_uint | 2 << 24;
    let value = memory(device).map(|memory| MemoryV2 {
        version,
        total: memory.total,
        reserved: memory.reserved,
        free: memory.free,
        used: memory.used,
    });
    code(value.and_then(|value| put(target, value)))
}

#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, target: *mut Utilization) -> u32 {
    let rates = ask("nvmlDeviceGetUtilizationRates", device, |gpu, _, _| gpu.utilization.ok_or(NOT_SUPPORTED));
    code(rates.and_then(|gpu| put(target, Utilization { gpu, memory: gpu / 2 })))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEncoderUtilization(device: Device, target: *mut c_uint, period: *mut c_uint) -> u32 {
    match number("nvmlDeviceGetEncoderUtilization", device, target, |gpu| gpu.encoder) {
        0 => code(put(period, 167_000)),
        error => error,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetDecoderUtilization(device: Device, target: *mut c_uint, period: *mut c_uint) -> u32 {
    match number("nvmlDeviceGetDecoderUtilization", device, target, |gpu| gpu.decoder) {
        0 => code(put(period, 167_000)),
        error => error,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerUsage(device: Device, target: *mut c_uint) -> u32 {
    number("nvmlDeviceGetPowerUsage", device, target, |gpu| gpu.power)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Device, target: *mut c_uint) -> u32 {
    number("nvmlDeviceGetEnforcedPowerLimit", device, target, |gpu| gpu.power_limit)
}

#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// With too little room it says how much is needed. Only calls that get the list count as calls.
fn list(function: &str, device: Device, count: *mut c_uint, target: *mut ProcessInfo, field: fn(&Gpu) -> &Option<Vec<Process>>) -> u32 {
    let (gpu, _) = gpu_and_mig(device);
    let found = ask(function, device, |gpu, _, _| field(gpu).clone().ok_or(NOT_SUPPORTED)).and_then(|all| {
        if count.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        let past = call(&format!("{function} (lists)"), Some(gpu), |_, past| Ok(past / 2))?;
        let now: Vec<Process> = all.into_iter().filter(|process| process.calls.is_none_or(|calls| past < calls)).collect();
        // SAFETY: NVML's contract: `count` holds how many entries there is room for.
        let room = unsafe { count.read() } as usize;
        put(count, now.len() as c_uint)?;
        if room < now.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        for (position, process) in now.iter().enumerate() {
            let info = ProcessInfo {
                pid: process.pid,
                memory: process.memory.unwrap_or(NOT_AVAILABLE),
                gpu_instance: process.gpu_instance.unwrap_or(NO_INSTANCE),
                compute_instance: process.gpu_instance.map_or(NO_INSTANCE, |_| 0),
            };
            // SAFETY: `position` is within the room the caller gave.
            put(unsafe { target.add(position) }, info)?;
        }
        Ok(())
    });
    code(found)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(device: Device, count: *mut c_uint, target: *mut ProcessInfo) -> u32 {
    list("nvmlDeviceGetComputeRunningProcesses", device, count, target, |gpu| &gpu.compute)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Device, count: *mut c_uint, target: *mut ProcessInfo) -> u32 {
    list("nvmlDeviceGetGraphicsRunningProcesses", device, count, target, |gpu| &gpu.graphics)
}

#[repr(C)]
pub struct Share {
    pid: c_uint,
    time: c_ulonglong,
    gpu: c_uint,
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetProcessUtilization(device: Device, target: *mut Share, count: *mut c_uint, _since: c_ulonglong) -> u32 {
    let found = ask("nvmlDeviceGetProcessUtilization", device, |gpu, _, _| {
        if gpu.mig.is_some() {
            return Err(NOT_SUPPORTED);
        }
        Ok(gpu.compute.clone().unwrap_or_default())
    })
    .and_then(|all| {
        let busy: Vec<Process> = all.into_iter().filter(|process| process.utilization > 0).collect();
        if busy.is_empty() {
            return Err(NOT_FOUND);
        }
        if count.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: NVML's contract: `count` holds how many entries there is room for.
        let room = unsafe { count.read() } as usize;
        put(count, busy.len() as c_uint)?;
        if room < busy.len() || target.is_null() {
            return Err(INSUFFICIENT_SIZE);
        }
        for (position, process) in busy.iter().enumerate() {
            let share = Share { pid: process.pid, time: 1, gpu: process.utilization, memory: 0, encoder: 0, decoder: 0 };
            // SAFETY: `position` is within the room the caller gave.
            put(unsafe { target.add(position) }, share)?;
        }
        Ok(())
    });
    code(found)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(device: Device, current: *mut c_uint, pending: *mut c_uint) -> u32 {
    let mode = ask("nvmlDeviceGetMigMode", device, |gpu, _, _| Ok(c_uint::from(gpu.mig.is_some())));
    code(mode.and_then(|mode| put(current, mode).and_then(|()| put(pending, mode))))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Device, target: *mut c_uint) -> u32 {
    // One more than there are: numbers may be empty.
    number("nvmlDeviceGetMaxMigDeviceCount", device, target, |gpu| gpu.mig.as_ref().map(|parts| parts.len() as u32 + 1))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(device: Device, index: c_uint, target: *mut Device) -> u32 {
    let part = index as usize;
    let found = ask("nvmlDeviceGetMigDeviceHandleByIndex", device, |gpu, _, _| {
        let parts = gpu.mig.as_ref().ok_or(NOT_SUPPORTED)?;
        parts.get(part).map(|_| handle(gpu_and_mig(device).0, Some(part))).ok_or(NOT_FOUND)
    });
    code(found.and_then(|device| put(target, device)))
}
