//! The memory as people need it: used by whom, kept by whom, free.

use std::fmt::Write;
use vramfit_monitor::sample::{Gpu, Sample};

use super::words::{age, mebibytes};

/// A paragraph a GPU, a line a process, the largest first.
pub fn memory_view(sample: &Sample) -> String {
    let mut text = String::new();
    for gpu in &sample.gpus {
        write_gpu(&mut text, gpu);
    }
    if sample.gpus.is_empty() {
        text.push_str("(No GPUs are available)\n");
    }
    text
}

// Writing to a string cannot fail, so its results are of no interest here.
fn write_gpu(text: &mut String, gpu: &Gpu) {
    let name = gpu.known_name().unwrap_or("unknown GPU");
    let memory = match &gpu.memory {
        Ok(memory) => memory,
        Err(reason) => {
            let _ = writeln!(text, "[{}] {name}: memory not known ({reason})", gpu.index);
            return;
        }
    };
    let _ = writeln!(
        text,
        "[{}] {name}: {} used of {}, {} free",
        gpu.index,
        mebibytes(memory.used),
        mebibytes(memory.total),
        mebibytes(memory.free)
    );
    let mut listed = 0;
    let mut processes: Vec<_> = gpu.processes.iter().flatten().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.gpu_memory.as_ref().copied().unwrap_or(0)));
    for process in processes {
        let bytes = process.gpu_memory.as_ref().map_or_else(ToString::to_string, |bytes| mebibytes(*bytes));
        listed += process.gpu_memory.as_ref().copied().unwrap_or(0);
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
        let _ = writeln!(text, "  {bytes:>10}  {:>7}  {who}", process.pid);
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
    } else if memory.used > listed {
        let _ = writeln!(text, "  {:>10}           in no listed process", mebibytes(memory.used - listed));
    }
    if memory.reserved > 0 {
        let _ =
            writeln!(text, "  {:>10}           kept by the driver, beside what is used", mebibytes(memory.reserved));
    }
}
