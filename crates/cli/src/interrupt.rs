//! Being asked to stop: Ctrl-C, Ctrl-\, TERM, HUP.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Waits that a signal ends.
pub struct Interrupt {
    received: Receiver<i32>,
}

impl Interrupt {
    /// From here on these signals do not end the program; `wait` tells of them.
    pub fn install() -> Result<Interrupt, Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])
            .map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))?;
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

    /// Waits; `true` where the program is to stop.
    pub fn wait_until(&self, instant: Instant) -> bool {
        self.wait(instant.saturating_duration_since(Instant::now()))
    }

    /// Waits; `true` where the program is to stop.
    pub fn wait(&self, pause: Duration) -> bool {
        !matches!(self.received.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
    }
}
