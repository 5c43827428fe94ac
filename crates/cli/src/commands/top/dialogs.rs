//! Dialogs over the screen: help, details of a process, a confirmation, a message.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use vramfit_report::gpus::{age, mebibytes};

use super::cards::draw_graph;
use super::state::{Dialog, State};
use super::theme::Theme;

const HELP: &str = "\
↑ ↓ j PgUp PgDn   move            Enter  details of a process
m g c t u p       order by memory, GPU, CPU, time, user, PID
r                 the other way round
T                 tree            Space  pause
o                 only mine       U      only this user
/                 filter by text  Esc    clear filters
k  K              send TERM, KILL (asks first)
[  ]              move through GPUs that do not fit
?                 this help       q      quit

Mouse: click a head to order by it, a row to stand on it,
the same row again for its details; the wheel scrolls.

A dash is a value the driver does not give; `vramfit gpus
--debug` says why. Hidden: not to be seen from here.";

/// Draws the open dialog.
pub fn draw(frame: &mut Frame<'_>, state: &State, theme: &Theme) {
    match &state.dialog {
        None => {}
        Some(Dialog::Help) => boxed(frame, " Keys ", Text::raw(HELP), theme.title(), 17),
        Some(Dialog::Note(text)) => {
            boxed(frame, " Note ", Text::raw(format!("{text}\n\nany key goes on")), theme.title(), 5)
        }
        Some(Dialog::Confirm(target)) => {
            let text = Text::from(vec![
                Line::raw(format!("Send {} to process {}?", target.order.name(), target.pid)),
                // First, because a small screen may cut off the rest.
                Line::raw("y sends it, any other key does not"),
                Line::default(),
                Line::raw(target.who.replace(|letter: char| letter.is_control(), " ")),
            ]);
            boxed(frame, " Confirm ", text, theme.alarm(), 7);
        }
        Some(Dialog::Details) => details(frame, state, theme),
    }
}

fn boxed(frame: &mut Frame<'_>, title: &str, text: Text<'_>, style: Style, height: u16) {
    let area = centred(frame.area(), 64, height);
    let block = Block::bordered().title(title).border_style(style);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block), area);
}

fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

fn details(frame: &mut Frame<'_>, state: &State, theme: &Theme) {
    let Some(row) = state.selected_row() else { return };
    let process = &row.process;
    let mut lines = vec![format!(
        "GPU memory  {}",
        process.gpu_memory.as_ref().map_or_else(ToString::to_string, |bytes| mebibytes(*bytes))
    )];
    lines.push(format!(
        "GPU time    {}",
        process.gpu_utilization.as_ref().map_or_else(ToString::to_string, |percent| format!("{percent} %"))
    ));
    match &process.host {
        Err(reason) => lines.push(format!("Process     {reason}")),
        Ok(host) => {
            let number = host.uid.map(|uid| format!(" ({uid})")).unwrap_or_default();
            lines.push(format!("User        {}{number}", host.user));
            lines.push(format!("Parent      {}, state {}", host.parent, host.state));
            let percent =
                host.cpu_percent.as_ref().map_or_else(ToString::to_string, |percent| format!("{percent:.1} %"));
            lines.push(format!("CPU         {percent} over {}", age(host.cpu_seconds)));
            lines.push(format!("Host memory {}", mebibytes(host.memory)));
            lines.push(format!("Age         {}", age(host.age)));
            lines.push(format!("Container   {}", host.container.as_deref().unwrap_or("none")));
            if let (Some(context), Ok(used)) = (host.context, &process.gpu_memory) {
                let (low, high) = context.rest_of(*used);
                let context = context.within(*used);
                lines.push(format!(
                    "PyTorch     {} to {} CUDA context (as on an H200),",
                    mebibytes(context.low),
                    mebibytes(context.high)
                ));
                lines.push(format!("            {} to {} its allocator's", mebibytes(low), mebibytes(high)));
            }
        }
    }
    if let Some(instance) = process.gpu_instance {
        lines.push(format!("MIG         GPU instance {instance}"));
    }
    lines.push(String::new());
    lines.push(row.command().replace(|letter: char| letter.is_control(), " "));
    let area = centred(
        frame.area(),
        frame.area().width.saturating_sub(4).min(100),
        frame.area().height.saturating_sub(2).min(22),
    );
    let block =
        Block::bordered().title(format!(" Process {} on GPU {} ", process.pid, row.gpu)).border_style(theme.title());
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    let graph = if inner.height >= 16 { 4 } else { 0 };
    let text = Rect { height: inner.height - graph, ..inner };
    frame.render_widget(Paragraph::new(lines.join("\n")).wrap(Wrap { trim: false }), text);
    if graph > 0
        && let Some(points) = state.process_history.get(&row.key())
    {
        let most = points.iter().copied().max().unwrap_or(0).max(1);
        let place = Rect { y: inner.bottom() - graph, height: graph, ..inner };
        let scaled = points.iter().map(|bytes| Some((*bytes as f64 * 100.0 / most as f64) as f32));
        draw_graph(frame.buffer_mut(), place, theme.memory(0.0), scaled);
    }
}
