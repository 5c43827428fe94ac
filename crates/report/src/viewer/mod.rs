//! The viewer of a recording or a simulated run: a timeline, the segments at an instant, one block.
//!
//! What it shows travels inside the page as compressed columns ([`columns`]); the browser unpacks them and draws.

pub(crate) mod columns;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::page::Section;

/// The looks of it.
pub(crate) const STYLE: &str = include_str!("viewer.css");
/// What unpacks and draws, after the scripts of all pages.
pub(crate) const SCRIPTS: [&str; 8] = [
    include_str!("format.js"),
    include_str!("unpack.js"),
    include_str!("recording.js"),
    include_str!("groups.js"),
    include_str!("timeline.js"),
    include_str!("segments.js"),
    include_str!("details.js"),
    include_str!("main.js"),
];

const TIMELINE: &str = include_str!("timeline.html");
const TOOLS: &str = include_str!("tools.html");

/// The section it is shown in; `groupings` and `axes` are the options of its two lists.
pub(crate) fn section(groupings: &str, axes: &str) -> Section {
    let tools = TOOLS.replace("{{groupings}}", groupings).replace("{{axes}}", axes);
    Section { id: "time", title: "Memory over time", tools, body: TIMELINE.to_owned() }
}

/// The columns as they travel.
pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}
