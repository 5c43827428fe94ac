//! Flags that contradict each other, ask for what is not there, or are out of bounds.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use super::standin::{MIB, Machine};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What it says on standard error, with the exit code 2 and nothing on standard output.
fn refusal(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(text(&output.stdout), "");
    assert!(said.starts_with("error: "), "{said}");
    said
}

#[test]
fn names_have_any_width_that_makes_sense_and_no_other() {
    let machine = Machine::with_gpus(1);
    let wide = machine.run(&["gpus", "--gpuname-width", "4096"]);
    assert!(wide.status.success());
    assert!(text(&wide.stdout).lines().all(|line| line.chars().count() > 4096));
    for width in ["4097", "70000", "-1"] {
        let said = refusal(&machine.run(&["gpus", &format!("--gpuname-width={width}")]));
        assert!(said.contains("0..=4096"), "{said}");
    }
    refusal(&machine.run(&["gpus", "--gpuname-width=99999999999999999999"]));
}

#[test]
fn whatever_names_a_recording_has_they_are_printed_without_escapes() {
    let machine = Machine::with_gpus(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let path = path.to_str().unwrap();
    assert!(machine.run(&["gpus", "--record", path]).status.success());
    let recorded = std::fs::read_to_string(path).unwrap();
    let (header, sample) = recorded.split_once('\n').unwrap();
    let mut sample: Value = serde_json::from_str(sample).unwrap();
    sample["gpus"][0]["name"] = json!({ "Ok": "\u{1b}[2J".repeat(20_000) });
    sample["hostname"] = "\u{1b}]0;x\u{7}".repeat(20_000).into();
    sample["gpus"][0]["memory"] = json!({ "Ok": { "total": 0, "used": u64::MAX, "free": 0, "reserved": 0 } });
    std::fs::write(path, format!("{header}\n{sample}\n")).unwrap();
    for more in [&[][..], &["-m"], &["-a", "-f"], &["--json"]] {
        let output = machine.run(&[&["gpus", "--replay", path], more].concat());
        assert!(output.status.success(), "{more:?}: {}", text(&output.stderr));
        assert!(!text(&output.stdout).contains(['\u{1b}', '\u{7}']), "{more:?}");
        let colored = text(&machine.run(&[&["gpus", "--color=always", "--replay", path], more].concat()).stdout);
        assert!(!colored.contains("\u{1b}[2J") && !colored.contains("\u{1b}]0"), "{more:?}");
    }
}

#[test]
fn a_gpu_that_is_not_there_is_refused_by_every_command_and_the_others_are_named() {
    let machine = Machine::with_gpus(2);
    for command in [&["gpus"][..], &["gpus", "-i"], &["gpus", "--json"], &["top"], &["serve", "--port", "0"]] {
        let said = refusal(&machine.run(&[command, &["--id", "77"]].concat()));
        assert!(said.contains("there is no GPU 77"), "{said}");
        assert!(said.contains("[0] NVIDIA H100 80GB HBM3, [1] NVIDIA H100 80GB HBM3"), "{said}");
        let demo = refusal(&machine.run(&[command, &["--demo", "--id", "0,9"]].concat()));
        assert!(demo.contains("no GPU 9") && demo.contains("[3] NVIDIA GeForce RTX 3090"), "{demo}");
    }
    let none = refusal(&Machine::with_gpus(0).run(&["gpus", "--id", "0"]));
    assert!(none.contains("this machine has none"), "{none}");
}

#[test]
fn a_gpu_asked_for_twice_is_shown_once_and_in_the_order_asked_for() {
    let machine = Machine::with_gpus(3);
    for replay in [&[][..], &["--demo"]] {
        let output = machine.run(&[&["gpus", "--json", "--id", "2,0,2,0"], replay].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let shown: Vec<&Value> = answer["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["index"]).collect();
        assert_eq!(shown, [2, 0]);
    }
}

#[test]
fn an_interval_is_within_what_can_be_kept() {
    let machine = Machine::with_gpus(1);
    for command in ["gpus", "top", "serve"] {
        for interval in ["1e-9", "0.05", "-1", "86401", "inf", "nan", "1e400"] {
            let said = refusal(&machine.run(&[command, "-i", interval]));
            assert!(said.contains("from 0.1 to 86400"), "{command} {interval}: {said}");
        }
    }
    for command in ["top", "serve"] {
        assert!(refusal(&machine.run(&[command, "-i", "0"])).contains("from 0.1 to 86400"));
    }
    let once = machine.run(&["gpus", "-i", "0", "--no-header"]);
    assert!(once.status.success() && text(&once.stdout).lines().count() == 1, "gpustat's -i 0 is once");
}

#[test]
fn without_processes_the_memory_is_shown_without_them() {
    let mut machine = Machine::with_gpus(1);
    machine.scenario["gpus"][0]["compute"] = json!([{ "pid": std::process::id(), "memory": 400 * MIB }]);
    machine.write();
    let with = text(&machine.run(&["gpus", "-m"]).stdout);
    assert!(with.contains(&std::process::id().to_string()) && with.contains("in no listed process"), "{with}");
    let without = text(&machine.run(&["gpus", "-m", "--no-processes"]).stdout);
    assert_eq!(without.lines().count(), 2, "{without}");
    assert!(without.contains("1000 MiB used of") && without.contains("500 MiB") && !without.contains("process"));
}

#[test]
fn processes_are_listed_though_the_memory_of_their_gpu_is_not_known() {
    let mut machine = Machine::with_gpus(1);
    machine.scenario["gpus"][0]["compute"] = json!([{ "pid": std::process::id(), "memory": 400 * MIB }]);
    machine.scenario["faults"] = json!([{ "function": "nvmlDeviceGetMemoryInfo", "code": 3 }]);
    machine.write();
    let said = text(&machine.run(&["gpus", "-m"]).stdout);
    assert!(said.contains("memory not known (unified memory)") && said.contains("400 MiB"), "{said}");
}

#[test]
fn colours_wanted_and_not_wanted_are_refused() {
    let machine = Machine::with_gpus(1);
    for arguments in [
        &["gpus", "--color=always", "--no-color"][..],
        &["gpus", "--color", "--no-color"],
        &["--no-color", "gpus", "--color"],
        &["gpus", "--force-color", "--no-color"],
        &["--no-color", "gpus", "--force-color"],
        &["gpus", "--force-color", "--color=never"],
    ] {
        let said = refusal(&machine.run(arguments));
        assert!(said.contains("contradict each other"), "{arguments:?}: {said}");
    }
    for arguments in [&["gpus", "--color=never", "--no-color"][..], &["gpus", "--color=auto", "--no-color"]] {
        let output = machine.run(arguments);
        assert!(output.status.success() && !text(&output.stdout).contains('\u{1b}'), "{arguments:?}");
    }
    for arguments in [&["gpus", "--force-color", "--color=always"][..], &["gpus", "--color"]] {
        assert!(text(&machine.vramfit(arguments).env("NO_COLOR", "1").output().unwrap().stdout).contains('\u{1b}'));
    }
    assert!(!text(&machine.run(&["gpus"]).stdout).contains('\u{1b}'), "a pipe gets no colours");
}

#[test]
fn codecs_are_named_in_either_order() {
    let machine = Machine::with_gpus(1);
    let shown = |which: &str| text(&machine.run(&["gpus", "--no-header", "-e", which]).stdout);
    assert!(shown("enc,dec").contains("(E:   1 %  D:   2 %)"), "{}", shown("enc,dec"));
    assert_eq!(shown("dec,enc"), shown("enc,dec"));
}

fn record(machine: &Machine, path: &Path, samples: usize) -> Vec<String> {
    assert!(machine.run(&["gpus", "--record", path.to_str().unwrap()]).status.success());
    let text = std::fs::read_to_string(path).unwrap();
    let (header, sample) = text.trim_end().split_once('\n').unwrap();
    let mut lines = vec![header.to_owned()];
    for number in 0..samples {
        let mut sample: Value = serde_json::from_str(sample).unwrap();
        sample["taken_at"] = (1_700_000_000_000_000_u64 + number as u64).into();
        lines.push(sample.to_string());
    }
    lines
}

#[test]
fn a_damaged_recording_is_played_without_its_damage_which_is_named() {
    let machine = Machine::with_gpus(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let lines = record(&machine, &path, 4);
    let play = |content: String| {
        std::fs::write(&path, content).unwrap();
        machine.run(&["gpus", "--json", "-i", "--replay", path.to_str().unwrap()])
    };
    let count = |output: &Output| text(&output.stdout).lines().count();

    let whole = play(lines.join("\n") + "\n");
    assert_eq!((count(&whole), text(&whole.stderr).as_str()), (4, ""));
    let cut = play(lines.join("\n")[..lines.join("\n").len() - 30].to_owned());
    assert_eq!((cut.status.code(), count(&cut)), (Some(0), 3));
    let said = text(&cut.stderr);
    assert!(said.starts_with("warning: ") && said.contains("line 5: cut off") && said.lines().count() == 1, "{said}");

    let mut bad = lines.clone();
    bad[2] = "{\"taken_at\": 1}".to_owned();
    let middle = play(bad.join("\n") + "\n");
    assert_eq!((middle.status.code(), count(&middle)), (Some(0), 3));
    let said = text(&middle.stderr);
    assert!(said.contains("line 3: missing field") && said.contains("left out"), "{said}");

    let many = play(lines.join("\nnonsense\nnonsense\n") + "\n");
    assert_eq!(count(&many), 4);
    assert_eq!(text(&many.stderr).lines().count(), 4, "{}", text(&many.stderr));
    assert!(text(&many.stderr).contains("5 more lines left out"));

    let none = play(lines[0].clone() + "\nnonsense\n");
    assert!(refusal(&none).contains("line 2: expected"), "{}", text(&none.stderr));
}

#[test]
fn a_compressed_recording_that_was_cut_off_is_played_to_there() {
    use std::io::Write;
    let machine = Machine::with_gpus(4);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let lines = record(&machine, &path, 300);
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    out.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let whole = out.finish().unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let output = machine.run(&["gpus", "--json", "-i", "--replay", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let count = text(&output.stdout).lines().count();
    assert!((100..200).contains(&count), "{count}");
    assert!(text(&output.stderr).contains("what follows is left out"), "{}", text(&output.stderr));
}

#[test]
fn a_recording_is_not_written_over_while_it_is_played() {
    let machine = Machine::with_gpus(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    record(&machine, &path, 1);
    let before = std::fs::read(&path).unwrap();
    std::fs::hard_link(&path, folder.path().join("hard")).unwrap();
    std::os::unix::fs::symlink(&path, folder.path().join("soft")).unwrap();
    std::fs::create_dir(folder.path().join("inside")).unwrap();
    let name = path.to_str().unwrap();
    for other in [name, "recording", "./recording", "inside/../recording", "hard", "soft"] {
        for command in [&["gpus"][..], &["top"], &["serve", "--port", "0"]] {
            let mut run = machine.vramfit(&[command, &["--replay", name, "--record", other]].concat());
            let said = refusal(&run.current_dir(folder.path()).output().unwrap());
            assert!(said.contains("--replay") && said.contains("--record"), "{said}");
            assert_eq!(std::fs::read(&path).unwrap(), before, "{other}");
        }
    }
    let copied = machine.vramfit(&["gpus", "--replay", name, "--record", "copy"]).current_dir(folder.path()).output();
    assert!(copied.unwrap().status.success());
    assert!(machine.run(&["gpus", "--replay", folder.path().join("copy").to_str().unwrap()]).status.success());
}

#[test]
fn a_command_that_fails_leaves_an_old_recording_as_it_was() {
    let machine = Machine::with_gpus(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    std::fs::write(&path, "precious").unwrap();
    refusal(&machine.run(&["gpus", "--id", "9", "--record", path.to_str().unwrap()]));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let nowhere = folder.path().join("no/such/folder");
    assert!(refusal(&machine.run(&["gpus", "--record", nowhere.to_str().unwrap()])).contains("no/such/folder"));
}

#[test]
fn a_driver_that_does_not_count_its_gpus_is_not_taken_for_one_without_any() {
    for (fault, words) in
        [(json!({ "code": 999 }), "internal driver error"), (json!({ "seconds": 60 }), "no answer in time")]
    {
        let mut machine = Machine::with_gpus(2);
        let mut whole = json!({ "function": "nvmlDeviceGetCount" });
        whole.as_object_mut().unwrap().extend(fault.as_object().unwrap().clone());
        machine.scenario["faults"] = json!([whole]);
        machine.write();
        let start = Instant::now();
        let said = refusal(&machine.run(&["gpus", "--json"]));
        assert!(said.contains("the number of GPUs") && said.contains(words), "{said}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn control_characters_in_commands_are_printed_nowhere() {
    use std::os::unix::process::CommandExt;
    let mut child = std::process::Command::new("sleep").arg0("\u{1b}[31mevil\u{7}").arg("60").spawn().unwrap();
    let mut machine = Machine::with_gpus(1);
    machine.scenario["gpus"][0]["compute"] = json!([{ "pid": child.id(), "memory": 400 * MIB }]);
    machine.write();
    // With colours asked for, nothing between here and the terminal takes escapes out.
    for view in ["-m", "-c", "-f"] {
        let shown = text(&machine.run(&["gpus", "--color=always", view]).stdout);
        assert!(shown.contains("evil") && !shown.contains("\u{1b}[31mevil") && !shown.contains('\u{7}'), "{shown:?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
