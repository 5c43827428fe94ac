//! Waits that signals interrupt.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::failure::Failure;
pub use crate::platform::ControlSignal;
use crate::platform::{self, WatchedSignals};

/// Receives signals instead of letting them end the program.
pub struct Interrupt {
    received: Receiver<ControlSignal>,
}

impl Interrupt {
    /// From now on Ctrl-C and similar signals do not end the program; `wait` returns them.
    pub fn install() -> Result<Interrupt, Failure> {
        Interrupt::of(WatchedSignals::Ends)
    }

    /// Also receives Ctrl-Z: a full-screen program must leave the screen before it is suspended.
    pub fn with_pauses() -> Result<Interrupt, Failure> {
        Interrupt::of(WatchedSignals::Pauses)
    }

    fn of(watched: WatchedSignals) -> Result<Interrupt, Failure> {
        let (sender, received) = mpsc::channel();
        watch(watched, move |signal| sender.send(signal).is_ok())?;
        Ok(Interrupt { received })
    }

    /// Waits until `instant`, or returns a signal.
    pub fn wait_until(&self, instant: Instant) -> Option<ControlSignal> {
        self.wait(instant.saturating_duration_since(Instant::now()))
    }

    /// Waits for `pause`, or returns a signal.
    pub fn wait(&self, pause: Duration) -> Option<ControlSignal> {
        match self.received.recv_timeout(pause) {
            Ok(signal) => Some(signal),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(ControlSignal::End),
        }
    }
}

/// Calls `notify` for each signal until it returns `false`.
pub fn watch(
    watched: WatchedSignals,
    notify: impl FnMut(ControlSignal) -> bool + Send + 'static,
) -> Result<(), Failure> {
    platform::watch(watched, notify).map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))
}
