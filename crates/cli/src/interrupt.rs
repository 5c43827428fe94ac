//! Being asked to stop, or to make way for a while, between two things to do.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::failure::Failure;
pub use crate::platform::Asked;
use crate::platform::{self, Watched};

/// Waits that somebody's wish ends.
pub struct Interrupt {
    received: Receiver<Asked>,
}

impl Interrupt {
    /// From here on Ctrl-C and its like do not end the program; `wait` tells of them.
    pub fn install() -> Result<Interrupt, Failure> {
        Interrupt::of(Watched::Ends)
    }

    /// The same for who has a screen to give back before being stopped.
    pub fn with_pauses() -> Result<Interrupt, Failure> {
        Interrupt::of(Watched::Pauses)
    }

    fn of(watched: Watched) -> Result<Interrupt, Failure> {
        let (sender, received) = mpsc::channel();
        watch(watched, move |asked| sender.send(asked).is_ok())?;
        Ok(Interrupt { received })
    }

    /// Waits, unless something is asked for.
    pub fn wait_until(&self, instant: Instant) -> Option<Asked> {
        self.wait(instant.saturating_duration_since(Instant::now()))
    }

    /// Waits, unless something is asked for.
    pub fn wait(&self, pause: Duration) -> Option<Asked> {
        match self.received.recv_timeout(pause) {
            Ok(asked) => Some(asked),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Asked::End),
        }
    }
}

/// Tells of what is asked for as it comes.
pub fn watch(watched: Watched, tell: impl FnMut(Asked) -> bool + Send + 'static) -> Result<(), Failure> {
    platform::watch(watched, tell).map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))
}
