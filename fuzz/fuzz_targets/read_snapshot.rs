//! Any bytes are a snapshot or an error: no panic, no endless loop, no large allocation.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vramfit_trace::read::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    match read_bytes(bytes) {
        Ok(snapshot) => {
            for device in &snapshot.devices {
                for event in &device.events {
                    let _ = snapshot.stacks.frames(event.stack).count();
                    let _ = snapshot.strings.get(event.note);
                }
                for segment in &device.segments {
                    let total: u64 = segment.blocks.iter().map(|block| block.size).sum();
                    assert!(segment.blocks.is_empty() || total == segment.total_size, "blocks fill their segment");
                }
                assert!(device.segments.is_sorted_by_key(|segment| segment.address), "segments are in order");
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = error.hint();
        }
    }
});
