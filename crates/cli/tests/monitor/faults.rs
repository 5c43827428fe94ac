//! Machines out of order.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::standin::{MIB, Machine, gpu};

/// NVML's error codes.
const CODES: [u32; 22] = [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 25, 999];
const LOST: u32 = 15;
const CALLS: [(&str, &str); 12] = [
    ("nvmlDeviceGetName", "name"),
    ("nvmlDeviceGetUUID", "uuid"),
    ("nvmlDeviceGetTemperature", "temperature.gpu"),
    ("nvmlDeviceGetFanSpeed", "fan.speed"),
    ("nvmlDeviceGetUtilizationRates", "utilization.gpu"),
    ("nvmlDeviceGetEncoderUtilization", "utilization.enc"),
    ("nvmlDeviceGetDecoderUtilization", "utilization.dec"),
    ("nvmlDeviceGetPowerUsage", "power.draw"),
    ("nvmlDeviceGetEnforcedPowerLimit", "enforced.power.limit"),
    ("nvmlDeviceGetMemoryInfo", "memory.used"),
    ("nvmlDeviceGetProcessUtilization", ""),
    ("nvmlDeviceGetMigMode", ""),
];

fn failing(function: &str, code: u32) -> Machine {
    let mut machine = Machine::with_gpus(2);
    machine.scenario["faults"] = json!([{ "function": function, "gpu": 1, "code": code }]);
    machine.write();
    machine
}

/// Far below what the calls hang for, and far above the 5 s that are promised: a busy machine starts processes slowly.
const PATIENCE: Duration = Duration::from_secs(25);

#[test]
fn each_call_failing_with_each_error_costs_that_value_only_and_has_a_reason() {
    let all = Machine::with_gpus(2).json();
    for (function, key) in CALLS {
        for code in CODES {
            let answer = failing(function, code).json();
            assert_eq!(answer["gpus"][0]["missing"], json!({}), "{function} {code}");
            let (found, good) = (&answer["gpus"][1], &all["gpus"][1]);
            if !key.is_empty() {
                assert_eq!(found[key], Value::Null, "{function} {code}");
                assert!(!found["missing"][key].as_str().unwrap().is_empty(), "{function} {code}");
            }
            for (other, value) in good.as_object().unwrap() {
                let is_about_it =
                    !key.is_empty() && other.starts_with(key.rsplit_once('.').map_or(key, |(start, _)| start));
                if !is_about_it && !["missing", "last_known"].contains(&other.as_str()) {
                    assert_eq!(&found[other], value, "{function} {code} {other}");
                }
            }
        }
    }
}

#[test]
fn each_driver_error_has_its_own_reason() {
    for (code, reason) in
        [(3, "not supported"), (4, "no permission"), (10, "no answer in time"), (13, "driver too old")]
    {
        let answer = failing("nvmlDeviceGetFanSpeed", code).json();
        assert_eq!(answer["gpus"][1]["missing"]["fan.speed"], reason);
    }
    let unified = failing("nvmlDeviceGetMemoryInfo", 3).json();
    assert_eq!(unified["gpus"][1]["missing"]["memory.total"], "unified memory");
    assert!(
        String::from_utf8(failing("nvmlDeviceGetMemoryInfo", 3).run(&["gpus"]).stdout)
            .unwrap()
            .contains("|    ?? /    ?? MB |")
    );
}

#[test]
fn processes_are_null_only_if_neither_list_is_reported() {
    let mut machine = failing("nvmlDeviceGetComputeRunningProcesses", 4);
    assert_eq!(machine.json()["gpus"][1]["processes"], json!([]));
    let other = json!({ "function": "nvmlDeviceGetGraphicsRunningProcesses", "gpu": 1, "code": 4 });
    machine.scenario["faults"].as_array_mut().unwrap().push(other);
    machine.write();
    let answer = machine.json();
    assert_eq!(answer["gpus"][1]["processes"], Value::Null);
    assert_eq!(answer["gpus"][1]["missing"]["processes"], "no permission");
}

/// Everything but its number is null, and every key is there.
fn assert_lost(gpu: &Value, good: &Value, reason: &str) {
    assert_eq!(gpu["unavailable"], reason);
    for key in good.as_object().unwrap().keys() {
        assert!(gpu.as_object().unwrap().contains_key(key), "{key}");
        if !["index", "vendor", "unavailable", "last_known", "mig", "missing"].contains(&key.as_str()) {
            assert_eq!(gpu[key], Value::Null, "{key}");
            assert_eq!(gpu["missing"][key], reason, "{key}");
        }
    }
}

#[test]
fn a_lost_gpu_keeps_its_row() {
    let good = Machine::with_gpus(2).json();
    for function in ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo"] {
        let machine = failing(function, LOST);
        let answer = machine.json();
        assert_eq!(answer["gpus"].as_array().unwrap().len(), 2);
        assert_lost(&answer["gpus"][1], &good["gpus"][1], "GPU is lost");
        let text = String::from_utf8(machine.run(&["gpus", "--no-header"]).stdout).unwrap();
        let line = text.lines().nth(1).unwrap();
        assert_eq!(line, "[1] ((GPU is lost))       |  ?°C,   ? % |     ? /     ? MB | (Not Supported)");
    }
    let unknown = failing("nvmlDeviceGetHandleByIndex", 999);
    assert!(String::from_utf8(unknown.run(&["gpus"]).stdout).unwrap().contains("((Unknown Error))"));
}

#[test]
fn a_gpu_lost_in_mid_run_keeps_its_name() {
    let mut machine = Machine::with_gpus(2);
    let mut child = machine.vramfit(&["gpus", "--json", "-i", "0.1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["gpus"][1]["unavailable"], Value::Null);
    machine.scenario["faults"] = json!([{ "function": "nvmlDeviceGetHandleByIndex", "gpu": 1, "code": LOST }]);
    machine.write();
    let start = Instant::now();
    loop {
        let sample: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if sample["gpus"][1]["unavailable"] != Value::Null {
            assert_lost(&sample["gpus"][1], &first["gpus"][1], "GPU is lost");
            assert_eq!(sample["gpus"][1]["last_known"]["name"], "NVIDIA H100 80GB HBM3");
            assert_eq!(sample["gpus"][0]["unavailable"], Value::Null);
            break;
        }
        // Generous: a busy machine is not a fault.
        assert!(start.elapsed() < Duration::from_secs(120));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_hanging_call_is_missing_after_two_seconds_and_the_rest_is_there() {
    let mut machine = Machine::with_gpus(2);
    machine.scenario["faults"] = json!([{ "function": "nvmlDeviceGetPowerUsage", "gpu": 0, "seconds": 60 }]);
    machine.write();
    let start = Instant::now();
    let answer = machine.json();
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(
        answer["gpus"][0]["missing"],
        json!({ "power.draw": "no answer in time", "power.draw.milliwatts": "no answer in time" })
    );
    assert_eq!(answer["gpus"][1]["missing"], json!({}));
}

#[test]
fn however_much_hangs_the_answer_comes_within_five_seconds() {
    for function in ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetCount", "nvmlInit"] {
        let mut machine = Machine::with_gpus(2);
        machine.scenario["faults"] = json!([{ "function": function, "seconds": 60 }]);
        machine.write();
        let start = Instant::now();
        let output = machine.run(&["gpus", "--json"]);
        assert!(start.elapsed() < PATIENCE, "{function}: {:?}", start.elapsed());
        if function == "nvmlInit" {
            assert_eq!(output.status.code(), Some(2));
            assert!(String::from_utf8(output.stderr).unwrap().contains("gave no answer in 2 s"));
        }
    }
}

#[test]
fn a_stream_goes_on_while_a_call_hangs() {
    let mut machine = Machine::with_gpus(1);
    machine.scenario["faults"] = json!([{ "function": "nvmlDeviceGetPowerUsage", "seconds": 60 }]);
    machine.write();
    let mut child = machine.vramfit(&["gpus", "--json", "-i", "0.1"]).stdout(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let count = BufReader::new(child.stdout.take().unwrap()).lines().take(10).count();
    // The first sample waits two seconds; the others do not ask again what hangs already.
    assert_eq!(count, 10);
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_hidden_process_is_shown_with_its_memory_and_an_ended_one_is_not() {
    let mut machine = Machine::with_gpus(1);
    machine.scenario["gpus"][0]["compute"] = json!([{ "pid": 3_999_999_999u32, "memory": 700 * MIB }, { "pid": 3_888_888_888u32, "memory": MIB, "calls": 1 }]);
    machine.write();
    let answer = machine.json();
    let processes = answer["gpus"][0]["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "the driver no longer lists the ended one when asked again");
    assert_eq!(processes[0]["pid"], 3_999_999_999u32);
    assert_eq!(processes[0]["gpu_memory_usage"], 700);
    assert_eq!(processes[0]["username"], Value::Null);
    assert_eq!(processes[0]["missing"]["command"], "hidden process");
    let text = String::from_utf8(machine.run(&["gpus", "-cup"]).stdout).unwrap();
    assert!(text.contains("hidden/3999999999(700M)"), "{text}");
    let full = String::from_utf8(machine.run(&["gpus", "-f"]).stdout).unwrap();
    assert!(full.contains("(  --%,     --): hidden process"), "{full}");
}

#[test]
fn mig_devices_are_listed_and_missing_values_of_the_whole_gpu_have_mig_as_reason() {
    let mut machine = Machine::with_gpus(1);
    let part = |number: u64| json!({ "name": format!("NVIDIA H100 MIG {number}g.10gb"), "uuid": format!("MIG-{number}"), "memory": { "total": 9984 * MIB, "used": number * MIB, "free": 9000 * MIB } });
    machine.scenario["gpus"][0]["mig"] = json!([part(1), part(2)]);
    machine.scenario["gpus"][0]["utilization"] = Value::Null;
    machine.scenario["gpus"][0]["compute"] = json!([{ "pid": std::process::id(), "memory": null, "gpu_instance": 3 }]);
    machine.write();
    let answer = machine.json();
    let gpu = &answer["gpus"][0];
    assert_eq!(gpu["missing"]["utilization.gpu"], "MIG");
    assert_eq!(gpu["mig"][1]["memory.used.bytes"], 2 * MIB);
    assert_eq!(gpu["mig"].as_array().unwrap().len(), 2);
    assert_eq!(gpu["processes"][0]["gpu_instance"], 3);
    assert_eq!(gpu["processes"][0]["missing"]["gpu_memory_usage"], "MIG");
}

#[test]
fn absurd_values_are_missing_not_shown() {
    let mut machine = Machine::with_gpus(1);
    machine.scenario["gpus"][0] = gpu(0);
    for key in ["temperature", "fan", "utilization", "encoder", "decoder", "power", "power_limit"] {
        machine.scenario["gpus"][0][key] = u32::MAX.into();
    }
    machine.scenario["gpus"][0]["memory"] = json!({ "total": 10, "used": u64::MAX - 1, "free": 0 });
    machine.scenario["gpus"][0]["compute"] = json!([{ "pid": 0, "memory": u64::MAX - 1 }]);
    machine.write();
    let answer = machine.json();
    let gpu = &answer["gpus"][0];
    for key in [
        "temperature.gpu",
        "fan.speed",
        "utilization.gpu",
        "utilization.enc",
        "utilization.dec",
        "power.draw",
        "enforced.power.limit",
        "memory.used",
        "memory.total",
    ] {
        assert_eq!(gpu[key], Value::Null, "{key}");
        assert!(gpu["missing"][key].as_str().unwrap().starts_with("implausible"), "{key}");
    }
    assert_eq!(gpu["processes"][0]["gpu_memory_usage"], Value::Null);
}

#[test]
fn without_a_usable_driver_it_says_why_and_exits_with_two() {
    for (code, words) in [(9, "not loaded"), (18, "different versions"), (4, "no permission"), (999, "failed to start")]
    {
        let mut machine = Machine::with_gpus(1);
        machine.scenario["faults"] = json!([{ "function": "nvmlInit", "code": code }]);
        machine.write();
        for command in ["gpus", "top", "serve"] {
            let output = machine.run(&[command]);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{command}: {text}");
            assert!(text.contains(words) && text.contains("hint:"), "{text}");
        }
    }
    let machine = Machine::with_gpus(1);
    let output = machine.vramfit(&["gpus"]).env("LD_LIBRARY_PATH", "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("libnvidia-ml.so.1"));
}

#[test]
fn bad_flags_are_refused() {
    let machine = Machine::with_gpus(2);
    for arguments in [
        &["gpus", "--id", "7"][..],
        &["gpus", "--id", "x"],
        &["gpus", "-i", "-1"],
        &["gpus", "-i", "nan"],
        &["gpus", "-e", "both"],
        &["gpus", "--replay", "/nonexistent"],
        &["top", "--json"],
        &["top"],
    ] {
        let output = machine.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}
