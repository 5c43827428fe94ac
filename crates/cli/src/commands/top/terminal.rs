//! The terminal's alternate screen, which is left however the program ends.

use std::io::{self, IsTerminal, Stdout, Write};
use std::panic;
use std::sync::Once;
use std::thread;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::layout::{Position, Rect};

use crate::failure::Failure;
use crate::platform;

/// The alternate screen; dropping it restores the terminal.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Whether another process may have changed the terminal: it must be set up again before drawing.
    is_away: bool,
}

impl Screen {
    /// Enters the alternate screen.
    pub fn enter() -> Result<Screen, Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::new("top needs a terminal")
                .with_hint(Some("`vramfit gpus -i` prints to anything, `vramfit serve` shows a page")));
        }
        if platform::is_dumb() {
            let term = std::env::var("TERM").unwrap_or_default();
            return Err(Failure::new(format!("top needs a terminal with a cursor; TERM is {term:?}"))
                .with_hint(Some("`vramfit gpus -i` prints one answer after the other; or set TERM, as to xterm")));
        }
        if platform::is_in_background() {
            return Err(Failure::new("top runs in the background, where it cannot have the terminal")
                .with_hint(Some("start it in the foreground; under timeout with `timeout --foreground`")));
        }
        restore_on_panic();
        take().map_err(failure)?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        match terminal {
            Ok(terminal) => Ok(Screen { terminal, is_away: false }),
            Err(error) => {
                give_back();
                Err(failure(error))
            }
        }
    }

    /// Draws a frame.
    pub fn draw(&mut self, frame: impl FnOnce(&mut ratatui::Frame<'_>)) -> Result<(), Failure> {
        if self.is_away {
            if platform::is_in_background() {
                return Ok(());
            }
            // The other process may have changed its settings.
            let _ = disable_raw_mode();
            take().and_then(|()| self.clear()).map_err(failure)?;
            self.is_away = false;
        }
        self.terminal.draw(frame).map(|_| ()).map_err(failure)
    }

    /// Redraws everything. Not with ratatui's `clear`, which queries the cursor's position: the thread that reads keys
    /// would receive the answer.
    fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Ctrl-Z: restores the terminal and suspends until the shell continues the program.
    pub fn suspend(&mut self) -> Result<(), Failure> {
        give_back();
        self.is_away = true;
        platform::pause().map_err(failure)
    }

    /// The program continues after a suspension, perhaps by SIGSTOP, which cannot be caught.
    pub fn resume(&mut self) {
        self.is_away = true;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, Hide)
}

/// Errors are ignored: the terminal may be gone. In the background the terminal must not be touched, which would suspend
/// the program for good.
fn give_back() {
    if platform::is_in_background() {
        return;
    }
    let mut out = io::stdout();
    let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = out.flush();
}

/// Restores the terminal before a panic of the drawing thread is reported. Panics of other threads are caught where they
/// matter and must not write to the screen.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    let drawing = thread::current().id();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |information| {
            if thread::current().id() == drawing {
                give_back();
                report(information);
            }
        }));
    });
}

fn failure(error: io::Error) -> Failure {
    Failure::new(format!("the terminal: {error}"))
}
