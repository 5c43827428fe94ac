//! The CPU launches kernels, the GPU runs them in order: two timelines with a bounded queue of launches between them.

/// Pending launches that CUDA's queue holds before the CPU has to wait.
const DEPTH: usize = 1024;

/// CPU microseconds to launch a piece of work, and GPU microseconds to run it.
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

/// One CPU and one GPU timeline, in microseconds.
pub(crate) struct Queue {
    /// When the CPU has launched everything so far.
    cpu: f64,
    /// When the GPU has run everything so far.
    gpu: f64,
    /// A ring buffer of the end times of the last launches.
    ends: Box<[f64; DEPTH]>,
    next: usize,
    /// Total time that each side has worked.
    pub busy: Cost,
}

impl Queue {
    /// Launches a piece of work. The GPU starts it once it is launched and everything before it has run.
    #[inline]
    pub fn launch(&mut self, cost: Cost) {
        self.busy += cost;
        self.cpu += cost.cpu;
        if cost.gpu > 0.0 {
            self.cpu = later(self.cpu, self.ends[self.next]);
            self.gpu = later(self.gpu, self.cpu) + cost.gpu;
            self.ends[self.next] = self.gpu;
            self.next = (self.next + 1) % DEPTH;
        }
    }

    /// The CPU waits for the GPU.
    pub fn synchronize(&mut self) {
        self.cpu = later(self.cpu, self.gpu);
    }
}

/// Several queues that receive mostly the same launches. A shared launch updates all lanes at once, which takes little
/// longer than one lane, because each lane is a chain of dependent additions.
pub(crate) struct Lanes<const COUNT: usize> {
    cpu: [f64; COUNT],
    gpu: [f64; COUNT],
    /// A ring buffer of the end times of the last launches; the oldest is at `next`.
    ends: Box<[[f64; COUNT]; DEPTH]>,
    next: usize,
    /// Busy time of launches in all lanes.
    shared: Cost,
    /// Busy time of launches in one lane.
    own: [Cost; COUNT],
}

impl<const COUNT: usize> Lanes<COUNT> {
    pub fn new() -> Lanes<COUNT> {
        Lanes {
            cpu: [0.0; COUNT],
            gpu: [0.0; COUNT],
            ends: Box::new([[0.0; COUNT]; DEPTH]),
            next: 0,
            shared: Cost::default(),
            own: [Cost::default(); COUNT],
        }
    }

    /// Launches the same work in all lanes.
    #[inline(always)]
    pub fn launch(&mut self, cost: Cost) {
        self.shared += cost;
        self.cpu = self.cpu.map(|cpu| cpu + cost.cpu);
        if cost.gpu > 0.0 {
            for (lane, end) in self.ends[self.next].iter_mut().enumerate() {
                self.cpu[lane] = later(self.cpu[lane], *end);
                self.gpu[lane] = later(self.gpu[lane], self.cpu[lane]) + cost.gpu;
                *end = self.gpu[lane];
            }
            self.next = (self.next + 1) % DEPTH;
        }
    }

    /// In all lanes the CPU waits for the GPU.
    pub fn synchronize(&mut self) {
        self.cpu = self.finish_times();
    }

    /// When everything launched so far is finished.
    pub fn finish_times(&self) -> [f64; COUNT] {
        std::array::from_fn(|lane| later(self.cpu[lane], self.gpu[lane]))
    }

    /// Total busy time of each lane.
    pub fn busy(&self) -> [Cost; COUNT] {
        self.own.map(|mut busy| {
            busy += self.shared;
            busy
        })
    }

    /// Launches work in one lane only.
    pub fn launch_in(&mut self, lane: usize, work: impl FnOnce(&mut Queue)) {
        let mut queue = Queue {
            cpu: self.cpu[lane],
            gpu: self.gpu[lane],
            ends: Box::new(std::array::from_fn(|index| self.ends[index][lane])),
            next: self.next,
            busy: self.own[lane],
        };
        work(&mut queue);
        (self.cpu[lane], self.gpu[lane], self.own[lane]) = (queue.cpu, queue.gpu, queue.busy);
        // All lanes share `next`: rotate this lane's ring so that its oldest launch is there again.
        let (newer, older) = queue.ends.split_at(queue.next);
        for (index, end) in older.iter().chain(newer).enumerate() {
            self.ends[(self.next + index) % DEPTH][lane] = *end;
        }
    }
}

/// The later of two times. `f64::max` takes twice as long because it handles NaN.
#[inline]
fn later(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::{Cost, DEPTH, Lanes, Queue, later};

    impl Queue {
        fn new() -> Queue {
            Queue { cpu: 0.0, gpu: 0.0, ends: Box::new([0.0; DEPTH]), next: 0, busy: Cost::default() }
        }

        fn finish_time(&self) -> f64 {
            later(self.cpu, self.gpu)
        }
    }

    fn steady_state_time(cost: Cost, synchronizes: bool) -> f64 {
        let mut queue = Queue::new();
        let mut times = Vec::new();
        for _ in 0..3 {
            for _ in 0..100 {
                queue.launch(cost);
            }
            if synchronizes {
                queue.synchronize();
            }
            times.push(queue.finish_time());
        }
        times[2] - times[1]
    }

    #[test]
    fn the_slower_side_decides_and_synchronizing_adds_the_cpus_lead() {
        assert!((steady_state_time(Cost { cpu: 5.0, gpu: 2.0 }, false) - 500.0).abs() < 5.0);
        assert!((steady_state_time(Cost { cpu: 2.0, gpu: 5.0 }, false) - 500.0).abs() < 5.0);
        assert!((steady_state_time(Cost { cpu: 2.0, gpu: 5.0 }, true) - 502.0).abs() < 1e-6);
    }

    #[test]
    fn each_lane_gives_the_times_of_a_queue_of_its_own() {
        let shared = [Cost { cpu: 3.0, gpu: 7.0 }, Cost { cpu: 2.0, gpu: 0.0 }, Cost { cpu: 4.0, gpu: 1.0 }];
        let own = |lane: usize| (0..100 * lane).map(move |_| Cost { cpu: 2.0, gpu: 3.0 + lane as f64 });
        let mut lanes = Lanes::<3>::new();
        let mut queues = [(); 3].map(|()| Queue::new());
        for round in 0..4 {
            for cost in shared.iter().cycle().take(2_500) {
                lanes.launch(*cost);
                queues.iter_mut().for_each(|queue| queue.launch(*cost));
            }
            for (lane, queue) in queues.iter_mut().enumerate() {
                lanes.launch_in(lane, |queue| own(lane).for_each(|cost| queue.launch(cost)));
                own(lane).for_each(|cost| queue.launch(cost));
            }
            assert_eq!(lanes.finish_times(), queues.each_ref().map(Queue::finish_time), "{round}");
            assert_eq!(lanes.busy(), queues.each_ref().map(|queue| queue.busy));
        }
    }

    #[test]
    fn the_cpu_gets_ahead_by_no_more_than_the_queue_holds() {
        let mut queue = Queue::new();
        for _ in 0..2000 {
            queue.launch(Cost { cpu: 1.0, gpu: 10.0 });
        }
        assert!(queue.cpu >= (2000.0 - 1024.0) * 10.0 - 20.0 && queue.cpu < queue.gpu);
    }
}
