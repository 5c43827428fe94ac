//! Builds the stand-in once and runs vramfit on its scenarios.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;

/// The folder with `libnvidia-ml.so.1`.
pub fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/standin/Cargo.toml");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standin");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--manifest-path"])
            .arg(manifest)
            .arg("--target-dir")
            .arg(&target)
            .env_remove("RUSTFLAGS")
            .status()
            .unwrap();
        assert!(built.success(), "the stand-in does not build");
        let folder = target.join("lib");
        std::fs::create_dir_all(&folder).unwrap();
        // Test programs run side by side: the file is put in place whole.
        let beside = folder.join(format!("{}.part", std::process::id()));
        std::fs::copy(target.join("debug/libnvidia_ml.so"), &beside).unwrap();
        std::fs::rename(beside, folder.join("libnvidia-ml.so.1")).unwrap();
        folder
    })
}

/// A machine.
pub struct Machine {
    folder: TempDir,
    pub scenario: Value,
}

impl Machine {
    pub fn new(scenario: Value) -> Machine {
        // Built before any test looks at the clock.
        library();
        let machine = Machine { folder: tempfile::tempdir().unwrap(), scenario };
        machine.write();
        machine
    }

    /// So many ordinary GPUs.
    pub fn with_gpus(count: usize) -> Machine {
        Machine::new(json!({ "driver_version": "570.86.15", "gpus": (0..count).map(gpu).collect::<Vec<_>>() }))
    }

    /// Writes the scenario as it is now; programs that run see it.
    pub fn write(&self) {
        let beside = self.folder.path().join("part");
        std::fs::write(&beside, self.scenario.to_string()).unwrap();
        std::fs::rename(beside, self.path()).unwrap();
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("scenario.json")
    }

    /// The command, to be given more arguments.
    pub fn vramfit(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vramfit"));
        command
            .args(arguments)
            .env("LD_LIBRARY_PATH", library())
            .env("NVML_STANDIN_SCENARIO", self.path())
            .env_remove("VRAMFIT_TOKEN");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.vramfit(arguments).output().unwrap()
    }

    /// `gpus --json`, which must succeed.
    pub fn json(&self) -> Value {
        let output = self.run(&["gpus", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// An ordinary GPU without processes.
pub fn gpu(index: usize) -> Value {
    let number = index as u64;
    json!({
        "name": "NVIDIA H100 80GB HBM3", "uuid": format!("GPU-{index:08x}-0000"),
        "temperature": 30 + number, "fan": number, "utilization": number * 3, "encoder": 1, "decoder": 2,
        "power": 70_500 + number * 1000, "power_limit": 700_000,
        "memory": { "total": 81_559 * MIB, "used": (1000 + number) * MIB, "free": 80_000 * MIB, "reserved": 500 * MIB },
        "compute": [], "graphics": [],
    })
}
