//! gpustat's lines: the same text and the same colours.

use std::fmt::{Display, Write};
use vramfit_monitor::reading::{Missing, Reading};
use vramfit_monitor::sample::{Gpu, Process, Sample};

use super::clock::header_time;
use super::words::{host_size, padded, printable};

/// The width of names if none is known.
const DEFAULT_NAME_WIDTH: usize = 16;
/// Bold from here on.
const HOT_CELSIUS: u32 = 50;
const BUSY_PERCENT: u32 = 30;
const FAST_FAN_PERCENT: u32 = 30;
const BUSY_CODEC_PERCENT: u32 = 50;
const HIGH_POWER: f64 = 0.4;

/// The optional columns.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// `-c`.
    pub command: bool,
    /// `-f`.
    pub full_command: bool,
    /// `-u`.
    pub user: bool,
    /// `-p`.
    pub pid: bool,
    /// `-F`.
    pub fan: bool,
    /// `-e`: the encoder.
    pub encoder: bool,
    /// `-e`: the decoder.
    pub decoder: bool,
    /// `-P`: the power drawn.
    pub power: bool,
    /// `-P`: also the power limit.
    pub power_limit: bool,
    /// Not with `--no-header`.
    pub header: bool,
    /// Not with `--no-processes`.
    pub processes: bool,
    /// `--gpuname-width`.
    pub name_width: Option<usize>,
    /// With colours.
    pub color: bool,
}

/// Colours by gpustat's names for them.
struct Paint {
    is_on: bool,
}

// The reset that `watch --color` understands, as gpustat writes it.
const RESET: &str = "\u{1b}[0;10m";
const BOLD: &str = "\u{1b}[1m";
const GREY: &str = "\u{1b}[1m\u{1b}[30m";
const BOLD_WHITE: &str = "\u{1b}[1m\u{1b}[37m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const BLUE: &str = "\u{1b}[34m";
const MAGENTA: &str = "\u{1b}[35m";
const CYAN: &str = "\u{1b}[36m";
const DARK: &str = "\u{1b}[38;5;24m";

impl Paint {
    fn code(&self, code: &'static str) -> &'static str {
        if self.is_on { code } else { "" }
    }

    fn over(&self, code: &'static str, text: impl Display) -> String {
        format!("{}{text}{}", self.code(code), self.code(RESET))
    }

    /// Bold if high, grey if missing.
    fn level(&self, color: &'static str, is_high: Option<bool>, text: impl Display) -> String {
        let Some(is_high) = is_high else { return self.over(GREY, text) };
        let bold = if is_high { self.code(BOLD) } else { "" };
        format!("{bold}{}", self.over(color, text))
    }
}

/// The header and the lines of all GPUs.
pub fn lines(sample: &Sample, columns: &Columns) -> String {
    let paint = Paint { is_on: columns.color };
    let widest = sample.gpus.iter().map(|gpu| name_of(gpu).chars().count()).max().unwrap_or(0);
    let width = columns.name_width.unwrap_or(widest);
    let mut text = String::new();
    if columns.header {
        let width = if width == 0 { DEFAULT_NAME_WIDTH } else { width } + 3;
        let version = printable(sample.driver_version.as_deref().unwrap_or("None"));
        let host = paint.over(BOLD_WHITE, padded(&printable(&sample.hostname), width));
        let line = format!("{host}  {}  {}", header_time(sample.taken_at), paint.over(GREY, version));
        text.push_str(line.trim());
        text.push('\n');
    }
    for gpu in &sample.gpus {
        write_gpu(&mut text, gpu, width, columns, &paint);
    }
    if sample.gpus.is_empty() {
        text.push_str(&paint.over(YELLOW, "(No GPUs are available)"));
        text.push('\n');
    }
    text
}

/// A GPU that cannot be read has the reason in place of its name.
fn name_of(gpu: &Gpu) -> String {
    match (&gpu.unavailable, &gpu.name) {
        (Some(Missing::Failed(_)), _) => "((Unknown Error))".to_owned(),
        (Some(reason), _) => format!("(({reason}))"),
        (None, Ok(name)) => printable(name),
        (None, Err(_)) => "??".to_owned(),
    }
}

fn write_gpu(text: &mut String, gpu: &Gpu, width: usize, columns: &Columns, paint: &Paint) {
    let nothing = if gpu.unavailable.is_some() { "?" } else { "??" };
    let value = |reading: &Reading<u32>, scale: u32| match reading {
        Ok(value) => (value / scale).to_string(),
        Err(_) => nothing.to_owned(),
    };
    let high = |reading: &Reading<u32>, from: u32| reading.as_ref().ok().map(|value| *value >= from);
    let percent = |reading: &Reading<u32>, from: u32, color: &'static str| {
        paint.level(color, high(reading, from), format!("{:>3} %", value(reading, 1)))
    };
    let mut line = paint.over(CYAN, format!("[{}]", gpu.index)) + " ";
    if columns.name_width != Some(0) {
        let name = padded(&shorten_left(&name_of(gpu), width), if width == 0 { DEFAULT_NAME_WIDTH } else { width });
        let color = if gpu.unavailable.is_some() { RED } else { BLUE };
        line += &paint.over(color, name);
        line += " |";
    }
    let degrees = format!("{:>3}°C", value(&gpu.temperature, 1));
    line += &paint.level(RED, high(&gpu.temperature, HOT_CELSIUS), degrees);
    line += ", ";
    if columns.fan {
        line += &percent(&gpu.fan_speed, FAST_FAN_PERCENT, CYAN);
        line += ", ";
    }
    line += &percent(&gpu.utilization, BUSY_PERCENT, GREEN);
    let mut codecs = Vec::new();
    for (is_shown, letter, reading) in [(columns.encoder, "E: ", &gpu.encoder), (columns.decoder, "D: ", &gpu.decoder)]
    {
        if is_shown {
            codecs.push(paint.over(BOLD, letter) + &percent(reading, BUSY_CODEC_PERCENT, GREEN));
        }
    }
    if !codecs.is_empty() {
        line += &format!(" ({})", codecs.join("  "));
    }
    if columns.power {
        write_power(&mut line, gpu, columns, paint, nothing);
    }
    let (used, total) = match &gpu.memory {
        Ok(memory) => ((memory.used >> 20).to_string(), (memory.total >> 20).to_string()),
        Err(_) => (nothing.to_owned(), nothing.to_owned()),
    };
    let (bright, plain) = if gpu.memory.is_ok() { ("\u{1b}[1m\u{1b}[33m", YELLOW) } else { (GREY, GREY) };
    line += &format!(
        " | {}{} / {} MB",
        paint.code(CYAN),
        paint.over(bright, format!("{used:>5}")),
        paint.over(plain, format!("{total:>5}"))
    );
    if columns.processes {
        line += " |";
        match &gpu.processes {
            Ok(processes) => {
                for process in processes {
                    line += &format!(" {}", brief(process, columns, paint));
                }
            }
            Err(_) => line += " (Not Supported)",
        }
    }
    text.push_str(&line);
    text.push('\n');
    for device in &gpu.mig {
        let name = printable(device.name.as_deref().unwrap_or("??"));
        let memory = match &device.memory {
            Ok(memory) => format!("{:>5} / {:>5} MB", memory.used >> 20, memory.total >> 20),
            Err(reason) => reason.to_string(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    MIG {} {} | {memory}", device.index, paint.over(BLUE, name));
    }
    if columns.processes && columns.full_command {
        write_full(text, gpu.processes.as_deref().unwrap_or_default(), paint);
    }
}

fn write_power(line: &mut String, gpu: &Gpu, columns: &Columns, paint: &Paint, nothing: &str) {
    let watts = |reading: &Reading<u32>| match reading {
        Ok(milliwatts) => format!("{:>3}", milliwatts / 1000),
        Err(_) => format!("{nothing:>3}"),
    };
    let is_high = match (&gpu.power, &gpu.power_limit) {
        (Ok(draw), Ok(limit)) if *limit >= 1000 => Some(f64::from(draw / 1000) / f64::from(limit / 1000) >= HIGH_POWER),
        (Ok(_), _) => Some(true),
        _ => None,
    };
    *line += &format!(",  {} ", paint.level(MAGENTA, is_high, watts(&gpu.power)));
    if columns.power_limit {
        *line += &format!("/ {} {}", paint.over(MAGENTA, watts(&gpu.power_limit)), paint.over(MAGENTA, "W"));
    } else {
        *line += &paint.level(MAGENTA, is_high, "W");
    }
}

fn brief(process: &Process, columns: &Columns, paint: &Paint) -> String {
    let mut text = String::new();
    match &process.host {
        Ok(host) => {
            if !columns.command || columns.user {
                text += &paint.over(GREY, printable(&host.user));
            }
            if columns.command {
                if !text.is_empty() {
                    text.push(':');
                }
                text += &paint.over(CYAN, printable(process.command().unwrap_or("--")));
            }
        }
        Err(_) => text += &paint.over(GREY, "hidden"),
    }
    if columns.pid {
        text += &format!("/{}", process.pid);
    }
    let memory = process.gpu_memory.as_ref().map_or("?".to_owned(), |bytes| (bytes >> 20).to_string());
    text + &format!("({})", paint.over(YELLOW, format!("{memory}M")))
}

fn write_full(text: &mut String, processes: &[Process], paint: &Paint) {
    for (position, process) in processes.iter().enumerate() {
        let branch = if position + 1 == processes.len() { '└' } else { '├' };
        let (percent, memory, command) = match &process.host {
            Ok(host) => {
                let percent = host.cpu_percent.as_ref().map_or("--".to_owned(), |percent| format!("{percent:.0}"));
                (percent, host_size(host.memory), full_command(&host.arguments, paint))
            }
            Err(reason) => ("--".to_owned(), "--".to_owned(), reason.to_string()),
        };
        let normal = paint.code(RESET);
        let numbers = format!(
            "({}, {})",
            paint.over(GREEN, format!("{percent:>4}%")),
            paint.over(YELLOW, format!("{memory:>6}"))
        );
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{normal} {branch}─ {:>6} {normal}{numbers}{normal}: {}",
            process.pid,
            paint.over(DARK, command)
        );
    }
}

/// Highlights the command's name against its folder and arguments.
fn full_command(arguments: &[String], paint: &Paint) -> String {
    let arguments: Vec<String> = arguments.iter().map(|argument| printable(argument)).collect();
    let Some((first, rest)) = arguments.split_first() else { return "?".to_owned() };
    let (folder, name) = first.split_at(first.rfind(['/', '\\']).map_or(0, |slash| slash + 1));
    let mut text = format!("{}{folder}{}{name}{}", paint.code(DARK), paint.code(CYAN), paint.code(DARK));
    for argument in rest {
        text.push(' ');
        text.push_str(argument);
    }
    text
}

/// Long names lose their beginning.
fn shorten_left(text: &str, width: usize) -> String {
    let length = text.chars().count();
    match width {
        _ if length <= width => text.to_owned(),
        0 => String::new(),
        1 => "…".to_owned(),
        _ => "…".chars().chain(text.chars().skip(length - (width - 1))).collect(),
    }
}
