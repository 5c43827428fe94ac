//! The screen from top to bottom: the machine, the GPUs, the processes, the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use vramfit_report::gpus::{clock_time, count_of};

use super::state::State;
use super::theme::Theme;
use super::{cards, dialogs, table};

/// Lines below which only GPUs are shown.
const LEAST_HEIGHT: u16 = 4;
/// Columns below which nothing is shown.
const LEAST_WIDTH: u16 = 20;
/// Columns from which all keys fit into the last line.
const WIDTH_OF_KEYS: u16 = 63;
/// Lines that the process table needs at least.
const LEAST_TABLE: u16 = 5;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, theme: &Theme) {
    let area = frame.area();
    if area.height < LEAST_HEIGHT || area.width < LEAST_WIDTH {
        match area.width < LEAST_WIDTH {
            true => frame.render_widget(Paragraph::new("too small"), area),
            false => _ = cards::draw(frame, area, state, theme),
        }
        return;
    }
    let line = |y: u16| Rect { x: area.x, y, width: area.width, height: 1 };
    frame.render_widget(header(state, theme, area.width), line(area.y));
    let room = area.height - 2;
    let count = state.sample.as_ref().map_or(0, |sample| sample.gpus.len());
    let half = (room / 2).min(u16::try_from(count).unwrap_or(u16::MAX));
    let most = room.saturating_sub(LEAST_TABLE).max(half).max(1);
    let gpus = Rect { x: area.x, y: area.y + 1, width: area.width, height: most };
    let used = cards::draw(frame, gpus, state, theme);
    let rest = Rect { x: area.x, y: area.y + 1 + used, width: area.width, height: room.saturating_sub(used) };
    table::draw(frame, rest, state, theme);
    frame.render_widget(footer(state, theme, area.width), line(area.y + area.height - 1));
    dialogs::draw(frame, state, theme);
}

fn header(state: &State, theme: &Theme, width: u16) -> Line<'static> {
    let Some(sample) = &state.sample else { return Line::default() };
    let driver = sample.driver_version.as_deref().unwrap_or("unknown");
    let mut spans = vec![
        Span::styled(sample.hostname.clone(), theme.title()),
        Span::raw(format!("  {}  ", clock_time(sample.taken_at))),
    ];
    if width >= 60 {
        spans.push(Span::styled(format!("driver {driver}  every {} s", state.interval.as_secs_f64()), theme.faint()));
    }
    if !state.is_live {
        spans.push(Span::styled(if state.is_over { "  end of the recording" } else { "  recorded" }, theme.faint()));
    }
    if state.is_paused {
        spans.push(Span::styled("  paused", theme.alarm()));
    }
    if let Some(seconds) = state.lateness() {
        spans.push(Span::styled(format!("  no sample for {seconds} s"), theme.alarm()));
    }
    if state.stuck > 0 {
        let hang = if state.stuck == 1 { "hangs" } else { "hang" };
        spans.push(Span::styled(format!("  {} {hang}", count_of(state.stuck, "call")), theme.alarm()));
    }
    Line::from(spans)
}

fn footer(state: &State, theme: &Theme, width: u16) -> Line<'static> {
    if state.is_typing {
        return Line::from(vec![Span::styled("/", theme.title()), Span::raw(format!("{}▏", state.view.filter))]);
    }
    let mut spans = Vec::new();
    if !state.view.filter.is_empty() {
        spans.push(Span::styled(format!("containing \"{}\"  ", state.view.filter), theme.title()));
    }
    if state.view.only_mine {
        spans.push(Span::styled("only mine  ", theme.title()));
    }
    if let Some(user) = &state.view.only_user {
        spans.push(Span::styled(format!("only {user}  "), theme.title()));
    }
    let keys = match state.may_kill {
        _ if width < WIDTH_OF_KEYS => "? help  q quit",
        true => "? help  / filter  T tree  Enter details  k TERM  K KILL  q quit",
        false => "? help  / filter  T tree  Enter details  q quit",
    };
    spans.push(Span::styled(keys, theme.faint()));
    Line::from(spans)
}
