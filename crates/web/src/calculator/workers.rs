//! A fixed number of threads that answer questions, and a bounded number of questions that wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Simulations call themselves more deeply than a connection's thread allows.
const STACK: usize = 8 << 20;
/// After the deadline, for an answer that stops there by itself.
const GRACE: Duration = Duration::from_secs(2);

type Job = Box<dyn FnOnce() + Send>;

/// The threads.
pub struct Workers {
    jobs: SyncSender<Job>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Too many questions wait already.
    Busy,
    /// It took too long. Its thread is free again once it is done.
    TooLate,
    /// It panicked.
    Failed,
}

impl Workers {
    /// So many threads, and so many questions that may wait for them.
    pub fn new(threads: usize, waiting: usize) -> Workers {
        let (jobs, queue) = mpsc::sync_channel::<Job>(waiting);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            let work = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    job();
                }
            };
            // Without a thread questions wait for another one, or in vain until their deadline.
            drop(thread::Builder::new().name("answers".to_owned()).stack_size(STACK).spawn(work));
        }
        Workers { jobs }
    }

    /// Runs `work` on one of the threads and waits until it is done or too late.
    pub fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (done, result) = mpsc::sync_channel(1);
        let job = Box::new(move || {
            // Nobody waits any more.
            if Instant::now() >= deadline {
                return;
            }
            if let Ok(value) = catch_unwind(AssertUnwindSafe(work)) {
                let _ = done.send(value);
            }
        });
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::Failed,
        })?;
        let patience = deadline.saturating_duration_since(Instant::now()) + GRACE;
        result.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => NoAnswer::TooLate,
            RecvTimeoutError::Disconnected if Instant::now() >= deadline => NoAnswer::TooLate,
            RecvTimeoutError::Disconnected => NoAnswer::Failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn work_is_done_and_a_panic_costs_nothing_but_its_own_answer() {
        let workers = Workers::new(1, 4);
        assert_eq!(workers.run(soon(), || 1), Ok(1));
        assert_eq!(
            workers.run(soon(), || if soon() > Instant::now() {
                panic!("on purpose")
            }),
            Err(NoAnswer::Failed)
        );
        assert_eq!(workers.run(soon(), || 2), Ok(2));
    }

    #[test]
    fn what_would_wait_beyond_the_queue_is_refused() {
        let workers = Arc::new(Workers::new(1, 1));
        let (release, held) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel::<()>();
        let first = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || {
                workers.run(soon(), move || {
                    let _ = begin.send(());
                    let _ = held.recv();
                })
            })
        };
        begun.recv().unwrap();
        // One waits, its caller does not: the deadline is over.
        assert_eq!(workers.run(Instant::now(), || ()), Err(NoAnswer::TooLate));
        assert_eq!(workers.run(soon(), || ()), Err(NoAnswer::Busy));
        release.send(()).unwrap();
        assert_eq!(first.join().unwrap(), Ok(()));
        // The one that was too late leaves the queue once the thread turns to it, and does not run.
        let patience = soon();
        let mut answer = workers.run(soon(), || 3);
        while answer == Err(NoAnswer::Busy) && Instant::now() < patience {
            thread::yield_now();
            answer = workers.run(soon(), || 3);
        }
        assert_eq!(answer, Ok(3));
    }
}
