//! Orders in which CUDA may give out addresses.

use vramfit_allocator::SimulatedDriver;

/// Address space that the C library leaves between the heaps of threads on a machine with 16 cores.
const GAPS_OF_THREADS: u64 = 9 * (32 << 20);

/// GPUs without end that give out addresses in different orders, the usual one first. Which of two cached blocks of one
/// size is taken depends on it; where the answer does too, it is a range. Other threads leave gaps that CUDA uses, and
/// another GPU's context is laid out otherwise.
pub fn address_orders() -> [SimulatedDriver; 3] {
    let usual = SimulatedDriver::in_process(u64::MAX);
    let mut many_threads = usual.clone();
    many_threads.host_frees(GAPS_OF_THREADS);
    [usual, many_threads, SimulatedDriver::unlimited()]
}
