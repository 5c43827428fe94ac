//! What the terminal can do, and whether it is ours.

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

/// Whether it takes no escape sequences: TERM is `dumb`, empty or not set.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Columns and lines of standard output, where it is a terminal that tells.
pub fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Whether the terminal belongs to other processes now: it then stops whoever changes its settings.
pub fn is_in_background() -> bool {
    // A terminal that is not this session's stops nobody.
    tcgetpgrp(std::io::stdout()).is_ok_and(|foreground| foreground != getpgrp())
}
