//! The orders in which CUDA may place segments.

use vramfit_allocator::SimulatedDriver;

/// Address space between the heaps of threads on a machine with 16 cores.
const GAPS_OF_THREADS: u64 = 9 * (32 << 20);

/// Drivers without a memory limit that place segments in the order that is expected, and in two that are likely: of a process whose
/// threads leave gaps that CUDA uses, and of a GPU whose context is laid out differently. The order decides which of two free blocks
/// of one size is used; where the result depends on it, the answer is a range.
pub fn address_orders() -> [SimulatedDriver; 3] {
    let expected = SimulatedDriver::in_process(u64::MAX);
    let mut many_threads = expected.clone();
    many_threads.host_frees(GAPS_OF_THREADS);
    [expected, many_threads, SimulatedDriver::unlimited()]
}

/// Scattered orders that are tried.
const SCATTERED: u64 = 12;

/// Orders that are possible: the gaps that a process has left between its mappings may be anywhere. Of the models of the sweep whose
/// events all agree, one had the peak of allocated bytes of such an order (`docs/cuda-addresses.md`), and four that of reserved bytes.
pub fn unlikely_address_orders() -> impl Iterator<Item = SimulatedDriver> {
    std::iter::once(SimulatedDriver::ascending()).chain((1..=SCATTERED).map(SimulatedDriver::scattered))
}
