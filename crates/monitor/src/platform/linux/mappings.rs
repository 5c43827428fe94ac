//! The files a process has mapped into its memory.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

const PYTORCH: &[u8] = b"libtorch_cuda";

/// Whether the process has PyTorch's CUDA library mapped; `false` also without permission to read its mappings.
pub fn has_pytorch(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join("maps")) else { return false };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        if line.windows(PYTORCH.len()).any(|window| window == PYTORCH) {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_pytorch_if_it_maps_libtorch_cuda() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_pytorch(folder.path()));
        let maps = folder.path().join("maps");
        std::fs::write(&maps, "7f00-7f01 r-xp 0 0:0 1 /usr/lib/libc.so.6\n").unwrap();
        assert!(!has_pytorch(folder.path()));
        std::fs::write(&maps, "7f00-7f01 r-xp 0 0:0 1 /x/torch/lib/libtorch_cuda.so\n").unwrap();
        assert!(has_pytorch(folder.path()));
    }
}
