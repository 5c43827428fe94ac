//! `vramfit-validate`: prints the tables of answers and measurements, writes them into `docs/`, or checks those there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vramfit_validation::workspaces::ask;
use vramfit_validation::{
    allocator, archive, capped, caps, estimate, max_batch, price, ranks, recorded_answers, segments, step_times,
    workspaces,
};

const USAGE: &str = "usage: vramfit-validate allocator|estimate|parallel|archive|caps|price|step-times|max-batch|workspaces [--write | --check] | estimate PART | \
                     trace CASE | sweep-trace CAPTURE TRACE SETTINGS | capped-trace FILE | archive-trace CASE | segments CASE | trials CASE | price-calibration | \
                     ask-workspaces SHAPES LIBRARY OUT | record-cudnn LIBRARY DATE | workspace-table FILE | workspace-misses FILE";

/// Makes a page.
type Page = fn() -> Result<String, String>;

/// The tables: name, file in `docs/`, and the function that makes it.
const TABLES: [(&str, &str, Page); 9] = [
    ("allocator", "allocator-accuracy.md", allocator::page),
    ("estimate", "estimate-accuracy.md", estimate::page),
    ("parallel", "parallel-accuracy.md", ranks::page),
    ("archive", "pt2-accuracy.md", archive::page),
    ("caps", "cap-accuracy.md", caps::page),
    ("price", "price-accuracy.md", price::page),
    ("step-times", "step-time-accuracy.md", step_times::page),
    ("max-batch", "max-batch-accuracy.md", max_batch::page),
    ("workspaces", "workspace-accuracy.md", workspaces::page),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match answer(&words) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn answer(words: &[&str]) -> Result<String, String> {
    let table = |name: &str| TABLES.iter().find(|(known, ..)| *known == name).ok_or(USAGE);
    match words {
        ["price-calibration"] => price::calibration(),
        ["trace", case] => estimate::difference_of(case),
        ["sweep-trace", capture, trace, settings] => {
            estimate::difference_of_files(Path::new(capture), Path::new(trace), settings)
        }
        ["capped-trace", file] => capped::difference_of(Path::new(file)),
        ["trials", case] => max_batch::trials_of(case),
        ["segments", case] => segments::page(case),
        [ask::WORKER, library, properties] => ask::answer_as_worker(library, properties),
        ["ask-workspaces", recorded, library, out] => ask::ask(Path::new(recorded), library, Path::new(out)),
        ["record-cudnn", library, date] => recorded_answers::record(library, date),
        ["workspace-table", file] => workspaces::table(Path::new(file)),
        ["workspace-misses", file] => workspaces::misses(Path::new(file)),
        ["archive-trace", case] => archive::difference_of(case),
        ["estimate", part @ ("1" | "2" | "3" | "5" | "6" | "7")] => estimate::overview(part.parse().unwrap_or(1)),
        [name] => table(name)?.2(),
        [name, "--write"] => {
            let (_, file, page) = table(name)?;
            let path = docs(file);
            std::fs::write(&path, page()?).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(String::new())
        }
        [name, "--check"] => {
            let (_, file, page) = table(name)?;
            let written = std::fs::read_to_string(docs(file)).map_err(|error| format!("docs/{file}: {error}"))?;
            check(file, &written, &page()?)
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

/// Nothing where the page equals the written one, else an error with every line that differs.
fn check(file: &str, written: &str, made: &str) -> Result<String, String> {
    if written == made {
        return Ok(String::new());
    }
    let (mut old, mut new) = (written.lines(), made.lines());
    let mut text = format!("docs/{file} differs from what the measurements give now; `--write` writes it again");
    loop {
        match (old.next(), new.next()) {
            (None, None) => return Err(text),
            (one, other) if one == other => {}
            (one, other) => text += &format!("\n- {}\n+ {}", one.unwrap_or(""), other.unwrap_or("")),
        }
    }
}
