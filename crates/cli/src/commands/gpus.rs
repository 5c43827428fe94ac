//! `vramfit gpus`: the state of the GPUs, once or repeatedly.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anstream::ColorChoice;
use anstream::adapter::strip_str;
use vramfit_monitor::sample::Sample;
use vramfit_monitor::sampler::Cpu;
use vramfit_report::gpus::{Columns, count_of, document, lines, memory_view};

use crate::arguments::monitor::Gpus;
use crate::arguments::{Output, When};
use crate::commands::{print, print_json};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::feed::{Samples, interval};
use crate::interrupt::{ControlSignal, Interrupt};
use crate::platform;

/// The time over which the CPU use of processes is measured.
const CPU_PAUSE: Duration = Duration::from_millis(100);
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_REST: &str = "\u{1b}[J";

/// Prints the state of the GPUs.
pub fn run(options: &Gpus, output: &Output) -> Result<ExitStatus, Failure> {
    if options.force_color {
        if output.no_color || output.color == When::Never {
            let other = if output.no_color { "--no-color" } else { "--color=never" };
            return Err(Failure::new(format!("--force-color and {other} contradict each other")));
        }
        ColorChoice::AlwaysAnsi.write_global();
    }
    match options.interval {
        // As in gpustat, `-i 0` prints once.
        Some(seconds) if seconds != 0.0 => watch(options, output, interval(seconds)?),
        _ => {
            // Measuring CPU use takes time: only if it is shown.
            let cpu = if options.show_full_cmd { Cpu::Twice(CPU_PAUSE) } else { Cpu::SinceLastSample };
            let mut samples = Samples::open(&options.machine, cpu)?;
            let Some(sample) = samples.next()? else { return Ok(ExitStatus::Good) };
            if options.debug {
                debug(&sample, samples.stuck_count());
            }
            if output.json {
                print_json(&document(&sample))?
            } else {
                print(&text(&sample, options))?
            }
            Ok(ExitStatus::Good)
        }
    }
}

fn watch(options: &Gpus, output: &Output, interval: Duration) -> Result<ExitStatus, Failure> {
    let mut samples = Samples::open(&options.machine, Cpu::SinceLastSample)?;
    let is_screen = !output.json && std::io::stdout().is_terminal() && !platform::is_dumb();
    let interrupt = if is_screen { Interrupt::with_pauses() } else { Interrupt::install() }?;
    let mut screen = None;
    let mut next = Instant::now();
    while let Some(sample) = samples.next()? {
        if options.debug {
            debug(&sample, samples.stuck_count());
        }
        // In the background the screen is not entered until the terminal is ours.
        if is_screen && screen.is_none() && !platform::is_in_background() {
            screen = Some(Screen::enter());
        }
        let text = if output.json {
            let line = serde_json::to_string(&document(&sample));
            line.map_err(|error| Failure::new(format!("JSON: {error}")))? + "\n"
        } else if is_screen {
            let text = fitting(&text(&sample, options), platform::output_size());
            format!("{HOME}{}{CLEAR_LINE}{CLEAR_REST}", text.replace('\n', &format!("{CLEAR_LINE}\r\n")))
        } else {
            text(&sample, options)
        };
        if is_screen == screen.is_some() && !write_through(&text)? {
            break;
        }
        let now = Instant::now();
        next = (next + samples.pause(interval)).max(now);
        match interrupt.wait_until(next) {
            None | Some(ControlSignal::Resume) => {}
            Some(ControlSignal::End) => break,
            Some(ControlSignal::Pause) => {
                drop(screen.take());
                platform::pause().map_err(|error| Failure::new(format!("cannot stop: {error}")))?;
            }
        }
    }
    Ok(ExitStatus::Good)
}

/// The lines that fit on the screen, counting wrapped ones: otherwise the top would scroll away.
fn fitting(text: &str, size: Option<(usize, usize)>) -> String {
    let Some((columns, rows)) = size else { return text.to_owned() };
    let lines: Vec<&str> = text.lines().collect();
    let height = |line: &&str| strip_str(line).to_string().chars().count().div_ceil(columns).max(1);
    // The cursor stays on the last line, so that nothing scrolls.
    if lines.iter().map(height).sum::<usize>() <= rows {
        return lines.join("\n");
    }
    let mut left = rows - 1;
    let shown = lines.iter().take_while(|line| {
        let fits = height(line) <= left;
        left = left.saturating_sub(height(line));
        fits
    });
    let shown: Vec<&str> = shown.copied().collect();
    let rest = format!("… {} more", count_of(lines.len() - shown.len(), "line"));
    let rest = rest.chars().take(columns).collect::<String>();
    [shown, vec![&rest]].concat().join("\n")
}

/// Writes and flushes; `false` if the reader is gone.
fn write_through(text: &str) -> Result<bool, Failure> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("standard output: {error}"))),
        Ok(()) => Ok(true),
    }
}

/// The terminal's alternate screen, left on drop.
struct Screen;

impl Screen {
    fn enter() -> Screen {
        print_raw(ENTER);
        Screen
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print_raw(LEAVE);
    }
}

fn print_raw(text: &str) {
    let mut out = std::io::stdout();
    // The terminal may be gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn text(sample: &Sample, options: &Gpus) -> String {
    if options.memory { memory_view(sample, !options.no_processes) } else { lines(sample, &columns(options)) }
}

fn columns(options: &Gpus) -> Columns {
    let all = options.show_all;
    let codec = options.show_codec.as_deref().unwrap_or(if all { "enc,dec" } else { "" });
    let power = options.show_power.as_deref().unwrap_or(if all { "draw,limit" } else { "" });
    Columns {
        command: all || options.show_cmd,
        full_command: options.show_full_cmd,
        user: all || options.show_user,
        pid: all || options.show_pid,
        fan: all || options.show_fan_speed,
        encoder: codec.contains("enc"),
        decoder: codec.contains("dec"),
        power: !power.is_empty(),
        power_limit: power.contains("limit"),
        header: !options.no_header,
        processes: !options.no_processes,
        name_width: options.gpuname_width.map(usize::from),
        // The stream removes colours if they are not wanted.
        color: true,
    }
}

/// Prints why values are missing, each reason once with its number of occurrences.
fn debug(sample: &Sample, stuck: usize) {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for (key, reason) in document(sample).missing() {
        let line = format!("> An error while retrieving `{key}`: {reason}");
        match reasons.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => reasons.push((line, 1)),
        }
    }
    for (line, count) in reasons {
        anstream::eprintln!("{line} -> Total {count} occurrences.");
    }
    let (gpus, calls) = (count_of(sample.gpus.len(), "GPU"), count_of(stuck, "call"));
    anstream::eprintln!("{gpus} in {:.1} ms, {calls} hanging", sample.took as f64 / 1000.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_on_the_screen_are_counted() {
        let text = "\u{1b}[31mhead\u{1b}[0m\none two three\nfour\n";
        let fit = |columns, rows| fitting(text, Some((columns, rows)));
        assert_eq!(fit(80, 3), text.trim_end());
        assert_eq!(fit(80, 2), "\u{1b}[31mhead\u{1b}[0m\n… 2 lines more");
        assert_eq!(fit(7, 4), text.trim_end(), "escapes take no room, long lines take two");
        assert_eq!(fit(7, 3), "\u{1b}[31mhead\u{1b}[0m\n… 2 lin");
        assert_eq!(fit(80, 1), "… 3 lines more");
        assert_eq!(fitting(text, None), text);
    }
}
