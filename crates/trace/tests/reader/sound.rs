//! What holds for every snapshot that the reader returns, whatever the file was.

use vramfit_trace::read::{ReadError, read_bytes};
use vramfit_trace::snapshot::{Snapshot, StackId};

/// Reads bytes that may be anything: a snapshot is sound, and a refusal says why.
pub fn read_any(bytes: &[u8]) {
    match read_bytes(bytes) {
        Ok(snapshot) => check_sound(&snapshot),
        Err(error) => {
            assert!(!matches!(error, ReadError::Io(_)), "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

fn check_sound(snapshot: &Snapshot) {
    let strings = snapshot.strings.len() as u32;
    let check_stack = |stack: StackId| {
        for frame in snapshot.stacks.frames(stack) {
            assert!(frame.file.0 < strings && frame.function.0 < strings, "{frame:?}");
        }
    };
    for device in &snapshot.devices {
        for event in &device.events {
            assert!(event.size < 1 << 44 && event.note.0 < strings, "{event:?}");
            check_stack(event.stack);
        }
        for segment in &device.segments {
            check_stack(segment.stack);
            let mut cursor = segment.address;
            for block in &segment.blocks {
                check_stack(block.stack);
                assert_eq!(block.address, cursor, "blocks tile their segment");
                cursor += block.size;
            }
            assert!(segment.blocks.is_empty() || cursor == segment.address + segment.total_size, "{segment:?}");
        }
    }
    assert!(snapshot.annotations.iter().all(|mark| mark.name.0 < strings && mark.stage.0 < strings));
}
