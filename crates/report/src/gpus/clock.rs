//! Times as text.

use std::time::SystemTime;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

fn local(microseconds: u64) -> Zoned {
    let signed = i64::try_from(microseconds).unwrap_or(0);
    Timestamp::from_microsecond(signed).unwrap_or_default().to_zoned(TimeZone::system())
}

/// As in gpustat's header: `Sun Nov 15 09:13:36 2026`.
pub fn header_time(microseconds: u64) -> String {
    local(microseconds).strftime("%a %b %e %H:%M:%S %Y").to_string()
}

/// The time of day.
pub fn clock_time(microseconds: u64) -> String {
    local(microseconds).strftime("%H:%M:%S").to_string()
}

/// As in HTTP's Date header: `Sun, 15 Nov 2026 09:13:36 GMT`.
pub fn http_time(time: SystemTime) -> String {
    Timestamp::try_from(time).unwrap_or_default().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// As Python's `datetime.now().isoformat()`.
pub(super) fn iso_time(microseconds: u64) -> String {
    local(microseconds).strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn http_dates_are_those_of_rfc_9110() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(http_time(time), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
