//! AMD's GPUs through sysfs and `/proc`, without a library.
//!
//! Memory and utilisation come from `/sys/class/drm/card*/device`, sensors from its `hwmon`, processes from the DRM
//! clients in `/proc/*/fdinfo` and, for ROCm, from `/sys/class/kfd/kfd/proc`.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::Source;
use crate::question::{Answer, ListedProcess, Question};
use crate::reading::{Missing, Reading};
use crate::sample::{Memory, Vendor};

const AMD: &str = "0x1002";

/// AMD's GPUs on this machine.
pub struct AmdSource {
    roots: Roots,
    cards: Vec<Card>,
}

/// The roots of the files read; tests have their own.
#[derive(Clone, Debug)]
pub struct Roots {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
    /// Product names by device and revision.
    pub names: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots { sys: "/sys".into(), proc: "/proc".into(), names: "/usr/share/libdrm/amdgpu.ids".into() }
    }
}

struct Card {
    device: PathBuf,
    /// The PCI address, such as `0000:03:00.0`.
    address: String,
    /// The GPU's ID in ROCm's driver.
    kfd: Option<String>,
}

impl AmdSource {
    /// Finds AMD's GPUs; `None` without any.
    pub fn open(roots: Roots) -> Option<AmdSource> {
        let mut cards = Vec::new();
        for entry in fs::read_dir(roots.sys.join("class/drm")).ok()?.flatten() {
            let name = entry.file_name();
            // `card0` is a GPU; `card0-HDMI-A-1` is one of its outputs.
            let Some(number) = name.to_str().and_then(|name| name.strip_prefix("card")) else { continue };
            let Ok(number) = number.parse::<u32>() else { continue };
            let device = entry.path().join("device");
            if text(&device.join("vendor")).is_ok_and(|vendor| vendor == AMD)
                && device.join("mem_info_vram_total").exists()
            {
                let real = fs::canonicalize(&device).unwrap_or_else(|_| device.clone());
                let address = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let kfd = kfd_id(&roots.sys, &address);
                cards.push((number, Card { device, address, kfd }));
            }
        }
        cards.sort_by_key(|(number, _)| *number);
        let cards: Vec<Card> = cards.into_iter().map(|(_, card)| card).collect();
        (!cards.is_empty()).then_some(AmdSource { roots, cards })
    }

    fn name(&self, card: &Card) -> Reading<String> {
        if let Ok(name) = text(&card.device.join("product_name"))
            && !name.is_empty()
        {
            return Ok(name);
        }
        let device = text(&card.device.join("device"))?;
        let revision = text(&card.device.join("revision")).unwrap_or_default();
        let short = |number: &str| number.trim_start_matches("0x").to_uppercase();
        let (device, revision) = (short(&device), short(&revision));
        let names = fs::read_to_string(&self.roots.names).unwrap_or_default();
        let listed = names.lines().find_map(|line| {
            let mut fields = line.splitn(3, ',').map(str::trim);
            (fields.next()? == device && fields.next()? == revision).then(|| fields.next().map(str::to_owned))?
        });
        Ok(listed.unwrap_or_else(|| format!("AMD GPU {device}")))
    }

    fn memory(&self, card: &Card) -> Reading<Memory> {
        let total = number(&card.device.join("mem_info_vram_total"))?;
        let used = number(&card.device.join("mem_info_vram_used"))?;
        Ok(Memory { total, used, free: total.saturating_sub(used), reserved: 0 })
    }

    /// ROCm's processes, with their memory as the compute driver counts it.
    fn compute_processes(&self, card: &Card) -> Reading<Vec<ListedProcess>> {
        let Some(kfd) = &card.kfd else { return Ok(Vec::new()) };
        let Ok(folder) = fs::read_dir(self.roots.sys.join("class/kfd/kfd/proc")) else { return Ok(Vec::new()) };
        let mut processes = Vec::new();
        for entry in folder.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            match number(&entry.path().join(format!("vram_{kfd}"))) {
                Ok(0) | Err(Missing::NotSupported) => {}
                memory => processes.push(ListedProcess { pid, memory, gpu_instance: None }),
            }
        }
        Ok(processes)
    }

    /// DRM clients: the `fdinfo` of each open file of a GPU has the client's memory. Several files may share a client,
    /// which counts once.
    fn drm_processes(&self, card: &Card) -> Reading<Vec<ListedProcess>> {
        let mut by_pid: BTreeMap<u32, u64> = BTreeMap::new();
        let mut seen: HashSet<String> = HashSet::new();
        for entry in fs::read_dir(&self.roots.proc).map_err(|error| from_io(&error))?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let Ok(files) = fs::read_dir(entry.path().join("fd")) else { continue };
            for file in files.flatten() {
                let is_gpu = fs::read_link(file.path()).is_ok_and(|target| target.starts_with("/dev/dri"));
                if !is_gpu {
                    continue;
                }
                let Ok(info) = fs::read_to_string(entry.path().join("fdinfo").join(file.file_name())) else { continue };
                if let Some((client, bytes)) = drm_client(&info, &card.address)
                    && seen.insert(client)
                {
                    *by_pid.entry(pid).or_default() += bytes;
                }
            }
        }
        let listed = |(pid, bytes)| ListedProcess { pid, memory: Ok(bytes), gpu_instance: None };
        Ok(by_pid.into_iter().map(listed).collect())
    }
}

impl Source for AmdSource {
    fn vendor(&self) -> Vendor {
        Vendor::Amd
    }

    fn driver_version(&self) -> Reading<String> {
        text(&self.roots.sys.join("module/amdgpu/version"))
            .or_else(|_| text(&self.roots.proc.join("sys/kernel/osrelease")))
    }

    fn gpu_count(&self) -> Reading<usize> {
        Ok(self.cards.len())
    }

    fn ask(&self, gpu: usize, question: Question) -> Reading<Answer> {
        let card = self.cards.get(gpu).ok_or(Missing::NotSupported)?;
        if !card.device.exists() {
            return Err(Missing::Lost);
        }
        let device = &card.device;
        match question {
            Question::Name => self.name(card).map(Answer::Text),
            Question::Uuid => {
                let unique = text(&device.join("unique_id")).map(|number| format!("GPU-{number}"));
                unique.or_else(|_| Ok(card.address.clone())).map(Answer::Text)
            }
            Question::Memory => self.memory(card).map(Answer::Memory),
            Question::Utilization => small(number(&device.join("gpu_busy_percent"))?),
            Question::Temperature => small(sensor(device, "temp1_input")? / 1000),
            Question::FanSpeed => {
                let full = sensor(device, "pwm1_max").unwrap_or(255).max(1);
                small(sensor(device, "pwm1")? * 100 / full)
            }
            Question::Power => {
                small(sensor(device, "power1_average").or_else(|_| sensor(device, "power1_input"))? / 1000)
            }
            Question::PowerLimit => small(sensor(device, "power1_cap")? / 1000),
            Question::ComputeProcesses => self.compute_processes(card).map(Answer::Processes),
            Question::GraphicsProcesses => self.drm_processes(card).map(Answer::Processes),
            Question::Mig => Ok(Answer::Mig(None)),
            Question::Encoder | Question::Decoder | Question::ProcessUtilization => Err(Missing::NotSupported),
        }
    }
}

/// The client's ID and its bytes of GPU memory, if `info` is of an AMD GPU at this address.
fn drm_client(info: &str, address: &str) -> Option<(String, u64)> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
    if field("drm-driver")? != "amdgpu" || field("drm-pdev")? != address {
        return None;
    }
    let client = field("drm-client-id")?.to_owned();
    let memory = field("drm-resident-vram").or_else(|| field("drm-memory-vram")).and_then(bytes).unwrap_or(0);
    Some((client, memory))
}

/// `1234 KiB`, `5 MiB` or plain bytes.
fn bytes(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = match words.next() {
        None => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        Some(_) => return None,
    };
    number.checked_mul(unit)
}

/// ROCm's ID of the GPU at a PCI address.
fn kfd_id(sys: &Path, address: &str) -> Option<String> {
    let location = {
        let (rest, function) = address.rsplit_once('.')?;
        let mut parts = rest.split(':');
        let domain = u64::from_str_radix(parts.next()?, 16).ok()?;
        let bus = u64::from_str_radix(parts.next()?, 16).ok()?;
        let slot = u64::from_str_radix(parts.next()?, 16).ok()?;
        (domain, (bus << 8) | (slot << 3) | u64::from_str_radix(function, 16).ok()?)
    };
    for node in fs::read_dir(sys.join("class/kfd/kfd/topology/nodes")).ok()?.flatten() {
        let Ok(properties) = fs::read_to_string(node.path().join("properties")) else { continue };
        let property = |name: &str| {
            properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        };
        if property("location_id") == Some(location.1) && property("domain").unwrap_or(0) == location.0 {
            return text(&node.path().join("gpu_id")).ok().filter(|id| id != "0");
        }
    }
    None
}

fn sensor(device: &Path, name: &str) -> Reading<u64> {
    let folders = fs::read_dir(device.join("hwmon")).map_err(|error| from_io(&error))?;
    let found = folders.flatten().map(|folder| folder.path().join(name)).find(|path| path.exists());
    number(&found.ok_or(Missing::NotSupported)?)
}

fn small(value: u64) -> Reading<Answer> {
    u32::try_from(value).map(Answer::Number).map_err(|_| Missing::Implausible(value.to_string()))
}

fn number(path: &Path) -> Reading<u64> {
    let text = text(path)?;
    text.parse().map_err(|_| Missing::Implausible(text))
}

fn text(path: &Path) -> Reading<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(|error| from_io(&error))
}

fn from_io(error: &std::io::Error) -> Missing {
    match error.kind() {
        std::io::ErrorKind::NotFound => Missing::NotSupported,
        std::io::ErrorKind::PermissionDenied => Missing::NoPermission,
        _ => Missing::Failed(error.to_string()),
    }
}
