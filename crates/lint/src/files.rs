//! The files to check: those named, and in named folders the Python files and notebooks that git does not ignore.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use ignore::WalkBuilder;

use crate::check::{Checked, check_among};
use crate::document::Document;
use crate::project::Project;
use crate::settings::Settings;
use crate::test_files::is_test_file;

/// A file and the result of checking it.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The path as it was given.
    pub path: PathBuf,
    /// Its text, if it could be read.
    pub document: Option<Document>,
    /// The result.
    pub checked: Checked,
    /// Why it could not be read.
    pub unreadable: Option<String>,
}

/// The options of the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Rules to use instead of the project's.
    pub select: Option<Vec<String>>,
    /// Rules to leave out in addition to the project's.
    pub ignore: Vec<String>,
    /// Also check the unit tests that are in folders.
    pub include_tests: bool,
    /// Also report what the source does not show, as notes.
    pub notes: bool,
}

/// Checks all files in parallel; the reports are sorted by path.
pub fn check_paths(paths: &[PathBuf], options: &Options) -> Result<Vec<FileReport>, String> {
    let mut files: Vec<Source> = Vec::new();
    let (mut settings, mut failures) = (Vec::new(), Vec::new());
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let own = Settings::find(path)?;
        own.selection(path, options.select.as_deref(), &options.ignore)?;
        if metadata.is_dir() {
            let (found, failed) = python_files(path);
            let found = found.into_iter().filter(|file| !own.is_excluded(file));
            files.extend(found.map(|path| Source { path, settings: settings.len(), is_named: false }));
            failures.extend(failed);
        } else {
            files.push(Source { path: path.clone(), settings: settings.len(), is_named: true });
        }
        settings.push(own);
    }
    // Of a file that is in a folder and named too, the name counts.
    files.sort_by(|one, two| one.path.cmp(&two.path).then(two.is_named.cmp(&one.is_named)));
    files.dedup_by(|one, two| one.path == two.path);
    let is_script = |path: &Path| path.extension().is_some_and(|extension| extension == "py");
    let scripts = files.iter().filter(|file| is_script(&file.path));
    let folder = |file: &Source| if file.is_named { paths.len() } else { file.settings };
    let project = Project::new(scripts.map(|file| (file.path.clone(), folder(file))));
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::with_capacity(files.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let work = || {
                let mut own = Vec::new();
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    own.push(check_file(file, &settings[file.settings], options, &project));
                }
                if let Ok(mut reports) = reports.lock() {
                    reports.append(&mut own);
                }
            };
            // The parser and the interpreter recurse into nested code.
            let started = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, work);
            if started.is_err() {
                break;
            }
        }
    });
    let mut reports = reports.into_inner().map_err(|_| "a thread panicked".to_string())?;
    if reports.len() < files.len() {
        return Err("threads could not be started".into());
    }
    reports.append(&mut failures);
    reports.sort_by(|one: &FileReport, two: &FileReport| one.path.cmp(&two.path));
    Ok(reports)
}

/// Checks a text by itself as if it were the file at `path`.
pub fn check_text(path: &Path, bytes: &[u8], settings: &Settings, options: &Options) -> FileReport {
    check_bytes(path, bytes, settings, options, None)
}

fn check_bytes(
    path: &Path,
    bytes: &[u8],
    settings: &Settings,
    options: &Options,
    project: Option<&Project>,
) -> FileReport {
    let report = |document, checked, unreadable| FileReport { path: path.to_path_buf(), document, checked, unreadable };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return report(None, Checked::default(), Some("the text is not UTF-8".into()));
    };
    let document = if path.extension().is_some_and(|extension| extension == "ipynb") {
        match Document::notebook(text) {
            Ok(document) => document,
            Err(error) => return report(None, Checked::default(), Some(error)),
        }
    } else {
        Document::script(text.to_string())
    };
    match settings.selection(path, options.select.as_deref(), &options.ignore) {
        Ok(selection) => {
            let mut checked = check_among(&document, &selection, project.map(|project| (project, path)));
            checked.findings.retain(|finding| options.notes || finding.is_shown());
            report(Some(document), checked, None)
        }
        Err(error) => report(None, Checked::default(), Some(error)),
    }
}

/// A file to check.
struct Source {
    path: PathBuf,
    /// The number of its settings.
    settings: usize,
    /// Whether it was named itself, and not only a folder around it.
    is_named: bool,
}

fn check_file(file: &Source, settings: &Settings, options: &Options, project: &Project) -> FileReport {
    let path = &file.path;
    match read(path) {
        Ok(bytes) if bytes.len() as u64 > MAX_SIZE => unreadable(path, "larger than 1 GiB".into()),
        Ok(bytes) if !file.is_named && !options.include_tests && is_test_file(path, &bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let document = Some(Document::script(text));
            FileReport { path: path.clone(), document, checked: Checked::default(), unreadable: None }
        }
        Ok(bytes) => check_bytes(path, &bytes, settings, options, Some(project)),
        Err(error) => unreadable(path, error.to_string()),
    }
}

/// More than any source has, and a limit for an endless device file.
const MAX_SIZE: u64 = 1 << 30;

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, reason: String) -> FileReport {
    FileReport { path: path.to_path_buf(), document: None, checked: Checked::default(), unreadable: Some(reason) }
}

/// The files to check below a folder, and the folders that could not be read.
fn python_files(folder: &Path) -> (Vec<PathBuf>, Vec<FileReport>) {
    let (sender, receiver) = mpsc::channel();
    WalkBuilder::new(folder).require_git(false).build_parallel().run(|| {
        let sender = sender.clone();
        Box::new(move |entry| {
            // The receiver outlives the walk, so sending cannot fail.
            match entry {
                Ok(entry)
                    if entry.file_type().is_some_and(|kind| kind.is_file())
                        && entry
                            .path()
                            .extension()
                            .is_some_and(|extension| extension == "py" || extension == "ipynb") =>
                {
                    let _ = sender.send(Ok(entry.into_path()));
                }
                Ok(_) => {}
                Err(error) => {
                    let _ = sender.send(Err(error.to_string()));
                }
            }
            ignore::WalkState::Continue
        })
    });
    drop(sender);
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    for found in receiver {
        match found {
            Ok(file) => files.push(file),
            Err(reason) => failures.push(unreadable(folder, reason)),
        }
    }
    (files, failures)
}
