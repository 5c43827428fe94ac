//! Runs calls that may hang, with deadlines.
//!
//! Jobs are grouped in lanes; each lane runs in order on its own thread. A job that misses its deadline is abandoned: its
//! thread is left behind (nothing can stop a call inside a driver), the rest of its lane continues on another thread, and
//! the same job is not started again until its call has returned. So however often one samples, there are never more
//! hanging threads than different jobs.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A call that can run on any thread, and again on another.
pub type Job<A> = Arc<dyn Fn() -> A + Send + Sync>;

type Task = Box<dyn FnOnce() + Send>;

/// The threads, and the jobs that hang.
pub struct Lanes<K> {
    workers: HashMap<usize, Worker>,
    /// Jobs whose call has not returned. Between two samples these are the ones that hang.
    running: Arc<Mutex<HashSet<K>>>,
}

struct Worker {
    tasks: Sender<Task>,
    /// Set when the worker is abandoned; its queued tasks are then skipped.
    is_abandoned: Arc<AtomicBool>,
}

/// How far one lane has got.
struct Progress<K, A> {
    jobs: Vec<(K, Job<A>)>,
    /// The first job without an answer.
    next: usize,
    /// When that job was started.
    since: Instant,
}

impl<K> Default for Lanes<K> {
    fn default() -> Lanes<K> {
        Lanes { workers: HashMap::new(), running: Arc::default() }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Lanes<K> {
    /// Runs all lanes and returns the answers that came in time: each job within `timeout`, all before `deadline`.
    pub fn run<A: Send + 'static>(
        &mut self,
        lanes: Vec<Vec<(K, Job<A>)>>,
        timeout: Duration,
        deadline: Instant,
    ) -> HashMap<K, A> {
        let (answers, received) = mpsc::channel::<(usize, usize, A)>();
        let mut all: Vec<Progress<K, A>> = Vec::with_capacity(lanes.len());
        for (lane, jobs) in lanes.into_iter().enumerate() {
            let jobs: Vec<(K, Job<A>)> = jobs.into_iter().filter(|(key, _)| !self.is_stuck(key)).collect();
            self.submit(lane, &jobs, 0, &answers);
            all.push(Progress { jobs, next: 0, since: Instant::now() });
        }
        let mut results = HashMap::new();
        while let Some(wake) = next_wake(&all, timeout, deadline) {
            match wait(&received, wake) {
                Ok((lane, position, answer)) => {
                    let progress = &mut all[lane];
                    // The answer of an abandoned job is too late for this sample.
                    if position >= progress.next {
                        results.insert(progress.jobs[position].0.clone(), answer);
                        progress.next = position + 1;
                        progress.since = Instant::now();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    for (lane, progress) in all.iter_mut().enumerate() {
                        let is_late = now >= deadline || now >= progress.since + timeout;
                        if progress.next < progress.jobs.len() && is_late {
                            self.abandon(lane);
                            progress.next += 1;
                            progress.since = now;
                            if now < deadline {
                                self.submit(lane, &progress.jobs, progress.next, &answers);
                            } else {
                                progress.next = progress.jobs.len();
                            }
                        }
                    }
                }
            }
        }
        results
    }

    /// The number of calls that have not returned.
    pub fn stuck_count(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn is_stuck(&self, key: &K) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    fn submit<A: Send + 'static>(
        &mut self,
        lane: usize,
        jobs: &[(K, Job<A>)],
        from: usize,
        answers: &Sender<(usize, usize, A)>,
    ) {
        if from >= jobs.len() {
            return;
        }
        let worker = self.workers.entry(lane).or_insert_with(Worker::start);
        for (position, (key, job)) in jobs.iter().enumerate().skip(from) {
            let (key, job, answers) = (key.clone(), Arc::clone(job), answers.clone());
            let (running, is_abandoned) = (Arc::clone(&self.running), Arc::clone(&worker.is_abandoned));
            let task = Box::new(move || {
                if is_abandoned.load(Ordering::Acquire) {
                    return;
                }
                running.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
                // A call that panics has no answer; its thread continues with the next.
                let answer = panic::catch_unwind(AssertUnwindSafe(|| job()));
                running.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                if let Ok(answer) = answer {
                    // Nobody receives it if the deadline has passed.
                    let _ = answers.send((lane, position, answer));
                }
            });
            if worker.tasks.send(task).is_err() {
                break;
            }
        }
    }

    fn abandon(&mut self, lane: usize) {
        if let Some(worker) = self.workers.remove(&lane) {
            worker.is_abandoned.store(true, Ordering::Release);
        }
    }
}

impl Worker {
    fn start() -> Worker {
        let (tasks, received) = mpsc::channel::<Task>();
        thread::spawn(move || {
            for task in received {
                task();
            }
        });
        Worker { tasks, is_abandoned: Arc::default() }
    }
}

/// The next deadline; `None` when every lane is done.
fn next_wake<K, A>(all: &[Progress<K, A>], timeout: Duration, deadline: Instant) -> Option<Instant> {
    let waiting = all.iter().filter(|progress| progress.next < progress.jobs.len());
    waiting.map(|progress| (progress.since + timeout).min(deadline)).min()
}

fn wait<T>(received: &Receiver<T>, until: Instant) -> Result<T, RecvTimeoutError> {
    received.recv_timeout(until.saturating_duration_since(Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(60);

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    fn quick(value: u32) -> Job<u32> {
        Arc::new(move || value)
    }

    /// A job that waits until the gate is opened.
    fn hanging(gate: &Arc<Mutex<()>>) -> Job<u32> {
        let gate = Arc::clone(gate);
        Arc::new(move || {
            drop(gate.lock());
            99
        })
    }

    #[test]
    fn every_job_is_answered_and_lanes_run_side_by_side() {
        let mut lanes = Lanes::default();
        let slow: Job<u32> = Arc::new(|| {
            thread::sleep(Duration::from_millis(100));
            1
        });
        let jobs = (0..8).map(|lane| vec![(lane, Arc::clone(&slow)), (lane + 10, quick(2))]).collect();
        let start = Instant::now();
        let answers = lanes.run(jobs, Duration::from_secs(2), soon());
        assert_eq!(answers.len(), 16);
        assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
    }

    #[test]
    fn a_hanging_job_is_abandoned_and_the_rest_of_its_lane_is_answered() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let mut lanes = Lanes::default();
        let jobs = || vec![vec![(1, quick(1)), (2, hanging(&gate)), (3, quick(3))], vec![(4, quick(4))]];
        let answers = lanes.run(jobs(), SHORT, soon());
        assert_eq!(answers, HashMap::from([(1, 1), (3, 3), (4, 4)]));
        assert_eq!(lanes.stuck_count(), 1);

        let start = Instant::now();
        let again = lanes.run(jobs(), SHORT, soon());
        assert_eq!(again.len(), 3);
        assert!(start.elapsed() < SHORT, "a job that already hangs is not waited for again");

        drop(closed);
        while lanes.stuck_count() > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(lanes.run(jobs(), SHORT, soon()).len(), 4, "once its call has returned it runs again");
    }

    #[test]
    fn no_job_is_waited_for_beyond_the_deadline() {
        let gate = Arc::new(Mutex::new(()));
        let _closed = gate.lock().unwrap();
        let mut lanes = Lanes::default();
        let jobs = (0..10).map(|key| (key, hanging(&gate))).collect();
        let start = Instant::now();
        let answers = lanes.run(vec![jobs], SHORT, start + 2 * SHORT);
        assert!(answers.is_empty());
        assert!(start.elapsed() < 4 * SHORT, "{:?}", start.elapsed());
    }

    #[test]
    fn a_job_that_panics_has_no_answer_and_does_not_affect_others() {
        let mut lanes = Lanes::default();
        let panics: Job<u32> = Arc::new(|| panic!("on purpose"));
        let answers = lanes.run(vec![vec![(1, panics), (2, quick(2))]], Duration::from_secs(20), soon());
        assert_eq!(answers, HashMap::from([(2, 2)]));
        assert_eq!(lanes.stuck_count(), 0);
    }
}
