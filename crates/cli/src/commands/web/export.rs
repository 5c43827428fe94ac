//! `vramfit web --export`: the calculator as files, for any web server.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use vramfit_report::size::human;
use vramfit_web::calculator::page::{ENGINE, exported};

use crate::arguments::web::Web;
use crate::commands::print;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::whole_file;

/// What cargo calls the module.
const MODULE: &str = "vramfit_browser.wasm";
/// Where it is looked for, from the program's folder: beside it, where wheels put it, and where cargo builds it.
const PLACES: [&str; 4] =
    [".", "../share/vramfit", "../wasm32-unknown-unknown/dist", "../wasm32-unknown-unknown/release"];
/// The first bytes of a WebAssembly module.
const MAGIC: &[u8] = b"\0asm";
/// What stands before the version in the module; a semicolon stands behind it.
const MARK: &str = "vramfit engine for browsers, version ";
const LONGEST_VERSION: usize = 40;
const BUILD: &str = "the wheels from PyPI have it; from the sources: cargo build --locked --profile dist --target wasm32-unknown-unknown \
                     -p vramfit-browser (after `rustup target add wasm32-unknown-unknown`), and then --engine \
                     target/wasm32-unknown-unknown/dist/vramfit_browser.wasm";

/// Writes the files.
pub fn run(folder: &Path, options: &Web) -> Result<ExitStatus, Failure> {
    let engine = engine(options.engine.as_deref())?;
    need_room(folder, options.force)?;
    let at = |path: &Path, error: std::io::Error| Failure::at(format!("--export {}", path.display()), error);
    fs::create_dir_all(folder).map_err(|error| at(folder, error))?;
    let pages = exported().into_iter().map(|(name, text)| (name, text.into_bytes()));
    for (name, bytes) in pages.chain([(ENGINE, engine)]) {
        let path = folder.join(name);
        whole_file::write(&path, &bytes).map_err(|error| at(&path, error))?;
    }
    print(&format!(
        "wrote the calculator to {folder}: copy it to a web server, or look at it with `python3 -m http.server -d {folder}`\n",
        folder = folder.display()
    ))?;
    Ok(ExitStatus::Good)
}

/// Nothing that is there is overwritten unless that is asked for.
fn need_room(folder: &Path, force: bool) -> Result<(), Failure> {
    let at = |found: &str| Failure::new(format!("--export {}: found {found}", folder.display()));
    match fs::read_dir(folder).map(|mut files| files.next().is_some()) {
        Ok(true) if !force => Err(at("a folder with files in it, needed an empty one, or none yet")
            .with_hint(Some("--force writes into it; other files there stay"))),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(at("a file, needed a folder")),
        Err(error) => Err(Failure::at(format!("--export {}", folder.display()), error)),
    }
}

/// The module: the one that is named, or the first that is found.
fn engine(given: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => find()?,
    };
    let bytes = fs::read(&path).map_err(|error| Failure::at(format!("--engine {}", path.display()), error))?;
    let refused = |found: String| {
        Failure::new(format!("--engine {}: found {found}, needed {MODULE} of this version", path.display()))
            .with_hint(Some(BUILD))
    };
    if !bytes.starts_with(MAGIC) {
        return Err(refused(format!("{} that are no WebAssembly module", human(bytes.len() as u64))));
    }
    let version = env!("CARGO_PKG_VERSION");
    match version_in(&bytes) {
        Some(found) if found == version => Ok(bytes),
        Some(found) => Err(refused(format!("version {found} of it; this program is version {version}"))),
        None => Err(refused("another WebAssembly module".to_owned())),
    }
}

/// The version that stands in the module.
fn version_in(module: &[u8]) -> Option<String> {
    let begin = module.windows(MARK.len()).position(|bytes| bytes == MARK.as_bytes())? + MARK.len();
    let length = module[begin..].iter().take(LONGEST_VERSION).position(|byte| *byte == b';')?;
    Some(String::from_utf8_lossy(&module[begin..begin + length]).into_owned())
}

fn find() -> Result<PathBuf, Failure> {
    let program = env::current_exe().map_err(|error| Failure::at("the program's own path", error))?;
    // A link in a folder of programs leads to where the rest is.
    let program = fs::canonicalize(&program).unwrap_or(program);
    let folder = program.parent().unwrap_or(Path::new("."));
    PLACES.iter().map(|place| folder.join(place).join(MODULE)).find(|path| path.is_file()).ok_or_else(|| {
        Failure::new(format!("--export: found no {MODULE} beside the program, needed it, or --engine FILE"))
            .with_hint(Some(BUILD))
    })
}
