//! AMD's GPUs on a file system made up for it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use vramfit_monitor::platform::ProcessReader;
use vramfit_monitor::reading::Missing;
use vramfit_monitor::sample::{Process, Use, Vendor};
use vramfit_monitor::sampler::{Cpu, Limits, Sampler};
use vramfit_monitor::source::amd::{AmdSource, Roots};

const ADDRESS: &str = "0000:03:00.0";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A card at an address, as the kernel shows it.
fn card(root: &Path, number: u32, address: &str, vendor: &str) {
    let device = format!("sys/devices/pci0/{address}");
    let files = [
        ("vendor", format!("{vendor}\n")),
        ("device", "0x744c\n".to_owned()),
        ("revision", "0xc8\n".to_owned()),
        ("mem_info_vram_total", "25753026560\n".to_owned()),
        ("mem_info_vram_used", "1073741824\n".to_owned()),
        ("gpu_busy_percent", "37\n".to_owned()),
        ("unique_id", "abcdef0123456789\n".to_owned()),
        ("hwmon/hwmon4/temp1_input", "51000\n".to_owned()),
        ("hwmon/hwmon4/power1_average", "98000000\n".to_owned()),
        ("hwmon/hwmon4/power1_cap", "303000000\n".to_owned()),
        ("hwmon/hwmon4/pwm1", "51\n".to_owned()),
    ];
    for (name, text) in files {
        write(root, &format!("{device}/{name}"), &text);
    }
    let class = root.join(format!("sys/class/drm/card{number}"));
    fs::create_dir_all(&class).unwrap();
    std::os::unix::fs::symlink(root.join(device), class.join("device")).unwrap();
}

fn client(root: &Path, pid: u32, descriptor: u32, client: u32, address: &str, kibibytes: u64) {
    let info = format!(
        "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t{address}\ndrm-client-id:\t{client}\ndrm-memory-vram:\t{kibibytes} KiB\n"
    );
    write(root, &format!("proc/{pid}/fdinfo/{descriptor}"), &info);
    let descriptors = root.join(format!("proc/{pid}/fd"));
    fs::create_dir_all(&descriptors).unwrap();
    std::os::unix::fs::symlink("/dev/dri/renderD128", descriptors.join(descriptor.to_string())).unwrap();
}

fn open(root: &Path) -> Option<Sampler> {
    let roots = Roots { sys: root.join("sys"), proc: root.join("proc"), names: root.join("amdgpu.ids") };
    let source = AmdSource::open(roots)?;
    let reader = ProcessReader::new(root.join("proc"));
    Some(Sampler::new(vec![Arc::new(source)], reader, Limits::default(), Cpu::SinceLastSample))
}

#[test]
fn memory_sensors_and_processes_come_from_the_kernels_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    card(root, 1, ADDRESS, "0x1002");
    card(root, 0, "0000:01:00.0", "0x8086");
    fs::create_dir_all(root.join("sys/class/drm/card1-HDMI-A-1")).unwrap();
    write(root, "amdgpu.ids", "# names\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n");
    // One client seen through two descriptors counts once; another card's does not count.
    client(root, 77, 5, 1, ADDRESS, 2048);
    client(root, 77, 6, 1, ADDRESS, 2048);
    client(root, 77, 7, 2, ADDRESS, 1024);
    client(root, 77, 8, 3, "0000:99:00.0", 4096);
    write(root, "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4242\n");
    write(root, "sys/class/kfd/kfd/topology/nodes/1/properties", "location_id 768\ndomain 0\n");
    write(root, "sys/class/kfd/kfd/proc/88/vram_4242", "536870912\n");

    let sample = open(root).unwrap().sample();
    assert_eq!(sample.gpus.len(), 1, "only AMD's cards");
    let gpu = &sample.gpus[0];
    assert_eq!(gpu.vendor, Vendor::Amd);
    assert_eq!(gpu.name.as_deref(), Ok("AMD Radeon RX 7900 XTX"));
    assert_eq!(gpu.uuid.as_deref(), Ok("GPU-abcdef0123456789"));
    let memory = gpu.memory.as_ref().unwrap();
    assert_eq!((memory.total, memory.used, memory.free), (25_753_026_560, 1 << 30, 24_679_284_736));
    assert_eq!(gpu.utilization, Ok(37));
    assert_eq!(gpu.temperature, Ok(51));
    assert_eq!(gpu.power, Ok(98_000));
    assert_eq!(gpu.power_limit, Ok(303_000));
    assert_eq!(gpu.fan_speed, Ok(20));
    assert_eq!(gpu.encoder, Err(Missing::NotSupported));
    let processes = gpu.processes.as_ref().unwrap();
    let found: Vec<_> = processes.iter().map(|one| (one.pid, one.usage, one.gpu_memory.clone())).collect();
    assert_eq!(found, [(88, Use::Compute, Ok(512 << 20)), (77, Use::Graphics, Ok(3 << 20))]);
    assert!(processes.iter().all(Process::is_hidden), "they have no /proc/PID/stat here");
}

#[test]
fn a_card_that_is_pulled_out_is_lost_and_keeps_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    card(root, 0, ADDRESS, "0x1002");
    fs::create_dir_all(root.join("proc")).unwrap();
    let mut sampler = open(root).unwrap();
    assert_eq!(sampler.sample().gpus[0].name.as_deref(), Ok("AMD GPU 744C"));
    fs::remove_dir_all(root.join("sys/devices")).unwrap();
    let gpu = &sampler.sample().gpus[0];
    assert_eq!(gpu.unavailable, Some(Missing::Lost));
    assert_eq!(gpu.known_name(), Some("AMD GPU 744C"));
}

#[test]
fn without_amd_cards_there_is_no_source() {
    let folder = tempfile::tempdir().unwrap();
    assert!(open(folder.path()).is_none());
    card(folder.path(), 0, ADDRESS, "0x10de");
    assert!(open(folder.path()).is_none());
}
