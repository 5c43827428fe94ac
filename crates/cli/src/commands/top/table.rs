//! The table of processes.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget;
use vramfit_monitor::reading::Reading;
use vramfit_report::gpus::{age, mebibytes};

use super::rows::{Row, Sort};
use super::state::State;
use super::theme::Theme;

/// A column: its head, its width, the screen width from which it is shown, what it sorts by.
struct Column {
    head: &'static str,
    width: usize,
    from: u16,
    sort: Option<Sort>,
    is_number: bool,
    cell: fn(&Row) -> String,
}

const COLUMNS: [Column; 10] = [
    Column { head: "GPU", width: 3, from: 0, sort: None, is_number: true, cell: |row| row.gpu.to_string() },
    Column {
        head: "PID",
        width: 7,
        from: 0,
        sort: Some(Sort::Pid),
        is_number: true,
        cell: |row| row.process.pid.to_string(),
    },
    Column {
        head: "USER",
        width: 10,
        from: 50,
        sort: Some(Sort::User),
        is_number: false,
        cell: |row| row.user().to_owned(),
    },
    Column {
        head: "MEMORY",
        width: 9,
        from: 0,
        sort: Some(Sort::Memory),
        is_number: true,
        cell: |row| read(&row.process.gpu_memory, |bytes| mebibytes(*bytes)),
    },
    Column {
        head: "GPU%",
        width: 4,
        from: 60,
        sort: Some(Sort::Gpu),
        is_number: true,
        cell: |row| read(&row.process.gpu_utilization, ToString::to_string),
    },
    Column {
        head: "CPU%",
        width: 5,
        from: 60,
        sort: Some(Sort::Cpu),
        is_number: true,
        cell: |row| {
            row.process
                .host
                .as_ref()
                .ok()
                .map_or("–".to_owned(), |host| read(&host.cpu_percent, |percent| format!("{percent:.0}")))
        },
    },
    Column {
        head: "HOST",
        width: 9,
        from: 80,
        sort: None,
        is_number: true,
        cell: |row| read(&row.process.host, |host| mebibytes(host.memory)),
    },
    Column {
        head: "TIME",
        width: 6,
        from: 70,
        sort: Some(Sort::Time),
        is_number: true,
        cell: |row| read(&row.process.host, |host| age(host.age)),
    },
    Column {
        head: "CONTAINER",
        width: 19,
        from: 120,
        sort: None,
        is_number: false,
        cell: |row| row.process.host.as_ref().ok().and_then(|host| host.container.clone()).unwrap_or_default(),
    },
    Column { head: "COMMAND", width: 0, from: 0, sort: None, is_number: false, cell: command },
];

fn read<T>(reading: &Reading<T>, show: impl FnOnce(&T) -> String) -> String {
    reading.as_ref().map_or("–".to_owned(), show)
}

fn command(row: &Row) -> String {
    let branch = if row.depth == 0 { String::new() } else { "  ".repeat(row.depth - 1) + "└─ " };
    let whole = row.command();
    // The folder of a program says less than its arguments; the details have both.
    let folder = whole.split(' ').next().and_then(|first| first.rfind(['/', '\\'])).map_or(0, |slash| slash + 1);
    // Control characters in a command must not reach the terminal.
    branch + &whole[folder..].replace(|letter: char| letter.is_control(), " ")
}

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut State, theme: &Theme) {
    state.heads.clear();
    state.table = Rect::ZERO;
    if area.height < 2 {
        return;
    }
    let buffer = frame.buffer_mut();
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| area.width >= column.from).collect();
    let mut x = area.x;
    for column in &columns {
        let width = width_of(column, x, area);
        let arrow = match column.sort {
            Some(sort) if sort == state.view.sort && state.view.is_reversed => "▴",
            Some(sort) if sort == state.view.sort => "▾",
            _ => "",
        };
        let head = align(&format!("{}{arrow}", column.head), usize::from(width), column.is_number);
        buffer.set_stringn(x, area.y, head, usize::from(width), theme.head());
        if let Some(sort) = column.sort {
            state.heads.push((Rect { x, y: area.y, width, height: 1 }, sort));
        }
        x = x.saturating_add(width + 1);
    }
    let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
    state.table = body;
    if state.rows.is_empty() {
        let is_filtered = state.view.only_mine || state.view.only_user.is_some() || !state.view.filter.is_empty();
        let text = if is_filtered { "no process passes the filters (Esc clears them)" } else { "no processes" };
        Line::styled(text, theme.faint()).render(body, buffer);
        return;
    }
    let height = usize::from(body.height);
    let position = state.position();
    state.top = state.top.min(position).max((position + 1).saturating_sub(height));
    state.top = state.top.min(state.rows.len().saturating_sub(height));
    for (y, row) in (body.y..body.bottom()).zip(state.rows.iter().skip(state.top)) {
        let style = match Some(row.key()) == state.selected {
            true => theme.selected(),
            false if row.process.is_hidden() => theme.faint(),
            false => ratatui::style::Style::new(),
        };
        buffer.set_style(Rect { y, height: 1, ..body }, style);
        let mut x = body.x;
        for column in &columns {
            let width = width_of(column, x, area);
            let text = align(&(column.cell)(row), usize::from(width), column.is_number);
            buffer.set_stringn(x, y, text, usize::from(width), style);
            x = x.saturating_add(width + 1);
        }
    }
}

/// The last column takes what is left.
fn width_of(column: &Column, x: u16, area: Rect) -> u16 {
    let left = area.right().saturating_sub(x);
    if column.width == 0 { left } else { left.min(u16::try_from(column.width).unwrap_or(left)) }
}

fn align(text: &str, width: usize, is_number: bool) -> String {
    if is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
}
