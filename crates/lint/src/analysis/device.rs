//! The device of a tensor, as far as the program shows it.

/// The device of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// Main memory.
    Cpu,
    /// A GPU.
    Gpu,
    /// The program does not show it.
    #[default]
    Unknown,
}

impl Device {
    /// The device of an operation on both.
    pub fn with(self, other: Device) -> Device {
        match (self, other) {
            (Device::Gpu, _) | (_, Device::Gpu) => Device::Gpu,
            (Device::Cpu, Device::Cpu) => Device::Cpu,
            _ => Device::Unknown,
        }
    }
}
