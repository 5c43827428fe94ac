//! The client with shell scripts in place of the process that loads cuDNN: one that answers, and every way not to.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use vramfit_catalogue::Catalogue;
use vramfit_cudnn::convolution::{ConvolutionPass, ConvolutionProblem, CudnnVersion, LiveAnswers, LiveReport};
use vramfit_cudnn_library::{Client, Deadlines, DeviceProperties};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

/// Greets as cuDNN 9.19.0, and writes down that it was started.
const READY: &str = "echo started >> \"$FOLDER/starts\"; echo '{\"Ready\":91900}'";

fn problem(batch: i64) -> ConvolutionProblem {
    ConvolutionProblem {
        pass: ConvolutionPass::Forward,
        dtype: Dtype::Float32,
        format: Format::Contiguous,
        image: Dims::from([batch, 64, 56, 56]),
        result: Dims::from([batch, 64, 56, 56]),
        weight: Dims::from([64, 64, 3, 3]),
        stride: Dims::from([1, 1]),
        padding: Dims::from([1, 1]),
        dilation: Dims::from([1, 1]),
        groups: 1,
    }
}

/// A client of a script that is run in place of the child process; the folder has the library and the cache.
fn client(folder: &Path, script: &str) -> Client {
    let library = folder.join("libcudnn.so.9");
    if !library.exists() {
        std::fs::write(&library, b"").unwrap();
    }
    let catalogue = Catalogue::built_in().unwrap();
    let properties = DeviceProperties::from(catalogue.find("RTX 3060").unwrap());
    let (script, folder) = (script.to_owned(), folder.to_owned());
    let cache = folder.join("cache");
    let command = move || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script, "stand-in"]).env("FOLDER", &folder);
        command
    };
    let deadlines = Deadlines { loading: Duration::from_secs(20), answering: Duration::from_secs(20) };
    Client::new(Box::new(command), library, properties, Some(cache)).with_deadlines(deadlines)
}

fn workspace(client: &Client, batch: i64) -> Option<u64> {
    client.plan(&problem(batch)).map(|plan| plan.workspace)
}

fn starts(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("starts")).unwrap_or_default().lines().count()
}

/// What a script that does not answer is reported with; it is asked twice.
fn failure(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    failure_of(&client(folder.path(), script))
}

fn failure_of(client: &Client) -> String {
    assert_eq!((client.plan(&problem(1)), client.plan(&problem(2))), (None, None));
    let LiveReport { asked, unanswered, failure, .. } = client.report();
    assert_eq!((asked, unanswered), (2, 2));
    failure.unwrap()
}

#[test]
fn answers_are_counted_once_and_kept_for_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("{READY}; while read -r line; do case $line in *'[7,'*) echo '[]';; *) echo '[4096]';; esac; done");
    for _ in 0..2 {
        let client = client(folder.path(), &script);
        assert_eq!((client.report().asked, client.report().version), (0, None));
        assert_eq!([1, 1, 7, 2].map(|batch| workspace(&client, batch)), [Some(4096), Some(4096), None, Some(4096)]);
        let library = folder.path().join("libcudnn.so.9");
        let version = Some(CudnnVersion(91_900));
        assert_eq!(client.report(), LiveReport { library, version, asked: 3, unanswered: 1, failure: None });
    }
    assert_eq!(starts(folder.path()), 1);
}

#[test]
fn the_child_gets_the_library_and_the_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("printf '%s\\n' \"$1\" \"$2\" > \"$FOLDER/arguments\"; {READY}; read -r line; echo '[0]'");
    assert_eq!(workspace(&client(folder.path(), &script), 1), Some(0));
    let arguments = std::fs::read_to_string(folder.path().join("arguments")).unwrap();
    assert!(arguments.contains("/libcudnn.so.9\n") && arguments.contains("\"deviceVer\":860"), "{arguments}");
}

#[test]
fn a_type_that_cudnn_is_not_asked_about_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), READY);
    assert_eq!(client.plan(&ConvolutionProblem { dtype: Dtype::Float64, ..problem(1) }), None);
    assert_eq!((client.report().asked, starts(folder.path())), (0, 0));
}

#[test]
fn a_library_that_cannot_be_loaded_is_reported_in_its_own_words() {
    assert_eq!(failure("echo '{\"Failed\":\"file too short\"}'"), "file too short");
}

#[test]
fn a_process_that_aborts_is_reported_with_its_signal_and_last_words() {
    let words = failure("echo first >&2; echo 'cannot load libcublasLt' >&2; kill -ABRT $$");
    assert!(words.contains("SIGABRT") && words.ends_with(": cannot load libcublasLt"), "{words}");
    let words = failure(&format!("{READY}; read -r line; exit 3"));
    assert!(words.contains("exit status: 3"), "{words}");
}

#[test]
fn a_process_that_speaks_nonsense_is_not_believed() {
    for script in [
        "echo hello".to_owned(),
        format!("{READY}; read -r line; echo -5"),
        format!("{READY}; read -r line; echo '{{}}'"),
    ] {
        assert_eq!(failure(&script), "what it answers is not an answer", "{script}");
    }
}

#[test]
fn a_process_that_hangs_is_given_up_and_killed_in_time() {
    let limit = Duration::from_millis(200);
    for script in ["exec sleep 1000".to_owned(), format!("{READY}; read -r line; exec sleep 1000")] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("echo $$ > \"$FOLDER/pid\"; {script}");
        let deadlines = Deadlines { loading: Duration::from_secs(2), answering: limit };
        let client = client(folder.path(), &script).with_deadlines(deadlines);
        let begin = Instant::now();
        assert!(failure_of(&client).starts_with("no answer within"));
        assert!(begin.elapsed() < Duration::from_secs(10));
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists() || cfg!(not(target_os = "linux")));
    }
}

#[test]
fn a_program_that_does_not_start_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcudnn.so.9");
    let catalogue = Catalogue::built_in().unwrap();
    let properties = DeviceProperties::from(catalogue.find("RTX 3060").unwrap());
    let command = || Command::new("/nowhere/vramfit");
    let client = Client::new(Box::new(command), library, properties, None);
    assert!(failure_of(&client).starts_with("the process to load it does not start"));
}

#[test]
fn what_was_answered_before_a_failure_counts() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), &format!("{READY}; read -r line; echo '[512]'; read -r line; exit 1"));
    assert_eq!([1, 2, 1, 3].map(|batch| workspace(&client, batch)), [Some(512), None, Some(512), None]);
    let report = client.report();
    assert_eq!((report.asked, report.unanswered, report.version), (3, 2, Some(CudnnVersion(91_900))));
    assert!(report.failure.is_some());
    assert_eq!(starts(folder.path()), 1);
}

#[test]
fn a_cache_that_cannot_be_written_or_read_costs_only_time() {
    let folder = tempfile::tempdir().unwrap();
    // A file where the cache's folder would be.
    std::fs::write(folder.path().join("cache"), b"").unwrap();
    for runs in 1..3 {
        let client = client(folder.path(), &format!("{READY}; while read -r line; do echo '[1]'; done"));
        assert_eq!((workspace(&client, 1), client.report().failure), (Some(1), None));
        assert_eq!(starts(folder.path()), runs);
    }
}
