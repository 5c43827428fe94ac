//! The child process: loads cuDNN, then answers the questions on its standard input.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use vramfit_cudnn::convolution::CudnnVersion;

use crate::backend::{Backend, load_dependencies};
use crate::cublas_hook;
use crate::protocol::{Greeting, Question, Reply};
use crate::question::Heuristic;

/// Older libraries have other functions.
const OLDEST: CudnnVersion = CudnnVersion(90_000);
/// The first version that plans for a GPU that is only described.
const DESCRIBES_DEVICES: CudnnVersion = CudnnVersion(90_800);
/// How long the process may go on after its input has ended.
const GRACE: Duration = Duration::from_secs(2);

/// Answers the questions on standard input until it ends. A process whose parent is gone ends, even if cuDNN hangs.
///
/// # Errors
/// The output cannot be written, or a question cannot be read.
pub fn worker(library: &Path, properties: &str) -> io::Result<()> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(io::stdin()).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
        drop(sender);
        thread::sleep(GRACE);
        process::abort();
    });
    answer(library, properties, lines.into_iter(), io::stdout().lock())
}

fn answer(
    library: &Path,
    properties: &str,
    lines: impl Iterator<Item = String>,
    mut output: impl Write,
) -> io::Result<()> {
    let heuristic = match load(library, properties) {
        Ok((version, heuristic)) => {
            write_line(&mut output, &Greeting::Ready(version.0))?;
            heuristic
        }
        Err(reason) => return write_line(&mut output, &Greeting::Failed(reason)),
    };
    for line in lines {
        let question: Question = serde_json::from_str(&line)?;
        let reply: Reply = question.problem().map_or_else(Vec::new, |problem| match question.wants_all() {
            true => heuristic.workspaces(&problem).unwrap_or_default(),
            false => heuristic.first_plan(&problem).unwrap_or_default(),
        });
        write_line(&mut output, &reply)?;
    }
    Ok(())
}

fn load(library: &Path, properties: &str) -> Result<(CudnnVersion, Heuristic), String> {
    load_dependencies(library);
    // The loader's words begin with the path, which whoever reads them knows.
    let own_path = format!("{}: ", library.display());
    let backend = Backend::load(library).map_err(|error| error.to_string().replace(&own_path, ""))?;
    let version = CudnnVersion(backend.version());
    if version < OLDEST {
        return Err(format!("cuDNN {version} is older than 9.0"));
    }
    match Heuristic::new(backend, properties, cublas_hook::install(library)) {
        Ok(heuristic) => Ok((version, heuristic)),
        Err(_) if version < DESCRIBES_DEVICES => Err(format!(
            "cuDNN {version} only answers for a GPU that is there; version 9.8 and later answer for others"
        )),
        Err(error) => Err(format!("cuDNN {version} does not take the GPU's description: {error}")),
    }
}

fn write_line(output: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    output.write_all(b"\n")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(library: &Path) -> Greeting {
        let mut output = Vec::new();
        answer(library, "{}", std::iter::empty(), &mut output).unwrap();
        serde_json::from_slice(&output).unwrap()
    }

    #[test]
    fn a_file_that_is_no_library_fails_with_the_loaders_words() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libcudnn.so.9");
        for contents in
            [&b""[..], b"\x7fELF", b"not a library at all, but long enough to have a header of some kind in it"]
        {
            std::fs::write(&library, contents).unwrap();
            assert!(matches!(greeting(&library), Greeting::Failed(words) if !words.contains("libcudnn.so.9")));
        }
        assert!(matches!(greeting(&folder.path().join("missing")), Greeting::Failed(_)));
    }
}
