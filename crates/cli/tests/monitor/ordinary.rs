//! Machines in order.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::standin::{MIB, Machine};

const KEYS: [&str; 13] = [
    "index",
    "uuid",
    "name",
    "temperature.gpu",
    "fan.speed",
    "utilization.gpu",
    "utilization.enc",
    "utilization.dec",
    "power.draw",
    "enforced.power.limit",
    "memory.used",
    "memory.total",
    "processes",
];

#[test]
fn one_eight_and_sixteen_gpus_have_gpustats_keys_in_its_order() {
    for count in [1, 8, 16] {
        let answer = Machine::with_gpus(count).json();
        let keys: Vec<&String> = answer.as_object().unwrap().keys().take(4).collect();
        assert_eq!(keys, ["hostname", "driver_version", "query_time", "gpus"]);
        let gpus = answer["gpus"].as_array().unwrap();
        assert_eq!(gpus.len(), count);
        for (index, gpu) in gpus.iter().enumerate() {
            let keys: Vec<&String> = gpu.as_object().unwrap().keys().take(KEYS.len()).collect();
            assert_eq!(keys, KEYS);
            assert_eq!(gpu["index"], index);
            assert_eq!(gpu["power.draw"], 70 + index);
            assert_eq!(gpu["memory.used"], 1000 + index);
            assert_eq!(gpu["memory.used.bytes"], (1000 + index as u64) * MIB);
            assert_eq!(gpu["missing"], json!({}));
        }
    }
}

#[test]
fn a_driver_without_gpus_is_no_failure() {
    let machine = Machine::with_gpus(0);
    assert_eq!(machine.json()["gpus"], json!([]));
    let output = machine.run(&["gpus"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().ends_with("(No GPUs are available)\n"));
}

#[test]
fn lines_and_colours_are_gpustats() {
    let mut machine = Machine::with_gpus(2);
    machine.scenario["gpus"][1] = json!({
        "name": "NVIDIA GeForce RTX 3090", "uuid": "GPU-1", "temperature": 65, "fan": 70, "utilization": 91,
        "encoder": 7, "decoder": 60, "power": 490_123, "power_limit": 700_000,
        "memory": { "total": 24_576 * MIB, "used": 24_000 * MIB, "free": 0 },
        "compute": [{ "pid": std::process::id(), "memory": 400 * MIB }], "graphics": [],
    });
    machine.write();
    let text = |arguments: &[&str]| String::from_utf8(machine.run(arguments).stdout).unwrap();
    assert_eq!(
        text(&["gpus", "--no-header", "-F", "-e", "-P", "--no-processes"]),
        "[0] NVIDIA H100 80GB HBM3   | 30°C,   0 %,   0 % (E:   1 %  D:   2 %),   70 / 700 W |  1000 / 81559 MB\n\
         [1] NVIDIA GeForce RTX 3090 | 65°C,  70 %,  91 % (E:   7 %  D:  60 %),  490 / 700 W | 24000 / 24576 MB\n"
    );
    assert_eq!(
        text(&["gpus", "--no-header", "--id", "1", "--gpuname-width", "8", "--no-processes"]),
        "[1] …TX 3090 | 65°C,  91 % | 24000 / 24576 MB\n"
    );
    let colored = text(&["gpus", "--no-header", "--id", "1", "--force-color", "--no-processes", "-P"]);
    assert_eq!(
        colored,
        "\u{1b}[36m[1]\u{1b}[0;10m \u{1b}[34mNVIDIA GeForce RTX 3090\u{1b}[0;10m |\u{1b}[1m\u{1b}[31m 65°C\u{1b}[0;10m, \
         \u{1b}[1m\u{1b}[32m 91 %\u{1b}[0;10m,  \u{1b}[1m\u{1b}[35m490\u{1b}[0;10m / \u{1b}[35m700\u{1b}[0;10m \u{1b}[35mW\u{1b}[0;10m | \
         \u{1b}[36m\u{1b}[1m\u{1b}[33m24000\u{1b}[0;10m / \u{1b}[33m24576\u{1b}[0;10m MB\n"
    );
    let processes = text(&["gpus", "--no-header", "--id", "1", "-p"]);
    assert!(processes.trim_end().ends_with(&format!("/{}(400M)", std::process::id())), "{processes}");
}

#[test]
fn a_process_in_both_lists_is_one_and_has_what_the_machine_knows_of_it() {
    let mut machine = Machine::with_gpus(1);
    let listed = json!([{ "pid": std::process::id(), "memory": 400 * MIB + 17, "utilization": 33 }]);
    machine.scenario["gpus"][0]["compute"] = listed.clone();
    machine.scenario["gpus"][0]["graphics"] = json!([{ "pid": std::process::id(), "memory": 400 * MIB + 17 }]);
    machine.write();
    let answer = machine.json();
    let processes = answer["gpus"][0]["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1);
    let process = &processes[0];
    assert_eq!(process["gpu_memory_usage"], 400);
    assert_eq!(process["gpu_memory_bytes"], 400 * MIB + 17);
    assert_eq!(process["gpu_utilization"], 33);
    assert_eq!(process["type"], "C+G");
    assert!(process["cpu_memory_usage"].as_u64().unwrap() > MIB);
    assert!(process["cpu_percent"].is_number());
    assert!(process["full_command"].is_array());
}

#[test]
fn json_with_an_interval_streams_an_object_a_line() {
    let machine = Machine::with_gpus(2);
    let mut child = machine.vramfit(&["gpus", "--json", "-i", "0.1"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().take(3).map(Result::unwrap).collect();
    // Reading has stopped: the next line finds nobody, and that is no failure.
    assert!(child.wait().unwrap().success());
    for line in lines {
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["gpus"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn five_hundred_processes_are_all_shown() {
    let mut machine = Machine::with_gpus(1);
    let own = std::process::id();
    let list: Vec<Value> = (0..500)
        .map(|number| json!({ "pid": if number == 0 { own } else { 3_000_000_000u32 + number }, "memory": MIB }))
        .collect();
    machine.scenario["gpus"][0]["compute"] = list.into();
    machine.write();
    let answer = machine.json();
    let processes = answer["gpus"][0]["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 500);
    assert_eq!(processes.iter().filter(|process| process["hidden"] == true).count(), 499);
}

#[test]
fn a_recording_plays_back_what_was_recorded() {
    let machine = Machine::with_gpus(3);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let recorded = machine.run(&["gpus", "--json", "--record", path]);
    let replayed = machine.vramfit(&["gpus", "--json", "--replay", path]).env("LD_LIBRARY_PATH", "").output().unwrap();
    assert_eq!(String::from_utf8(recorded.stdout).unwrap(), String::from_utf8(replayed.stdout).unwrap());

    std::fs::write(path, "{\"vramfit_recording\":7}\n").unwrap();
    let newer = machine.run(&["gpus", "--replay", path]);
    assert_eq!(newer.status.code(), Some(2));
    assert!(String::from_utf8(newer.stderr).unwrap().contains("version 7"));
    std::fs::write(path, "something else\n").unwrap();
    assert_eq!(machine.run(&["gpus", "--replay", path]).status.code(), Some(2));
}

#[test]
fn the_demo_needs_no_driver() {
    let machine = Machine::with_gpus(0);
    let demo = machine.vramfit(&["gpus", "--demo", "--json"]).env("LD_LIBRARY_PATH", "").output().unwrap();
    assert!(demo.status.success());
    let value: Value = serde_json::from_slice(&demo.stdout).unwrap();
    assert_eq!(value["gpus"].as_array().unwrap().len(), 4);
    let view = machine.vramfit(&["gpus", "--demo", "-m"]).env("LD_LIBRARY_PATH", "").output().unwrap();
    let text = String::from_utf8(view.stdout).unwrap();
    assert!(text.contains("PyTorch:") && text.contains("hidden process") && text.contains("free"), "{text}");
}

#[test]
fn an_estimate_for_this_gpu_has_what_others_leave_free() {
    let mut machine = Machine::with_gpus(2);
    machine.scenario["gpus"][0]["name"] = "NVIDIA Prototype".into();
    machine.scenario["gpus"][1]["name"] = "NVIDIA GeForce RTX 3060".into();
    machine.scenario["gpus"][1]["memory"] =
        json!({ "total": 12288 * MIB, "used": 4096 * MIB, "free": 8000 * MIB, "reserved": 192 * MIB });
    machine.write();
    let ask = |gpu: &str| {
        let output = machine.vramfit(&["estimate", "resnet18", "--json", "--gpu", gpu]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, out, err) = ask("this:1");
    assert_eq!(code, Some(0), "{err}");
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&answer["fit"]["gpu"], &answer["fit"]["capacity"]), (&json!("RTX 3060"), &json!(8000 * MIB)));
    assert!(answer["notes"].to_string().contains("GPU 1 is the RTX 3060"), "{}", answer["notes"]);
    let (code, _, err) = ask("this:7");
    assert!(code == Some(2) && err.contains("found 2 GPUs on this machine"), "{err}");
    let (code, _, err) = ask("this");
    assert!(code == Some(2) && err.contains("not in the catalogue") && err.contains("calibrate"), "{err}");
}
