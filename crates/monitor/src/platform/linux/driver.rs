//! The driver's libraries and versions, and what to say when it is missing.

use std::fs;
use std::path::{Path, PathBuf};

/// Why there is no library.
pub(crate) const NO_LIBRARY: &str = "neither NVIDIA's library libnvidia-ml.so.1 nor an AMD GPU in /sys/class/drm";
/// Why the driver is not loaded.
pub(crate) const NOT_LOADED: &str = "libnvidia-ml.so.1 is here, the kernel module is not";

pub(crate) const NOT_LOADED_ADVICE: &str = "check `lsmod | grep nvidia` and `dmesg | grep -i nvrm`, then `sudo modprobe nvidia`; after a kernel update the module may have to be built again (`dkms status`)";
pub(crate) const MISMATCH_ADVICE: &str = "the driver was updated while its old kernel module is still loaded: reboot, or stop all users of the GPU and reload it (`sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia`)";
pub(crate) const NO_PERMISSION_ADVICE: &str =
    "check the rights of /dev/nvidia* (`ls -l /dev/nvidia*`) and the groups video and render";
pub(crate) const NO_ANSWER_ADVICE: &str =
    "check `dmesg | grep -iE 'nvrm|xid'`; a GPU that has fallen off the bus needs a reset or a reboot";
pub(crate) const FAILED_ADVICE: &str = "check `nvidia-smi` and `dmesg | grep -iE 'nvrm|xid'`";

pub(crate) fn no_library_advice() -> &'static str {
    let has_module = Path::new("/proc/driver/nvidia/version").exists();
    let is_wsl = Path::new("/dev/dxg").exists();
    let is_container = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
    if is_wsl {
        "on WSL the library comes from Windows: check that /usr/lib/wsl/lib/libnvidia-ml.so.1 is there and in LD_LIBRARY_PATH"
    } else if has_module {
        "the kernel module is loaded but its library is not to be found: in a container start it with --gpus all (Docker) or --device nvidia.com/gpu=all (Podman); else install the driver's libnvidia-compute package"
    } else if is_container {
        "in a container start it with --gpus all (Docker) or --device nvidia.com/gpu=all (Podman); for AMD pass /dev/kfd and /dev/dri"
    } else {
        "check `lspci | grep -iE 'vga|3d'` for a GPU and install its driver"
    }
}

/// Where NVML may be; the linker searches for a bare name.
pub(crate) fn nvml_libraries() -> Vec<PathBuf> {
    vec!["libnvidia-ml.so.1".into()]
}

/// The versions of the kernel module and of the library.
pub(crate) fn versions() -> (Option<String>, Option<String>) {
    (module_version(), library_version())
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
