//! The numbers that sum up a run.

/// The numbers that sum up a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Peak bytes in blocks that the program held.
    pub peak_allocated: u64,
    /// Peak bytes reserved from the driver.
    pub peak_reserved: u64,
    /// Segments at the end.
    pub segments: u64,
}
