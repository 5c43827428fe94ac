//! The CPU hands work over, the GPU takes it: two clocks, and a queue of launches between them.

/// How many launches CUDA's queue holds before the CPU has to wait.
const DEPTH: usize = 1024;

/// Microseconds that a piece of work takes of the CPU to hand over, and of the GPU to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub cpu: f64,
    pub gpu: f64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.cpu += other.cpu;
        self.gpu += other.gpu;
    }
}

/// When each side is done with all it has been given, in microseconds.
pub(crate) struct Queues {
    cpu: f64,
    gpu: f64,
    /// When the last launches end, in a ring.
    ends: Box<[f64; DEPTH]>,
    next: usize,
    /// What both have worked so far.
    pub busy: Cost,
}

impl Queues {
    pub fn new() -> Queues {
        Queues { cpu: 0.0, gpu: 0.0, ends: Box::new([0.0; DEPTH]), next: 0, busy: Cost::default() }
    }

    /// The CPU hands a piece over; the GPU begins when it has it and is done with what came before.
    #[inline]
    pub fn hand_over(&mut self, cost: Cost) {
        self.busy += cost;
        self.cpu += cost.cpu;
        if cost.gpu > 0.0 {
            self.cpu = later(self.cpu, self.ends[self.next]);
            self.gpu = later(self.gpu, self.cpu) + cost.gpu;
            self.ends[self.next] = self.gpu;
            self.next = (self.next + 1) % DEPTH;
        }
    }

    /// The CPU waits until the GPU is done.
    pub fn wait(&mut self) {
        self.cpu = later(self.cpu, self.gpu);
    }

    /// When a mark that is put into the queue now is reached.
    pub fn mark(&self) -> f64 {
        later(self.cpu, self.gpu)
    }
}

/// The later of two times. Times are numbers always, and `f64::max`, which heeds others, takes twice as long.
#[inline]
fn later(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::{Cost, Queues};

    fn steady(cost: Cost, waits: bool) -> f64 {
        let mut queues = Queues::new();
        let mut times = Vec::new();
        for _ in 0..3 {
            for _ in 0..100 {
                queues.hand_over(cost);
            }
            if waits {
                queues.wait();
            }
            times.push(queues.mark());
        }
        times[2] - times[1]
    }

    #[test]
    fn the_slower_side_decides_and_waiting_adds_what_had_been_ahead() {
        assert!((steady(Cost { cpu: 5.0, gpu: 2.0 }, false) - 500.0).abs() < 5.0);
        assert!((steady(Cost { cpu: 2.0, gpu: 5.0 }, false) - 500.0).abs() < 5.0);
        assert!((steady(Cost { cpu: 2.0, gpu: 5.0 }, true) - 502.0).abs() < 1e-6);
    }

    #[test]
    fn the_cpu_gets_ahead_by_no_more_than_the_queue_holds() {
        let mut queues = Queues::new();
        for _ in 0..2000 {
            queues.hand_over(Cost { cpu: 1.0, gpu: 10.0 });
        }
        assert!(queues.cpu >= (2000.0 - 1024.0) * 10.0 - 20.0 && queues.cpu < queues.gpu);
    }
}
