//! `torch.cuda.memory_summary()`, in PyTorch's layout to the letter.

use std::fmt::Write;

use vramfit_allocator::{ByPool, Statistic, Statistics};

const WIDTH: usize = 75;

/// The text `torch.cuda.memory_summary(device)` would print.
pub fn memory_summary(statistics: &Statistics, device: usize) -> String {
    let mut lines = vec![
        "=".repeat(WIDTH),
        format!(" {:16} PyTorch CUDA memory summary, device ID {device:<17} ", ""),
        "-".repeat(WIDTH),
        format!(
            "  {:9} CUDA OOMs: {:<12} | {:6} cudaMalloc retries: {:<8}  ",
            "", statistics.ooms, "", statistics.alloc_retries
        ),
        "=".repeat(WIDTH),
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ".into(),
    ];
    for (key, by_pool) in statistics.by_pool() {
        let (title, format) = heading(key);
        lines.push("-".repeat(WIDTH));
        let ByPool { all, small_pool, large_pool } = by_pool;
        for (name, statistic) in
            [(title, all), ("      from large pool", large_pool), ("      from small pool", small_pool)]
        {
            lines.push(row(name, statistic, all, format));
        }
    }
    for (name, statistic) in [
        ("Oversize allocations", &statistics.oversize_allocations),
        ("Oversize GPU segments", &statistics.oversize_segments),
    ] {
        lines.push("-".repeat(WIDTH));
        lines.push(row(name, statistic, statistic, count));
    }
    lines.push("=".repeat(WIDTH));
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "|{line}|");
        text
    })
}

fn heading(key: &str) -> (&'static str, fn(u64, u64) -> String) {
    match key {
        "allocated_bytes" => ("Allocated memory", size),
        "active_bytes" => ("Active memory", size),
        "requested_bytes" => ("Requested memory", size),
        "reserved_bytes" => ("GPU reserved memory", size),
        "inactive_split_bytes" => ("Non-releasable memory", size),
        "allocation" => ("Allocations", count),
        "active" => ("Active allocs", count),
        "segment" => ("GPU reserved segments", count),
        _ => ("Non-releasable allocs", count),
    }
}

/// The unit of each column is chosen by the row `unit`, which is the sum over the pools.
fn row(name: &str, shown: &Statistic, unit: &Statistic, format: fn(u64, u64) -> String) -> String {
    format!(
        " {name:<21} | {} | {} | {} | {} ",
        format(shown.current, unit.current),
        format(shown.peak, unit.peak),
        format(shown.allocated, unit.allocated),
        format(shown.freed(), unit.freed()),
    )
}

fn size(value: u64, unit: u64) -> String {
    let (value, suffix) = scale(value, unit, 768.0 * 1024.0, 1024, &["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"]);
    format!("{value:6} {suffix}")
}

fn count(value: u64, unit: u64) -> String {
    let (value, suffix) = scale(value, unit, 750.0 * 1000.0, 1000, &[" ", "K", "M"]);
    format!("{value:7} {suffix} ")
}

fn scale(mut value: u64, unit: u64, limit: f64, step: u64, suffixes: &[&'static str]) -> (u64, &'static str) {
    let mut unit = unit as f64;
    let mut suffix = suffixes[0];
    for next in &suffixes[1..] {
        if unit < limit {
            break;
        }
        suffix = next;
        value /= step;
        unit /= step as f64;
    }
    (value, suffix)
}
