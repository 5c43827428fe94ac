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
}

/// Queues of steps that differ in a few pieces of work only, side by side: what is the same for all is handed over to all at once,
/// which takes little longer than to one, as each number waits for the one before.
pub(crate) struct Lanes<const COUNT: usize> {
    cpu: [f64; COUNT],
    gpu: [f64; COUNT],
    /// When the last launches end, in a ring, from the oldest at `next` on.
    ends: Box<[[f64; COUNT]; DEPTH]>,
    next: usize,
    /// What all have worked alike.
    alike: Cost,
    /// What each has worked beside that.
    apart: [Cost; COUNT],
}

impl<const COUNT: usize> Lanes<COUNT> {
    pub fn new() -> Lanes<COUNT> {
        Lanes {
            cpu: [0.0; COUNT],
            gpu: [0.0; COUNT],
            ends: Box::new([[0.0; COUNT]; DEPTH]),
            next: 0,
            alike: Cost::default(),
            apart: [Cost::default(); COUNT],
        }
    }

    /// The same piece for all.
    #[inline(always)]
    pub fn hand_over(&mut self, cost: Cost) {
        self.alike += cost;
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

    /// All wait until the GPU is done.
    pub fn wait(&mut self) {
        self.cpu = self.marks();
    }

    /// When marks that are put into the queues now are reached.
    pub fn marks(&self) -> [f64; COUNT] {
        std::array::from_fn(|lane| later(self.cpu[lane], self.gpu[lane]))
    }

    /// What each has worked so far.
    pub fn busy(&self) -> [Cost; COUNT] {
        self.apart.map(|mut apart| {
            apart += self.alike;
            apart
        })
    }

    /// Hands over to one of them what only that has.
    pub fn hand_over_apart(&mut self, lane: usize, work: impl FnOnce(&mut Queues)) {
        let mut alone = Queues {
            cpu: self.cpu[lane],
            gpu: self.gpu[lane],
            ends: Box::new(std::array::from_fn(|place| self.ends[place][lane])),
            next: self.next,
            busy: self.apart[lane],
        };
        work(&mut alone);
        (self.cpu[lane], self.gpu[lane], self.apart[lane]) = (alone.cpu, alone.gpu, alone.busy);
        // Its oldest launch lies beside the others' oldest again.
        let (newer, older) = alone.ends.split_at(alone.next);
        for (place, end) in older.iter().chain(newer).enumerate() {
            self.ends[(self.next + place) % DEPTH][lane] = *end;
        }
    }
}

/// The later of two times. Times are numbers always, and `f64::max`, which heeds others, takes twice as long.
#[inline]
fn later(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::{Cost, DEPTH, Lanes, Queues, later};

    impl Queues {
        fn new() -> Queues {
            Queues { cpu: 0.0, gpu: 0.0, ends: Box::new([0.0; DEPTH]), next: 0, busy: Cost::default() }
        }

        fn mark(&self) -> f64 {
            later(self.cpu, self.gpu)
        }
    }

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
    fn lanes_side_by_side_go_as_each_alone() {
        let alike = [Cost { cpu: 3.0, gpu: 7.0 }, Cost { cpu: 2.0, gpu: 0.0 }, Cost { cpu: 4.0, gpu: 1.0 }];
        let apart = |lane: usize| (0..100 * lane).map(move |_| Cost { cpu: 2.0, gpu: 3.0 + lane as f64 });
        let mut lanes = Lanes::<3>::new();
        let mut alone = [(); 3].map(|()| Queues::new());
        for round in 0..4 {
            for cost in alike.iter().cycle().take(2_500) {
                lanes.hand_over(*cost);
                alone.iter_mut().for_each(|queues| queues.hand_over(*cost));
            }
            for (lane, queues) in alone.iter_mut().enumerate() {
                lanes.hand_over_apart(lane, |queues| apart(lane).for_each(|cost| queues.hand_over(cost)));
                apart(lane).for_each(|cost| queues.hand_over(cost));
            }
            assert_eq!(lanes.marks(), alone.each_ref().map(Queues::mark), "{round}");
            assert_eq!(lanes.busy(), alone.each_ref().map(|queues| queues.busy));
        }
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
