//! GPU memory by process, reserved and free.

use std::fmt::Write;
use vramfit_monitor::sample::{Gpu, Sample};

use super::words::{age, mebibytes, printable};

/// A paragraph per GPU and, if wanted, a line per process, largest first.
pub fn memory_view(sample: &Sample, with_processes: bool) -> String {
    let mut text = String::new();
    for gpu in &sample.gpus {
        write_gpu(&mut text, gpu, with_processes);
    }
    if sample.gpus.is_empty() {
        text.push_str("(No GPUs are available)\n");
    }
    text
}

// Writing to a string cannot fail, so the results are ignored.
fn write_gpu(text: &mut String, gpu: &Gpu, with_processes: bool) {
    let name = printable(gpu.known_name().unwrap_or("unknown GPU"));
    match &gpu.memory {
        Ok(memory) => {
            let [used, total, free] = [memory.used, memory.total, memory.free].map(mebibytes);
            let _ = writeln!(text, "[{}] {name}: {used} used of {total}, {free} free", gpu.index);
        }
        Err(reason) => _ = writeln!(text, "[{}] {name}: memory not known ({reason})", gpu.index),
    }
    if with_processes && gpu.unavailable.is_none() {
        write_processes(text, gpu);
    }
    if let Ok(memory) = &gpu.memory
        && memory.reserved > 0
    {
        let _ =
            writeln!(text, "  {:>10}           kept by the driver, beside what is used", mebibytes(memory.reserved));
    }
}

fn write_processes(text: &mut String, gpu: &Gpu) {
    let mut listed = 0u64;
    let mut processes: Vec<_> = gpu.processes.iter().flatten().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.gpu_memory.as_ref().copied().unwrap_or(0)));
    for process in processes {
        let bytes = process.gpu_memory.as_ref().map_or_else(ToString::to_string, |bytes| mebibytes(*bytes));
        listed = process.gpu_memory.as_ref().map_or(listed, |bytes| bytes.saturating_add(listed));
        let who = match &process.host {
            Ok(host) => {
                let command = process.command().unwrap_or("?");
                let mut who = format!("{} {command}, {} old", host.user, age(host.age));
                if let Some(container) = &host.container {
                    let _ = write!(who, ", {container}");
                }
                who
            }
            Err(reason) => reason.to_string(),
        };
        let _ = writeln!(text, "  {bytes:>10}  {:>7}  {}", process.pid, printable(&who));
        let context = process.host.as_ref().ok().and_then(|host| host.context);
        if let (Some(context), Ok(used)) = (context, &process.gpu_memory) {
            let (low, high) = context.rest_of(*used);
            let context = context.within(*used);
            let _ = writeln!(
                text,
                "{:23}PyTorch: {} to {} CUDA context (as on an H200),\n{:23}{} to {} its allocator's",
                "",
                mebibytes(context.low),
                mebibytes(context.high),
                "",
                mebibytes(low),
                mebibytes(high)
            );
        }
    }
    if let Err(reason) = &gpu.processes {
        let _ = writeln!(text, "              processes not known ({reason})");
    } else if let Ok(memory) = &gpu.memory
        && memory.used > listed
    {
        let _ = writeln!(text, "  {:>10}           in no listed process", mebibytes(memory.used - listed));
    }
}
