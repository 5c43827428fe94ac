//! What shells and `man` get from the one definition of the command line, taken by the shells and by groff themselves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output};

fn vramfit(arguments: &[&str]) -> String {
    let output = assert_cmd::Command::cargo_bin("vramfit").unwrap().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a program says, or `None` where it is not installed.
fn asked(program: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).output().ok()
}

/// What bash offers for the last of some words, through its own `complete`.
fn offered(script: &str, words: &[&str]) -> Option<Vec<String>> {
    let (line, last) = (words.join(" "), words.len() - 1);
    let ask = format!(
        "source {script}\n\
         function_of() {{ complete -p vramfit | sed 's/.*-F \\([^ ]*\\).*/\\1/'; }}\n\
         COMP_WORDS=({line}) COMP_CWORD={last} COMP_LINE='{line}' COMP_POINT=${{#COMP_LINE}}\n\
         if [ {last} -ge {} ]; then COMP_WORDS+=(''); fi\n\
         $(function_of) vramfit \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.iter().filter(|word| !word.is_empty()).count()
    );
    let output = asked("bash", &["--norc", "-c", &ask])?;
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("vramfit.bash");
    std::fs::write(&script, vramfit(&["completions", "bash"])).unwrap();
    let script = script.to_str().unwrap();
    let Some(parsed) = asked("bash", &["-n", script]) else { return };
    assert!(parsed.status.success() && parsed.stderr.is_empty(), "{}", String::from_utf8_lossy(&parsed.stderr));
    assert_eq!(offered(script, &["vramfit", "est"]).unwrap(), ["estimate"]);
    assert_eq!(offered(script, &["vramfit", "plan", "--alloc"]).unwrap(), ["--alloc-conf"]);
    let optimizers = offered(script, &["vramfit", "estimate", "bert-base", "--optimizer", "ada"]).unwrap();
    for name in ["adam", "adamw", "adafactor"] {
        assert!(optimizers.iter().any(|offered| offered == name), "{name}: {optimizers:?}");
    }
    assert!(!optimizers.iter().any(|offered| offered == "sgd"), "{optimizers:?}");
    let models = offered(script, &["vramfit", "estimate", "bert"]).unwrap();
    assert_eq!(models, ["bert-base", "bert-large"]);
    let all = offered(script, &["vramfit", ""]).unwrap();
    for command in ["estimate", "plan", "max-batch", "explain", "lint", "man", "completions"] {
        assert!(all.iter().any(|offered| offered == command), "{command}: {all:?}");
    }
}

#[test]
fn every_shell_gets_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = vramfit(&["completions", shell]);
        for command in ["estimate", "max-batch", "calibrate", "completions"] {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
    }
}

#[test]
fn other_shells_take_their_completions_where_they_are_installed() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, flags) in [("zsh", &["-n"][..]), ("fish", &["--no-execute"][..])] {
        let script = folder.path().join(shell);
        std::fs::write(&script, vramfit(&["completions", shell])).unwrap();
        let words: Vec<&str> = flags.iter().copied().chain([script.to_str().unwrap()]).collect();
        let Some(parsed) = asked(shell, &words) else { continue };
        assert!(parsed.status.success(), "{shell}: {}", String::from_utf8_lossy(&parsed.stderr));
    }
}

#[test]
fn an_unknown_shell_is_refused_with_those_there_are() {
    let output = assert_cmd::Command::cargo_bin("vramfit").unwrap().args(["completions", "tcsh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bash, elvish, fish, powershell, zsh"));
}

#[test]
fn there_is_a_page_for_each_command_and_groff_finds_nothing_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("share/man1");
    vramfit(&["man", place.to_str().unwrap()]);
    let mut names: Vec<String> =
        std::fs::read_dir(&place).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for name in ["vramfit.1", "vramfit-estimate.1", "vramfit-plan.1", "vramfit-max-batch.1", "vramfit-man.1"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    for name in &names {
        let path = place.join(name);
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(page.contains(".TH ") && page.contains(&name.trim_end_matches(".1").replace('-', "\\-")), "{name}");
        let words = ["-k", "-man", "-Tutf8", "-P-c", "-P-b", "-P-u", "-ww", "-rLL=80n", path.to_str().unwrap()];
        let Some(shown) = asked("groff", &words) else { continue };
        let complaint = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert!(shown.status.success() && complaint.is_empty(), "{name}: {complaint}");
        assert!(String::from_utf8_lossy(&shown.stdout).contains("SYNOPSIS"), "{name}");
    }
}

#[test]
fn without_a_folder_the_manual_is_printed() {
    let page = vramfit(&["man"]);
    assert!(page.contains(".TH vramfit 1") && page.contains("vramfit\\-estimate(1)"), "{page}");
}

#[test]
fn a_folder_that_cannot_be_made_is_one_clear_error() {
    let output = assert_cmd::Command::cargo_bin("vramfit").unwrap().args(["man", "/dev/null/man1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: /dev/null/man1: cannot write it"));
}
