//! Writes the pages that `tests/html` looks at, of made-up recordings: `synthetic_pages FOLDER`.

use std::path::Path;
use std::process::ExitCode;

use vramfit_allocator::Settings;
use vramfit_explain::explain;
use vramfit_explain::synthetic::{Kept, Program, Training};
use vramfit_report::explain::page;
use vramfit_report::page::Origin;
use vramfit_trace::snapshot::Snapshot;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: synthetic_pages FOLDER");
        return ExitCode::from(2);
    };
    let pages = [("leak", leak()), ("hostile", hostile()), ("empty", Program::new().snapshot()), ("large", large())];
    for (name, snapshot) in pages {
        let explanation = explain(&snapshot, 0, &Settings::default(), None);
        let path = Path::new(&folder).join(format!("{name}.html"));
        let file = format!("{name}.pickle");
        let page = page(&snapshot, &explanation, &file, &Origin::new(&["explain".into(), file.clone()], &[], "0.0.0"));
        if let Err(error) = std::fs::write(&path, page) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
        println!("{}: {} events", path.display(), explanation.history.allocated.len());
    }
    ExitCode::SUCCESS
}

/// A training that keeps its outputs, and validates now and then.
fn leak() -> Snapshot {
    let mut program = Program::new();
    let training = Training { kept: Kept::Outputs, epochs: 2, evaluation: 3, is_foreach: true, ..Training::default() };
    training.run(&mut program);
    program.snapshot()
}

/// Names that would be markup or script if anything let them.
fn hostile() -> Snapshot {
    let mut program = Program::new();
    Training { steps: 3, ..Training::default() }.run(&mut program);
    let file = "a</script><script>window.harmed=1</script><img src=x onerror='window.harmed=1'>.py";
    let stack = program.stack(&[(file, 7, "<b onclick=\"window.harmed=1\">f</b>${window.harmed=1}")]);
    program.allocate(256 << 20, stack);
    program.snapshot()
}

/// More than 200,000 events.
fn large() -> Snapshot {
    let mut program = Program::new();
    let training = Training {
        layers: 12,
        parameters: 1 << 20,
        activation: 3 << 20,
        steps: 330,
        epochs: 4,
        evaluation: 6,
        is_foreach: true,
        varies: true,
        ..Training::default()
    };
    training.run(&mut program);
    program.snapshot()
}
