//! `vramfit web --export`: what it writes, and what it refuses. tests/web/export asks the exported engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::path::Path;

use common::{refusal, vramfit};

/// The beginning of a module, and the words that it must have in it.
fn module(version: &str) -> Vec<u8> {
    [b"\0asm\x01\0\0\0".as_slice(), format!("vramfit engine for browsers, version {version};").as_bytes()].concat()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_folder_for_a_web_server_is_written_and_never_over_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, site) = (folder.path().join("vramfit_browser.wasm"), folder.path().join("new/site"));
    fs::write(&engine, module(env!("CARGO_PKG_VERSION"))).unwrap();
    let arguments = ["web", "--export", text(&site), "--engine", text(&engine)];
    let (code, said, _) = vramfit(&arguments);
    assert!(code == 0 && said.contains("wrote the calculator"), "{said}");
    let mut names: Vec<String> =
        fs::read_dir(&site).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["engine.wasm", "index.html", "page.css", "page.js", "worker.js"]);
    assert_eq!(fs::read(site.join("engine.wasm")).unwrap(), fs::read(&engine).unwrap());
    assert!(fs::read_to_string(site.join("index.html")).unwrap().contains("content=\"engine.wasm\""));
    let said = refusal(&arguments);
    assert!(said.contains("a folder with files in it") && said.contains("--force"), "{said}");
    fs::write(site.join("own.txt"), "mine").unwrap();
    assert_eq!(vramfit(&[&arguments[..], &["--force"]].concat()).0, 0);
    assert_eq!(fs::read_to_string(site.join("own.txt")).unwrap(), "mine");
    let said = refusal(&["web", "--export", text(&engine), "--engine", text(&engine)]);
    assert!(said.contains("a file, needed a folder"), "{said}");
}

#[test]
fn an_engine_that_is_missing_or_another_is_refused_with_the_command_that_builds_it() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, site) = (folder.path().join("engine.wasm"), folder.path().join("site"));
    let said = |expected: &str| {
        let said = refusal(&["web", "--export", text(&site), "--engine", text(&engine)]);
        assert!(said.contains(expected), "{said}");
        said
    };
    said("--engine");
    fs::write(&engine, "no module").unwrap();
    said("9 B that are no WebAssembly module");
    fs::write(&engine, b"\0asm\x01\0\0\0").unwrap();
    said("another WebAssembly module");
    fs::write(&engine, module("0.0.0")).unwrap();
    let said = said("version 0.0.0 of it; this program is version");
    assert!(
        said.contains("cargo build --locked --profile dist --target wasm32-unknown-unknown -p vramfit-browser"),
        "{said}"
    );
    assert!(!site.exists(), "nothing is written before all is well");
}

#[test]
fn without_a_module_beside_it_the_program_says_what_to_do() {
    // A program that has no target folder around it.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(format!("vramfit{}", std::env::consts::EXE_SUFFIX));
    fs::copy(assert_cmd::cargo::cargo_bin("vramfit"), &program).unwrap();
    let export = |site: &str| {
        let done = std::process::Command::new(&program).args(["web", "--export", site]).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let site = folder.path().join("site");
    let (code, said) = export(text(&site));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("found no vramfit_browser.wasm beside the program") && said.contains("--engine"), "{said}");
    fs::write(folder.path().join("vramfit_browser.wasm"), module(env!("CARGO_PKG_VERSION"))).unwrap();
    assert_eq!(export(text(&site)).0, Some(0));
}

#[test]
fn flags_of_serving_and_of_writing_exclude_each_other() {
    for flags in [&["--export", "x", "--port", "1"][..], &["--force"], &["--engine", "x"], &["--export", "x", "--open"]]
    {
        let said = refusal(&[&["web"], flags].concat());
        assert!(said.contains("--export"), "{said}");
    }
    let said = refusal(&["web", "--export", "x", "--cudnn", "off"]);
    assert!(said.contains("--cudnn"), "{said}");
}
