//! The numbers that sum up a run.

/// The numbers that sum up a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The most bytes the program held at once, whole blocks counted.
    pub peak_allocated: u64,
    /// The most bytes reserved at once.
    pub peak_reserved: u64,
    /// Segments at the end.
    pub segments: u64,
}
