//! The questions about one GPU that a source answers.

use crate::reading::{Missing, Reading};
use crate::sample::{Memory, MigDevice};

/// One question about one GPU: one driver call, which may fail or hang on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// The product's name.
    Name,
    /// The UUID.
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
    /// Processes with a compute context.
    ComputeProcesses,
    /// Processes with a graphics context.
    GraphicsProcesses,
    /// The share of the GPU's time by process.
    ProcessUtilization,
    /// Whether MIG is on, and the devices.
    Mig,
}

impl Question {
    /// All questions, in the order they are asked.
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
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `Name`, `Uuid`.
    Text(String),
    /// To every question with a number as its answer.
    Number(u32),
    /// To `Memory`.
    Memory(Memory),
    /// To `ComputeProcesses`, `GraphicsProcesses`.
    Processes(Vec<ListedProcess>),
    /// To `ProcessUtilization`: percent by process.
    Shares(Vec<(u32, u32)>),
    /// To `Mig`: `None` if it is off.
    Mig(Option<Vec<MigDevice>>),
}

/// A process as the driver lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedProcess {
    /// Its PID.
    pub pid: u32,
    /// Bytes of GPU memory.
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
