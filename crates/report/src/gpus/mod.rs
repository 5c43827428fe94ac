//! The state of the GPUs as gpustat's lines and JSON, by memory, as OpenMetrics, and the page of `vramfit serve`.

mod clock;
mod json;
mod lines;
mod memory;
mod openmetrics;
pub mod page;
mod shape;
mod words;

pub use clock::{clock_time, header_time, http_time};
pub use json::{document, history};
pub use lines::{Columns, lines};
pub use memory::memory_view;
pub use openmetrics::{CONTENT_TYPE, Exposition, openmetrics};
pub use shape::GpusReport;
pub use words::{age, count_of, mebibytes};
