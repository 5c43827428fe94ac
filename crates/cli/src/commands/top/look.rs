//! Colours, or bold and reverse where there are none.

use ratatui::crossterm::style::force_color_output;
use ratatui::style::{Color, Modifier, Style};

/// How things look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    is_colored: bool,
}

impl Look {
    /// Coloured unless that is not wanted: by flag, by NO_COLOR, or by a terminal that has none.
    pub fn new(is_refused: bool, is_forced: bool) -> Look {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let has_none = set("NO_COLOR").is_some() || set("TERM").is_none_or(|term| term == "dumb" || term == "vt100");
        if is_forced {
            // The terminal's library looks at NO_COLOR too.
            force_color_output(true);
        }
        Look { is_colored: is_forced || !(is_refused || has_none) }
    }

    fn colored(self, color: Color) -> Style {
        if self.is_colored { Style::new().fg(color) } else { Style::new() }
    }

    /// Titles.
    pub fn title(self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// What is beside the point.
    pub fn faint(self) -> Style {
        if self.is_colored { Style::new().fg(Color::DarkGray) } else { Style::new().add_modifier(Modifier::DIM) }
    }

    /// Memory, redder the fuller.
    pub fn memory(self, percent: f32) -> Style {
        if percent >= 95.0 { self.alarm() } else { self.colored(Color::Yellow) }
    }

    /// Time.
    pub fn busy(self) -> Style {
        self.colored(Color::Green)
    }

    /// What is wrong.
    pub fn alarm(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// The row one stands on.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The heads of columns.
    pub fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }
}
