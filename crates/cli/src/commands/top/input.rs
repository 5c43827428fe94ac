//! Keys and the mouse.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};
use ratatui::layout::Position;

use super::kill::Target;
use super::rows::Sort;
use super::state::{Dialog, State};
use crate::platform::{CAN_PAUSE, KillSignal};

/// What the program must do beyond changing the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// End.
    Quit,
    /// Suspend, as by Ctrl-Z.
    Suspend,
}

const PAGE: isize = 10;

/// Handles an event.
pub fn handle(event: &Event, state: &mut State) -> Action {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            if key.modifiers.contains(KeyModifiers::CONTROL) {
                return match key.code {
                    KeyCode::Char('c') => Action::Quit,
                    KeyCode::Char('z') if CAN_PAUSE => Action::Suspend,
                    _ => Action::Nothing,
                };
            }
            if state.dialog.is_some() {
                in_dialog(*key, state);
                return Action::Nothing;
            }
            if state.is_typing {
                typing(*key, state);
                return Action::Nothing;
            }
            on_screen(*key, state)
        }
        Event::Mouse(mouse) => {
            let at = Position::new(mouse.column, mouse.row);
            match mouse.kind {
                MouseEventKind::ScrollDown => state.go(3),
                MouseEventKind::ScrollUp => state.go(-3),
                MouseEventKind::Down(MouseButton::Left) => click(at, state),
                _ => {}
            }
            Action::Nothing
        }
        _ => Action::Nothing,
    }
}

fn on_screen(key: KeyEvent, state: &mut State) -> Action {
    match key.code {
        KeyCode::Char('q') => return Action::Quit,
        KeyCode::Esc => clear_filters(state),
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => state.dialog = Some(Dialog::Help),
        KeyCode::Down | KeyCode::Char('j') => state.go(1),
        KeyCode::Up => state.go(-1),
        KeyCode::PageDown => state.go(PAGE),
        KeyCode::PageUp => state.go(-PAGE),
        KeyCode::Home => state.go(isize::MIN),
        KeyCode::End => state.go(isize::MAX),
        KeyCode::Enter if state.selected_row().is_some() => state.dialog = Some(Dialog::Details),
        KeyCode::Char('m') => state.sort_by(Sort::Memory),
        KeyCode::Char('g') => state.sort_by(Sort::Gpu),
        KeyCode::Char('c') => state.sort_by(Sort::Cpu),
        KeyCode::Char('t') => state.sort_by(Sort::Time),
        KeyCode::Char('u') => state.sort_by(Sort::User),
        KeyCode::Char('p') => state.sort_by(Sort::Pid),
        KeyCode::Char('r') => state.sort_by(state.view.sort),
        KeyCode::Char('T') => {
            state.view.is_tree = !state.view.is_tree;
            state.arrange();
        }
        KeyCode::Char('o') => {
            state.view.only_mine = !state.view.only_mine;
            state.arrange();
        }
        KeyCode::Char('U') => {
            let user = state.selected_row().map(|row| row.user().to_owned());
            state.view.only_user = if state.view.only_user.is_some() { None } else { user };
            state.arrange();
        }
        KeyCode::Char('/') => state.is_typing = true,
        KeyCode::Char(' ') => state.is_paused = !state.is_paused,
        KeyCode::Char('[') => state.first_gpu = state.first_gpu.saturating_sub(1),
        KeyCode::Char(']') => {
            let last = state.sample.as_ref().map_or(0, |sample| sample.gpus.len().saturating_sub(1));
            state.first_gpu = (state.first_gpu + 1).min(last);
        }
        KeyCode::Char('k') => aim(state, KillSignal::Term),
        KeyCode::Char('K') => aim(state, KillSignal::Kill),
        _ => {}
    }
    Action::Nothing
}

fn aim(state: &mut State, order: KillSignal) {
    let dialog = match state.selected_row() {
        None => return,
        Some(_) if !state.may_kill && !state.is_live => {
            Dialog::Note("a recording has no processes to signal".to_owned())
        }
        Some(_) if !state.may_kill => Dialog::Note("--readonly: no signals are sent".to_owned()),
        Some(row) => match Target::aim(row, order) {
            Ok(target) => Dialog::Confirm(target),
            Err(reason) => Dialog::Note(reason),
        },
    };
    state.dialog = Some(dialog);
}

/// Only `y` confirms; any other key cancels.
fn in_dialog(key: KeyEvent, state: &mut State) {
    match state.dialog.take() {
        Some(Dialog::Confirm(target)) if key.code == KeyCode::Char('y') => {
            state.dialog = Some(Dialog::Note(target.send()));
        }
        Some(Dialog::Details) if matches!(key.code, KeyCode::Char('k' | 'K')) => {
            aim(state, if key.code == KeyCode::Char('K') { KillSignal::Kill } else { KillSignal::Term });
        }
        Some(Dialog::Details) if matches!(key.code, KeyCode::Down | KeyCode::Up) => {
            state.go(if key.code == KeyCode::Down { 1 } else { -1 });
            state.dialog = Some(Dialog::Details);
        }
        _ => {}
    }
}

fn typing(key: KeyEvent, state: &mut State) {
    match key.code {
        KeyCode::Enter => state.is_typing = false,
        KeyCode::Esc => {
            state.is_typing = false;
            state.view.filter.clear();
        }
        KeyCode::Backspace => {
            state.view.filter.pop();
        }
        KeyCode::Char(letter) => state.view.filter.push(letter),
        _ => {}
    }
    state.arrange();
}

fn clear_filters(state: &mut State) {
    state.view.filter.clear();
    state.view.only_user = None;
    state.view.only_mine = false;
    state.arrange();
}

fn click(at: Position, state: &mut State) {
    if state.dialog.is_some() {
        // A click never confirms.
        state.dialog = None;
        return;
    }
    if let Some((_, sort)) = state.heads.iter().find(|(area, _)| area.contains(at)) {
        state.sort_by(*sort);
    } else if state.table.contains(at) {
        let position = state.top + usize::from(at.y - state.table.y);
        if let Some(key) = state.rows.get(position).map(super::rows::Row::key) {
            if state.selected == Some(key) {
                state.dialog = Some(Dialog::Details);
            }
            state.selected = Some(key);
        }
    }
}
