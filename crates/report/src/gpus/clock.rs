//! Times as people at this machine read them.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

fn local(microseconds: u64) -> Zoned {
    let signed = i64::try_from(microseconds).unwrap_or(0);
    Timestamp::from_microsecond(signed).unwrap_or_default().to_zoned(TimeZone::system())
}

/// As gpustat's header has it: `Sun Nov 15 09:13:36 2026`.
pub fn header_time(microseconds: u64) -> String {
    local(microseconds).strftime("%a %b %e %H:%M:%S %Y").to_string()
}

/// The time of day.
pub fn clock_time(microseconds: u64) -> String {
    local(microseconds).strftime("%H:%M:%S").to_string()
}

/// As Python's `datetime.now().isoformat()`.
pub(super) fn iso_time(microseconds: u64) -> String {
    local(microseconds).strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}
