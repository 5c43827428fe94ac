//! The screen from top to bottom: a line about the machine, the GPUs, the processes, a line about keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use vramfit_report::gpus::clock_time;

use super::look::Look;
use super::state::State;
use super::{cards, dialogs, table};

/// The least a table of processes needs.
const LEAST_TABLE: u16 = 5;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, look: &Look) {
    let area = frame.area();
    if area.height < 4 || area.width < 20 {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    let line = |y: u16| Rect { x: area.x, y, width: area.width, height: 1 };
    frame.render_widget(header(state, look, area.width), line(area.y));
    let room = area.height - 2;
    let most = room.saturating_sub(LEAST_TABLE).max(1);
    let gpus = Rect { x: area.x, y: area.y + 1, width: area.width, height: most };
    let used = cards::draw(frame, gpus, state, look);
    let rest = Rect { x: area.x, y: area.y + 1 + used, width: area.width, height: room.saturating_sub(used) };
    table::draw(frame, rest, state, look);
    frame.render_widget(footer(state, look), line(area.y + area.height - 1));
    dialogs::draw(frame, state, look);
}

fn header(state: &State, look: &Look, width: u16) -> Line<'static> {
    let Some(sample) = &state.sample else { return Line::default() };
    let driver = sample.driver_version.as_deref().unwrap_or("unknown");
    let mut spans = vec![
        Span::styled(sample.hostname.clone(), look.title()),
        Span::raw(format!("  {}  ", clock_time(sample.taken_at))),
    ];
    if width >= 60 {
        spans.push(Span::styled(format!("driver {driver}  every {} s", state.interval.as_secs_f64()), look.faint()));
    }
    if !state.is_live {
        spans.push(Span::styled(if state.is_over { "  end of the recording" } else { "  recorded" }, look.faint()));
    }
    if state.is_paused {
        spans.push(Span::styled("  paused", look.alarm()));
    }
    if let Some(seconds) = state.lateness() {
        spans.push(Span::styled(format!("  no sample for {seconds} s"), look.alarm()));
    }
    if state.stuck > 0 {
        spans.push(Span::styled(format!("  {} calls hang", state.stuck), look.alarm()));
    }
    Line::from(spans)
}

fn footer(state: &State, look: &Look) -> Line<'static> {
    if state.is_typing {
        return Line::from(vec![Span::styled("/", look.title()), Span::raw(format!("{}▏", state.filter))]);
    }
    let mut spans = Vec::new();
    if !state.filter.is_empty() {
        spans.push(Span::styled(format!("containing \"{}\"  ", state.filter), look.title()));
    }
    if state.only_mine {
        spans.push(Span::styled("only mine  ", look.title()));
    }
    if let Some(user) = &state.only_user {
        spans.push(Span::styled(format!("only {user}  "), look.title()));
    }
    let keys = if state.may_kill {
        "? help  / filter  T tree  Enter details  k TERM  K KILL  q quit"
    } else {
        "? help  / filter  T tree  Enter details  q quit"
    };
    spans.push(Span::styled(keys, look.faint()));
    Line::from(spans)
}
