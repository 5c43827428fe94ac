//! Why there is no driver to ask, and what to check.

use std::fs;
use std::path::Path;

/// Why GPUs cannot be asked for at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDriver {
    /// There is neither NVIDIA's library nor an AMD GPU.
    #[error("no GPU driver found: neither NVIDIA's library libnvidia-ml.so.1 nor an AMD GPU in /sys/class/drm")]
    NoLibrary,
    /// NVIDIA's library is there, its kernel module is not.
    #[error("NVIDIA's driver is not loaded: libnvidia-ml.so.1 is here, the kernel module is not")]
    NotLoaded,
    /// Kernel module and library are of different versions.
    #[error(
        "NVIDIA's driver and library are of different versions: kernel module {}, library {}",
        .loaded.as_deref().unwrap_or("unknown"), .library.as_deref().unwrap_or("unknown")
    )]
    Mismatch {
        /// The kernel module's version.
        loaded: Option<String>,
        /// The library's version.
        library: Option<String>,
    },
    /// The user may not open the driver's device files.
    #[error("no permission to talk to NVIDIA's driver")]
    NoPermission,
    /// The driver hangs.
    #[error("NVIDIA's driver gave no answer in {0} s")]
    NoAnswer(u64),
    /// Anything else, in NVML's words.
    #[error("NVIDIA's driver failed to start: {0}")]
    Failed(String),
}

impl NoDriver {
    /// The same with what the machine knows about versions.
    #[must_use]
    pub fn with_versions(self) -> NoDriver {
        match self {
            NoDriver::Mismatch { .. } => NoDriver::Mismatch { loaded: module_version(), library: library_version() },
            other => other,
        }
    }

    /// What to check on this machine.
    pub fn hint(&self) -> String {
        let module = Path::new("/proc/driver/nvidia/version").exists();
        let wsl = Path::new("/dev/dxg").exists();
        let container = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
        let advice = match self {
            NoDriver::NoLibrary if wsl => {
                "on WSL the library comes from Windows: check that /usr/lib/wsl/lib/libnvidia-ml.so.1 is there and in LD_LIBRARY_PATH"
            }
            NoDriver::NoLibrary if module => {
                "the kernel module is loaded but its library is not to be found: in a container start it with --gpus all (Docker) or --device nvidia.com/gpu=all (Podman); else install the driver's libnvidia-compute package"
            }
            NoDriver::NoLibrary if container => {
                "in a container start it with --gpus all (Docker) or --device nvidia.com/gpu=all (Podman); for AMD pass /dev/kfd and /dev/dri"
            }
            NoDriver::NoLibrary => "check `lspci | grep -iE 'vga|3d'` for a GPU and install its driver",
            NoDriver::NotLoaded => {
                "check `lsmod | grep nvidia` and `dmesg | grep -i nvrm`, then `sudo modprobe nvidia`; after a kernel update the module may have to be built again (`dkms status`)"
            }
            NoDriver::Mismatch { .. } => {
                "the driver was updated while its old kernel module is still loaded: reboot, or stop all users of the GPU and reload it (`sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia`)"
            }
            NoDriver::NoPermission => {
                "check the rights of /dev/nvidia* (`ls -l /dev/nvidia*`) and the groups video and render"
            }
            NoDriver::NoAnswer(_) => {
                "check `dmesg | grep -iE 'nvrm|xid'`; a GPU that has fallen off the bus needs a reset or a reboot"
            }
            NoDriver::Failed(_) => "check `nvidia-smi` and `dmesg | grep -iE 'nvrm|xid'`",
        };
        format!("{advice}; `--demo` shows a recorded machine without a GPU")
    }
}

fn module_version() -> Option<String> {
    let version = fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(version.trim().to_owned())
}

/// The version at the end of the library's real file name.
fn library_version() -> Option<String> {
    let named = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    named.split(':').filter(|folder| !folder.is_empty()).chain(folders).find_map(|folder| {
        let real = fs::canonicalize(Path::new(folder).join("libnvidia-ml.so.1")).ok()?;
        let name = real.file_name()?.to_str()?;
        let version = name.strip_prefix("libnvidia-ml.so.")?;
        version.contains('.').then(|| version.to_owned())
    })
}
