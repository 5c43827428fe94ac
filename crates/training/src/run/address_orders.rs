//! The orders in which CUDA may place segments.

use vramfit_allocator::SimulatedDriver;

/// Address space between the heaps of threads on a machine with 16 cores.
const GAPS_OF_THREADS: u64 = 9 * (32 << 20);

/// Drivers without a memory limit that place segments in different orders, the expected one first. The order decides which of two
/// free blocks of one size is used; where the result depends on it, the answer is a range. The other orders are those of a process
/// whose threads leave gaps that CUDA uses, of a GPU whose context is laid out differently, of a process whose freed host memory has
/// gaps from bottom to top, and two without any order: what the process did before decides about the gaps.
pub fn address_orders() -> [SimulatedDriver; 6] {
    let expected = SimulatedDriver::in_process(u64::MAX);
    let mut many_threads = expected.clone();
    many_threads.host_frees(GAPS_OF_THREADS);
    let (descending, ascending) = (SimulatedDriver::unlimited(), SimulatedDriver::ascending());
    [expected, many_threads, descending, ascending, SimulatedDriver::scattered(1), SimulatedDriver::scattered(2)]
}
