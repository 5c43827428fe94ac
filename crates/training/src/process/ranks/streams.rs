//! What streams beside the one that computes take from the driver.

use vramfit_eager::autograd::Context;
use vramfit_eager::memory::SideEventKind;

/// The driver takes address space for PyTorch's streams in so many pieces, as seen on an H200 with CUDA 13: the first stream of a priority
/// creates all that PyTorch has of it.
const STREAM_PIECES: u32 = 32;
/// Bytes of a piece.
pub(super) const PIECE: u64 = 2 << 20;

/// The first stream is created, for which the driver takes memory.
pub(super) fn create_streams(context: &mut Context) {
    if !std::mem::replace(&mut context.has_streams, true) {
        let mut memory = context.memory().borrow_mut();
        for _ in 0..STREAM_PIECES {
            memory.add_side_event(SideEventKind::LibraryAllocates(PIECE));
        }
    }
}
