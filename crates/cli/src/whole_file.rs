//! Writing a file whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path`: beside it first, then under its name. What was there before stays until all is written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, needed a file"));
    }
    // A device or a pipe cannot be replaced, only written to.
    if path.exists() && !path.is_file() {
        return fs::write(path, bytes);
    }
    let beside = Beside(sibling(path));
    let mut file = File::create_new(&beside.0)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&beside.0, path)
}

fn sibling(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// A file that is removed again, unless it has got its name.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        // After the renaming there is nothing to remove; before, there is nobody to tell.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_stays_behind() {
        let folder = std::env::temp_dir().join(format!("vramfit-whole-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("page.html");
        write(&path, b"first").unwrap();
        write(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert!(write(&folder, b"folder").is_err());
        assert!(write(&folder.join("missing").join("page.html"), b"nowhere").is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
