//! The GPUs: one card each with the last minutes, or one line each if there is no room.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Widget};
use vramfit_monitor::history::Point;
use vramfit_monitor::reading::Reading;
use vramfit_monitor::sample::{Gpu, Memory};
use vramfit_report::gpus::{count_of, mebibytes};

use super::state::State;
use super::theme::Theme;

const CARD_WIDTH: u16 = 39;
/// Two lines of text and two graphs of a line each, in a frame.
const CARD_HEIGHT: u16 = 6;
/// Columns from which a line has temperature and sizes; below, percentages only.
const WIDTH_WITH_SIZES: u16 = 36;
/// Columns from which a line also has a bar.
const WIDTH_WITH_BAR: u16 = 46;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the GPUs and returns the number of lines used.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut State, theme: &Theme) -> u16 {
    let Some(sample) = &state.sample else { return 0 };
    let gpus = &sample.gpus;
    if gpus.is_empty() {
        Line::styled("the driver is there, but no GPU", theme.faint()).render(area, frame.buffer_mut());
        return 1;
    }
    let count = u16::try_from(gpus.len()).unwrap_or(u16::MAX);
    let columns = (area.width / CARD_WIDTH).clamp(1, count);
    let lines = count.div_ceil(columns);
    if area.width >= CARD_WIDTH && lines.saturating_mul(CARD_HEIGHT) <= area.height {
        // The remaining lines go to the graphs, up to half of the screen.
        let height = (area.height / 2 / lines).clamp(CARD_HEIGHT, CARD_HEIGHT + 6) & !1;
        let width = area.width / columns;
        for (position, gpu) in (0u16..).zip(gpus) {
            let (column, line) = (position % columns, position / columns);
            let x = area.x + column * width;
            let width = if column + 1 == columns { area.right() - x } else { width };
            let place = Rect { x, y: area.y + line * height, width, height };
            card(frame.buffer_mut(), place, gpu, state, theme);
        }
        return lines * height;
    }
    let room = area.height.min(count);
    // If there is only one line, it is for a GPU and not for the number of hidden ones.
    let is_cut = room < count && room > 1;
    let shown = usize::from(if is_cut { room - 1 } else { room });
    state.first_gpu = state.first_gpu.min(gpus.len() - shown.min(gpus.len()));
    for (y, gpu) in (area.y..).zip(gpus.iter().skip(state.first_gpu).take(shown)) {
        let place = Rect { x: area.x, y, width: area.width, height: 1 };
        brief(gpu, area.width, theme).render(place, frame.buffer_mut());
    }
    if is_cut {
        let text = format!("… {} more, [ and ] move", count_of(gpus.len() - shown, "GPU"));
        let place = Rect { x: area.x, y: area.y + room - 1, width: area.width, height: 1 };
        Line::styled(text, theme.faint()).render(place, frame.buffer_mut());
    }
    room
}

fn card(buffer: &mut Buffer, area: Rect, gpu: &Gpu, state: &State, theme: &Theme) {
    let name = gpu.known_name().unwrap_or("GPU");
    let title = Line::styled(format!(" [{}] {name} ", gpu.index), theme.title());
    let frame = Block::bordered().border_style(if gpu.unavailable.is_some() { theme.alarm() } else { theme.faint() });
    let inner = frame.inner(area);
    frame.title(title).render(area, buffer);
    if let Some(reason) = &gpu.unavailable {
        Line::styled(reason.to_string(), theme.alarm()).render(inner, buffer);
        return;
    }
    let graph = (inner.height - 2) / 2;
    let at = |y: u16, height: u16| Rect { x: inner.x, y: inner.y + y, width: inner.width, height };
    let share = gpu.memory.as_ref().map_or(0.0, share);
    memory_line(gpu, inner.width, theme).render(at(0, 1), buffer);
    let points: Vec<&Point> = state.history.of(gpu.index).collect();
    draw_graph(buffer, at(1, graph), theme.memory(share), points.iter().map(|point| point.memory));
    facts(gpu, theme).render(at(1 + graph, 1), buffer);
    draw_graph(buffer, at(2 + graph, graph), theme.busy(), points.iter().map(|point| point.utilization));
}

fn share(memory: &Memory) -> f32 {
    (memory.used as f64 * 100.0 / memory.total as f64) as f32
}

fn memory_line(gpu: &Gpu, width: u16, theme: &Theme) -> Line<'static> {
    match &gpu.memory {
        Ok(memory) => {
            let share = share(memory);
            let mut text = format!("{} of {} {share:.0} %", mebibytes(memory.used), mebibytes(memory.total));
            let free = format!(", {} free", mebibytes(memory.free));
            if text.len() + free.len() + 4 <= usize::from(width) {
                text += &free;
            }
            Line::from(vec![Span::raw("mem "), Span::styled(text, theme.memory(share))])
        }
        Err(reason) => Line::from(vec![Span::raw("mem "), Span::styled(reason.to_string(), theme.faint())]),
    }
}

fn facts(gpu: &Gpu, theme: &Theme) -> Line<'static> {
    let value = |reading: &Reading<u32>, unit: &str| match reading {
        Ok(value) => format!("{value}{unit}"),
        Err(_) => format!("–{unit}"),
    };
    let busy = match &gpu.utilization {
        Ok(percent) => Span::styled(format!("{percent} %"), theme.busy()),
        Err(reason) => Span::styled(reason.to_string(), theme.faint()),
    };
    let watts = |reading: &Reading<u32>| {
        reading.as_ref().map_or("–".to_owned(), |milliwatts| (milliwatts / 1000).to_string())
    };
    let mut rest = format!("  {}  {}/{} W", value(&gpu.temperature, "°C"), watts(&gpu.power), watts(&gpu.power_limit));
    if gpu.fan_speed.is_ok() {
        rest += &format!("  fan {}", value(&gpu.fan_speed, "%"));
    }
    if !gpu.mig.is_empty() {
        rest += &format!("  {} MIG", gpu.mig.len());
    }
    Line::from(vec![Span::raw("gpu "), busy, Span::raw(rest)])
}

/// One line: index, name as far as it fits, the most important numbers and a bar.
fn brief(gpu: &Gpu, width: u16, theme: &Theme) -> Line<'static> {
    let name = gpu.known_name().unwrap_or("GPU");
    let room = usize::from(width).saturating_sub(46).min(30);
    let name: String = name.chars().take(room).collect();
    let mut spans = vec![Span::styled(format!("[{}] ", gpu.index), theme.title())];
    if room > 0 {
        spans.push(Span::raw(format!("{name:room$} ")));
    }
    if let Some(reason) = &gpu.unavailable {
        spans.push(Span::styled(reason.to_string(), theme.alarm()));
        return Line::from(spans);
    }
    let number = |reading: &Reading<u32>| reading.as_ref().map_or("–".to_owned(), ToString::to_string);
    if width >= WIDTH_WITH_SIZES {
        spans.push(Span::raw(format!("{:>3}°C ", number(&gpu.temperature))));
    }
    spans.push(Span::styled(format!("{:>3} % ", number(&gpu.utilization)), theme.busy()));
    match &gpu.memory {
        Ok(memory) if width < WIDTH_WITH_SIZES => {
            let share = share(memory);
            spans.push(Span::styled(format!("mem {share:>3.0} %"), theme.memory(share)));
        }
        Ok(memory) => {
            let share = share(memory);
            if width >= WIDTH_WITH_BAR {
                let filled = ((share / 10.0).round() as usize).min(10);
                let bar = "█".repeat(filled) + &"░".repeat(10 - filled) + " ";
                spans.push(Span::styled(bar, theme.memory(share)));
            }
            let sizes = format!("{}/{} MiB", memory.used >> 20, memory.total >> 20);
            spans.push(Span::styled(sizes, theme.memory(share)));
        }
        Err(reason) => spans.push(Span::styled(reason.to_string(), theme.faint())),
    }
    Line::from(spans)
}

/// Percentages as columns, the newest on the right; a missing one is a dot.
pub fn draw_graph(buffer: &mut Buffer, area: Rect, style: Style, values: impl DoubleEndedIterator<Item = Option<f32>>) {
    for (x, value) in (area.left()..area.right()).rev().zip(values.rev()) {
        let Some(value) = value else {
            buffer[(x, area.bottom() - 1)].set_char('·').set_style(style);
            continue;
        };
        let full = f32::from(area.height) * 8.0;
        let mut eighths = (value.clamp(0.0, 100.0) / 100.0 * full).round() as usize;
        if value > 0.0 {
            eighths = eighths.max(1);
        }
        for y in (area.top()..area.bottom()).rev() {
            let here = eighths.min(8);
            eighths -= here;
            buffer[(x, y)].set_char(EIGHTHS[here]).set_style(style);
        }
    }
}
