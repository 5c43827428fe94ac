//! Colours, or bold and reverse video without them.

use ratatui::crossterm::style::force_color_output;
use ratatui::style::{Color, Modifier, Style};

/// The styles of the screen.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    is_colored: bool,
}

impl Theme {
    /// Colours unless a flag, NO_COLOR or the terminal forbids them.
    pub fn new(is_refused: bool, is_forced: bool) -> Theme {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let has_none = set("NO_COLOR").is_some() || set("TERM").is_none_or(|term| term == "dumb" || term == "vt100");
        if is_forced {
            // crossterm reads NO_COLOR too.
            force_color_output(true);
        }
        Theme { is_colored: is_forced || !(is_refused || has_none) }
    }

    fn colored(self, color: Color) -> Style {
        if self.is_colored { Style::new().fg(color) } else { Style::new() }
    }

    /// Titles.
    pub fn title(self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Secondary information.
    pub fn faint(self) -> Style {
        if self.is_colored { Style::new().fg(Color::DarkGray) } else { Style::new().add_modifier(Modifier::DIM) }
    }

    /// Memory, by how full it is.
    pub fn memory(self, percent: f32) -> Style {
        if percent >= 95.0 { self.alarm() } else { self.colored(Color::Yellow) }
    }

    /// Utilisation.
    pub fn busy(self) -> Style {
        self.colored(Color::Green)
    }

    /// Warnings.
    pub fn alarm(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// The selected row.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Column heads.
    pub fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }
}
