//! `vramfit lint`: code that wastes or leaks GPU memory in Python sources.

mod recording;
mod server;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use vramfit_lint::files::{FileReport, Options, check_paths, check_text};
use vramfit_lint::fix::fixed;
use vramfit_lint::rules;
use vramfit_lint::settings::Settings;
use vramfit_report::lint as report;

use crate::arguments::{Lint, LintFormat, Output};
use crate::commands::{print, print_json};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::whole_file;
use recording::Recording;

/// Findings are a bad verdict; files that cannot be read or parsed are a failure, after the rest has been reported.
pub fn run(options: &Lint, output: &Output) -> Result<ExitStatus, Failure> {
    if let Some(code) = &options.explain {
        return explain(code);
    }
    if options.lsp {
        return server::run(wanted(options));
    }
    let reads_input = options.paths.iter().any(|path| path == Path::new("-"));
    if reads_input && (options.paths.len() > 1) {
        return Err(Failure::new("`-` is standard input and cannot be combined with other paths"));
    }
    let mut reports = if reads_input { vec![standard_input(options)?] } else { check(&options.paths, options)? };
    let format = if output.json { LintFormat::Json } else { options.format };
    if options.diff {
        let status = diff(&reports, options)?;
        return report_errors(&reports).map(|()| status);
    }
    if options.fix && !reads_input {
        let changed = fix_files(&reports, options)?;
        if changed > 0 {
            reports = check(&options.paths, options)?;
        }
    } else if options.fix {
        return fix_input(&reports[0], options);
    }
    if let Some(path) = &options.with {
        for note in Recording::read(path)?.attach(&mut reports) {
            anstream::eprintln!("note: {note}");
        }
    }
    show(&reports, format, options)?;
    report_errors(&reports)?;
    let is_clean = reports.iter().all(|report| report.checked.findings.iter().all(|finding| !finding.is_shown()));
    Ok(if is_clean { ExitStatus::Good } else { ExitStatus::Bad })
}

/// Reports files that could not be read or parsed, and fails if there are any.
fn report_errors(reports: &[FileReport]) -> Result<(), Failure> {
    let errors = report::errors(reports);
    if errors.is_empty() {
        return Ok(());
    }
    // There is nowhere to report a closed standard error.
    let _ = anstream::stderr().lock().write_all(errors.as_bytes());
    let count = reports.iter().filter(|report| report.unreadable.is_some() || report.checked.error.is_some()).count();
    let others = if count < reports.len() { "; the others were" } else { "" };
    Err(Failure::new(format!("{count} of {} files could not be checked{others}", reports.len())))
}

fn wanted(options: &Lint) -> Options {
    Options {
        select: options.select.clone(),
        ignore: options.ignore.clone(),
        include_tests: options.include_tests,
        notes: options.notes,
    }
}

fn check(paths: &[PathBuf], options: &Lint) -> Result<Vec<FileReport>, Failure> {
    check_paths(paths, &wanted(options)).map_err(Failure::new)
}

fn standard_input(options: &Lint) -> Result<FileReport, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(format!("standard input: {error}")))?;
    check_bytes(bytes, options)
}

/// Checks a text as standard input, under the name given for it.
fn check_bytes(bytes: Vec<u8>, options: &Lint) -> Result<FileReport, Failure> {
    let path = &options.stdin_filename;
    let settings = Settings::find(if path == Path::new("-") { Path::new(".") } else { path }).map_err(Failure::new)?;
    settings.selection(path, options.select.as_deref(), &options.ignore).map_err(Failure::new)?;
    let wanted = wanted(options);
    // The parser and the interpreter recurse into nested code.
    let worker = std::thread::Builder::new().stack_size(64 << 20);
    let worker = worker.spawn({
        let path = path.clone();
        move || check_text(&path, &bytes, &settings, &wanted)
    });
    worker
        .map_err(|error| Failure::new(format!("a thread could not be started: {error}")))?
        .join()
        .map_err(|_| Failure::new("the check panicked"))
}

fn explain(code: &str) -> Result<ExitStatus, Failure> {
    if code == "all" {
        print(&report::rules())?;
        return Ok(ExitStatus::Good);
    }
    match rules::find(&code.to_ascii_uppercase()) {
        Some(rule) => print(rule.page)?,
        None => {
            return Err(
                Failure::new(format!("`{code}` is no rule")).with_hint(Some("vramfit lint --explain lists all rules"))
            );
        }
    }
    Ok(ExitStatus::Good)
}

fn show(reports: &[FileReport], format: LintFormat, options: &Lint) -> Result<(), Failure> {
    match format {
        LintFormat::Json => print_json(&report::LintReport::new(reports)),
        LintFormat::Sarif => print_json(&report::sarif(reports)),
        LintFormat::Github => print(&report::github(reports)),
        LintFormat::Text if options.statistics => print(&report::statistics(reports)),
        LintFormat::Text => print(&(report::text(reports) + &report::summary(reports))),
    }
}

/// The fixed text of a file; `None` if there is nothing to fix.
fn fixed_text(report: &FileReport, options: &Lint) -> Option<String> {
    fixed(report.document.as_ref()?, &report.checked.findings, options.unsafe_fixes)
}

fn fix_files(reports: &[FileReport], options: &Lint) -> Result<usize, Failure> {
    let mut changed = 0;
    for report in reports {
        if let Some(text) = fixed_text(report, options) {
            whole_file::write(&report.path, text.as_bytes()).map_err(|error| {
                Failure::new(format!("{}: the fixed file could not be written: {error}", report.path.display()))
            })?;
            changed += 1;
        }
    }
    Ok(changed)
}

/// `--fix` of standard input prints the fixed text; remaining findings go to standard error.
fn fix_input(report: &FileReport, options: &Lint) -> Result<ExitStatus, Failure> {
    let Some(document) = &report.document else {
        return report_errors(std::slice::from_ref(report)).map(|()| ExitStatus::Good);
    };
    let text = fixed_text(report, options).unwrap_or_else(|| document.original());
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::new(format!("standard output: {error}")))?;
    let left = [check_bytes(text.into_bytes(), options)?];
    report_errors(&left)?;
    if left[0].checked.findings.iter().all(|finding| !finding.is_shown()) {
        return Ok(ExitStatus::Good);
    }
    let _ = anstream::stderr().lock().write_all(report::text(&left).as_bytes());
    Ok(ExitStatus::Bad)
}

fn diff(reports: &[FileReport], options: &Lint) -> Result<ExitStatus, Failure> {
    let mut all = String::new();
    for report in reports {
        if let (Some(new), Some(document)) = (fixed_text(report, options), &report.document) {
            all += &report::diff(&report.path.display().to_string(), &document.original(), &new);
        }
    }
    print(&all)?;
    Ok(if all.is_empty() { ExitStatus::Good } else { ExitStatus::Bad })
}
