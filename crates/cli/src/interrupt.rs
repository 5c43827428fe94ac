//! Being asked to stop: Ctrl-C, Ctrl-\\, TERM, HUP; or to make way for a while: Ctrl-Z.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Waits that a signal ends.
pub struct Interrupt {
    received: Receiver<i32>,
}

/// What came while waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: the time is over.
    Nothing,
    /// To stop until the shell goes on.
    Pause,
    /// To end.
    End,
}

impl Interrupt {
    /// From here on these signals do not end the program; `wait` tells of them.
    pub fn install() -> Result<Interrupt, Failure> {
        Interrupt::of(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT])
    }

    /// The same for who has a screen to give back before being stopped.
    pub fn with_pauses() -> Result<Interrupt, Failure> {
        Interrupt::of(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP])
    }

    fn of(watched: &[i32]) -> Result<Interrupt, Failure> {
        let mut signals =
            Signals::new(watched).map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))?;
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if sender.send(signal).is_err() {
                    break;
                }
            }
        });
        Ok(Interrupt { received })
    }

    /// Waits, unless something is asked for.
    pub fn wait_until(&self, instant: Instant) -> Asked {
        self.wait(instant.saturating_duration_since(Instant::now()))
    }

    /// Waits, unless something is asked for.
    pub fn wait(&self, pause: Duration) -> Asked {
        match self.received.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => Asked::Nothing,
            Ok(SIGTSTP) => Asked::Pause,
            _ => Asked::End,
        }
    }
}
