//! What a source can be asked about one GPU, and what it answers.

use crate::reading::{Missing, Reading};
use crate::sample::{Memory, MigDevice};

/// One question about one GPU: one call that may fail or hang on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// The product's name.
    Name,
    /// The identifier.
    Uuid,
    /// Degrees Celsius.
    Temperature,
    /// Percent.
    FanSpeed,
    /// Total, used, free.
    Memory,
    /// Percent.
    Utilization,
    /// Percent.
    Encoder,
    /// Percent.
    Decoder,
    /// Milliwatts.
    Power,
    /// Milliwatts.
    PowerLimit,
    /// Processes that compute.
    ComputeProcesses,
    /// Processes that draw.
    GraphicsProcesses,
    /// The share of the GPU's time by process.
    ProcessUtilization,
    /// Whether MIG is on, and the devices.
    Mig,
}

impl Question {
    /// All of them, in the order they are asked.
    pub const ALL: [Question; 14] = [
        Question::Name,
        Question::Uuid,
        Question::Memory,
        Question::ComputeProcesses,
        Question::GraphicsProcesses,
        Question::Utilization,
        Question::Temperature,
        Question::FanSpeed,
        Question::Encoder,
        Question::Decoder,
        Question::Power,
        Question::PowerLimit,
        Question::ProcessUtilization,
        Question::Mig,
    ];

    /// What gpustat's `--debug` calls it.
    pub fn column(self) -> &'static str {
        match self {
            Question::Name => "name",
            Question::Uuid => "uuid",
            Question::Temperature => "temperature",
            Question::FanSpeed => "fan_speed",
            Question::Memory => "memory",
            Question::Utilization => "utilization",
            Question::Encoder => "utilization_enc",
            Question::Decoder => "utilization_dec",
            Question::Power => "power",
            Question::PowerLimit => "power_limit",
            Question::ComputeProcesses => "compute_processes",
            Question::GraphicsProcesses => "graphics_processes",
            Question::ProcessUtilization => "process_utilization",
            Question::Mig => "mig",
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `Name`, `Uuid`.
    Text(String),
    /// To everything counted.
    Number(u32),
    /// To `Memory`.
    Memory(Memory),
    /// To `ComputeProcesses`, `GraphicsProcesses`.
    Processes(Vec<ListedProcess>),
    /// To `ProcessUtilization`: percent by process.
    Shares(Vec<(u32, u32)>),
    /// To `Mig`: `None` where it is off.
    Mig(Option<Vec<MigDevice>>),
}

/// A process as the driver lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedProcess {
    /// Its number.
    pub pid: u32,
    /// Bytes.
    pub memory: Reading<u64>,
    /// The GPU instance under MIG.
    pub gpu_instance: Option<u32>,
}

impl Answer {
    /// The text in it.
    pub fn text(self) -> Reading<String> {
        if let Answer::Text(text) = self { Ok(text) } else { Err(Missing::NotSupported) }
    }

    /// The number in it.
    pub fn number(self) -> Reading<u32> {
        if let Answer::Number(number) = self { Ok(number) } else { Err(Missing::NotSupported) }
    }

    /// The memory in it.
    pub fn memory(self) -> Reading<Memory> {
        if let Answer::Memory(memory) = self { Ok(memory) } else { Err(Missing::NotSupported) }
    }

    /// The processes in it.
    pub fn processes(self) -> Reading<Vec<ListedProcess>> {
        if let Answer::Processes(list) = self { Ok(list) } else { Err(Missing::NotSupported) }
    }
}
