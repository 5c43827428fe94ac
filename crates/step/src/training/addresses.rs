//! Orders in which CUDA may give out addresses.

use vramfit_allocator::SimulatedDriver;

/// GPUs without end that give out addresses in different orders, the usual one first. Which of two cached blocks of one
/// size is taken depends on it; where the answer does too, it is a range.
pub fn address_orders() -> [SimulatedDriver; 3] {
    let with_hole = |mebibytes: u64| {
        let mut driver = SimulatedDriver::unlimited();
        let begin = 1 << 45;
        driver.reveal(begin, begin + (mebibytes << 20));
        driver
    };
    [SimulatedDriver::unlimited(), with_hole(352), with_hole(1 << 20)]
}
