//! `--cudnn`: which library is asked, what the answer says about it, and what happens where it does not answer.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;

use assert_cmd::Command;
use serde_json::{Value, json};

/// Folders of a user: configuration and cache, and an empty environment.
struct User(tempfile::TempDir);

/// An estimate with convolutions that only the table of the H200 has: the others leave out this batch.
const CONVOLUTIONS: [&str; 5] = ["estimate", "resnet18", "--batch", "33", "--json"];
const RTX_3060: [&str; 2] = ["--gpu", "RTX 3060"];

/// The library that stands in for cuDNN.
fn stand_in() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cudnn/libcudnn.rs");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cudnn");
        fs::create_dir_all(&folder).unwrap();
        // Test programs run side by side: the file is put in place whole.
        let part = folder.join(format!("{}.so", std::process::id()));
        let library = folder.join("libcudnn.so.9");
        let built = std::process::Command::new(Path::new(env!("CARGO")).with_file_name("rustc"))
            .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
            .args([&part, &source])
            .status()
            .unwrap();
        assert!(built.success(), "the stand-in does not build");
        fs::rename(part, &library).unwrap();
        library
    })
}

impl User {
    fn new() -> User {
        User(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs vramfit with an environment of its own.
    fn output(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::cargo_bin("vramfit").unwrap();
        command.env_clear().env("HOME", self.path()).env("NO_COLOR", "1").env("COLUMNS", "80");
        command.envs(variables.iter().copied()).args(arguments).output().unwrap()
    }

    /// The JSON answer of the estimate for an RTX 3060.
    fn estimate(&self, more: &[&str], variables: &[(&str, &str)]) -> Value {
        let output = self.output(&[&CONVOLUTIONS[..], &RTX_3060, more].concat(), variables);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// With the stand-in, as `CUDNN_STANDIN` says.
    fn asked(&self, behaviour: &str) -> Value {
        let library = stand_in().to_str().unwrap();
        self.estimate(&["--cudnn", library], &[("CUDNN_STANDIN", behaviour)])
    }

    fn refusal(&self, more: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.output(&[&CONVOLUTIONS[..], &RTX_3060, more].concat(), variables);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        String::from_utf8(output.stderr).unwrap()
    }
}

/// The notes as one text.
fn notes(answer: &Value) -> String {
    answer["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The answer without what only says whether a cuDNN was asked.
fn without_cudnn(mut answer: Value) -> Value {
    let map = answer.as_object_mut().unwrap();
    map.remove("cudnn");
    map.remove("notes");
    answer
}

#[test]
fn a_library_that_answers_everything_leaves_only_the_range_of_the_gpu_and_nothing_is_called_exact() {
    let user = User::new();
    let (off, asked) = (user.estimate(&["--cudnn", "off"], &[]), user.asked(""));
    assert!(off["range"]["by"].as_array().unwrap().contains(&json!("guessed workspaces")), "{}", off["range"]);
    assert_eq!(
        (&asked["range"]["by"], &asked["exact"], &asked["guessed"]),
        (&json!(["the order of addresses", "a GPU that was not measured"]), &json!(false), &Value::Null)
    );
    let cudnn = &asked["cudnn"];
    assert_eq!(
        (&cudnn["version"], &cudnn["unanswered"], &cudnn["failure"]),
        (&json!("9.19.0"), &json!(0), &Value::Null)
    );
    assert_eq!(cudnn["library"], json!(stand_in()));
    assert!(cudnn["asked"].as_u64().unwrap() > 30, "{cudnn}");
    assert!(notes(&asked).contains("cuDNN 9.19.0") && !notes(&asked).contains("are those of an H200"), "{asked:#}");
    // The second time the answers come from the cache: the library would not have one.
    assert_eq!(user.asked("has no plans"), asked);
}

#[test]
fn a_library_that_does_not_answer_leaves_the_answer_as_it_is_and_is_named() {
    let user = User::new();
    let off = user.estimate(&["--cudnn", "off"], &[]);
    assert_eq!(off["cudnn"], Value::Null);
    for (behaviour, words) in [
        ("old", "cuDNN 8.9.7 is older than 9.0"),
        ("refuses devices", "cuDNN 9.1.0 only answers for a GPU that is there"),
        ("aborts", "(SIGABRT)"),
        ("aborts", "Could not load library libcublasLt.so.13"),
        ("writes", "what it answers is not an answer"),
    ] {
        let user = User::new();
        let answer = user.asked(behaviour);
        assert!(notes(&answer).contains(words), "{behaviour}: {}", notes(&answer));
        assert!(answer["cudnn"]["failure"].as_str().unwrap().contains(words));
        assert_eq!(answer["cudnn"]["asked"], answer["cudnn"]["unanswered"]);
        assert_eq!(without_cudnn(answer), without_cudnn(off.clone()), "{behaviour}");
    }
    let unanswered = user.asked("has no plans");
    assert_eq!(unanswered["cudnn"]["failure"], Value::Null);
    assert_eq!(unanswered["cudnn"]["asked"], unanswered["cudnn"]["unanswered"]);
    assert!(notes(&unanswered).contains("cuDNN 9.19.0 has no plan for"), "{}", notes(&unanswered));
    assert_eq!(without_cudnn(unanswered), without_cudnn(off));
}

#[test]
fn a_file_that_is_no_library_is_named_too() {
    let user = User::new();
    let whole = fs::read(stand_in()).unwrap();
    let mut other_machine = whole.clone();
    // The field of the ELF header that says which processor it is for.
    other_machine[18] ^= 0x55;
    for contents in [whole[..4096].to_vec(), other_machine] {
        let library = user.path().join("libcudnn.so.9");
        fs::write(&library, contents).unwrap();
        let answer = user.estimate(&["--cudnn", library.to_str().unwrap()], &[]);
        assert!(notes(&answer).contains("the installed cuDNN did not answer"), "{}", notes(&answer));
    }
}

#[test]
fn a_named_path_without_a_cudnn_is_refused() {
    let user = User::new();
    let error = user.refusal(&["--cudnn", "/nowhere"], &[]);
    assert!(error.contains("--cudnn /nowhere: found no such file or folder, needed a cuDNN"), "{error}");
    let text = user.path().join("notes.txt");
    for contents in ["no library", ""] {
        fs::write(&text, contents).unwrap();
        let error = user.refusal(&["--cudnn", text.to_str().unwrap()], &[]);
        assert!(error.contains("found a file that is no shared library"), "{error}");
    }
    let error = user.refusal(&["--cudnn", ""], &[]);
    assert!(error.contains("found an empty path"), "{error}");
    let folder = user.path().to_str().unwrap();
    let error = user.refusal(&[], &[("VRAMFIT_CUDNN", folder)]);
    assert!(error.contains(&format!("VRAMFIT_CUDNN {folder}: found no libcudnn.so.9 there")), "{error}");
    assert!(error.contains("hint: give libcudnn.so.9, the folder it is in"), "{error}");
}

#[test]
fn the_flag_comes_before_the_variable_and_this_before_the_search() {
    let user = User::new();
    let packages = ["env", "lib", "python3.12", "site-packages", "torch", "lib"]
        .iter()
        .fold(user.path().to_owned(), |folder, part| folder.join(part));
    fs::create_dir_all(&packages).unwrap();
    fs::copy(stand_in(), packages.join("libcudnn.so.9")).unwrap();
    let environment = user.path().join("env");
    let found = ("VIRTUAL_ENV", environment.to_str().unwrap());
    let library = |answer: Value| answer["cudnn"]["library"].as_str().map(str::to_owned);
    let by_itself = packages.join("libcudnn.so.9").to_str().map(str::to_owned);
    assert_eq!(library(user.estimate(&[], &[found])), by_itself);
    assert_eq!(library(user.estimate(&[], &[found, ("VRAMFIT_CUDNN", "")])), by_itself);
    let named = stand_in().to_str().unwrap();
    assert_eq!(library(user.estimate(&[], &[found, ("VRAMFIT_CUDNN", named)])).as_deref(), Some(named));
    assert_eq!(library(user.estimate(&["--cudnn", "off"], &[found, ("VRAMFIT_CUDNN", named)])), None);
    assert_eq!(library(user.estimate(&[], &[found, ("VRAMFIT_CUDNN", "off")])), None);
    assert_eq!(library(user.estimate(&["--cudnn", named], &[("VRAMFIT_CUDNN", "off")])).as_deref(), Some(named));
}

#[test]
fn what_was_recorded_on_the_gpu_itself_is_not_asked_again() {
    let user = User::new();
    let library = stand_in().to_str().unwrap();
    let on_h200 = |more: &[&str]| user.output(&[&CONVOLUTIONS[..], &["--gpu", "H200"], more].concat(), &[]).stdout;
    assert_eq!(on_h200(&["--cudnn", library]), on_h200(&["--cudnn", "off"]));
}

#[test]
fn another_version_than_the_recorded_one_is_asked_even_about_the_recorded_gpu() {
    let user = User::new();
    let library = stand_in().to_str().unwrap();
    let arguments = [&CONVOLUTIONS[..], &["--gpu", "H200", "--cudnn", library]].concat();
    let output = user.output(&arguments, &[("CUDNN_STANDIN", "is of torch 2.8")]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["exact"], &answer["cudnn"]["version"]), (&json!(false), &json!("9.10.2")));
    assert!(notes(&answer).contains("cuDNN 9.10.2 chooses"), "{}", notes(&answer));
}

#[test]
fn a_gpu_that_newer_cudnns_do_not_support_is_not_asked_about() {
    let user = User::new();
    let library = stand_in().to_str().unwrap();
    let on_old_gpu = |more: &[&str]| -> Value {
        let output = user.output(&[&CONVOLUTIONS[..], &["--gpu", "V100"], more].concat(), &[]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (asked, off) = (on_old_gpu(&["--cudnn", library]), on_old_gpu(&["--cudnn", "off"]));
    assert!(notes(&asked).contains("--cudnn has no effect"), "{}", notes(&asked));
    assert_eq!(without_cudnn(asked), without_cudnn(off));
}

#[test]
fn benchmarked_convolutions_are_asked_for_all_their_plans() {
    let user = User::new();
    let asked = user.estimate(&["--cudnn-benchmark", "--cudnn", stand_in().to_str().unwrap()], &[]);
    let off = user.estimate(&["--cudnn-benchmark", "--cudnn", "off"], &[]);
    let high = |answer: &Value| answer["reserved_range"]["high"].as_u64().unwrap();
    assert_eq!(asked["cudnn"]["version"], "9.19.0");
    assert!(asked["cudnn"]["unanswered"] == 0 && high(&asked) < high(&off), "{} {}", high(&asked), high(&off));
}

#[test]
fn text_names_the_library_within_eighty_columns() {
    let user = User::new();
    fs::copy(stand_in(), user.path().join("libcudnn.so.9")).unwrap();
    let arguments = [&CONVOLUTIONS[..4], &RTX_3060, &["--verbose", "--cudnn", user.path().to_str().unwrap()]].concat();
    let text = String::from_utf8(user.output(&arguments, &[]).stdout).unwrap();
    assert!(text.contains("cuDNN 9.19.0") || text.contains("cuDNN\n9.19.0"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.contains("libcudnn.so.9")), "{text}");
}

#[test]
fn plan_and_max_batch_ask_it_too() {
    let user = User::new();
    let library = stand_in().to_str().unwrap();
    let run = |command: &str, vram: &str, library: &str| {
        let arguments = [command, "resnet18", "--gpu", "RTX 3060", "--vram", vram, "--cudnn", library, "--json"];
        let output = user.output(&arguments, &[]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let largest = run("max-batch", "600MiB", library);
    assert_eq!(largest["cudnn"]["version"], "9.19.0", "{largest}");
    assert_eq!(run("max-batch", "600MiB", "off")["cudnn"], Value::Null);
    let plans = run("plan", "60MiB", library);
    assert_eq!(plans["cudnn"]["version"], "9.19.0");
    assert!(notes(&plans).contains("cuDNN 9.19.0"), "{}", notes(&plans));
    assert_ne!(plans["nothing_fits"]["gpu"], Value::Null);
}
