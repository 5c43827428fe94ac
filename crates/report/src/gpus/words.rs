//! Short forms of durations and sizes.

/// A duration in the two largest units: `3d04h`, `2h07m`, `5m09s`, `42s`.
pub fn age(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (days @ 1.., _, _) => format!("{days}d{:02}h", seconds / 3600 % 24),
        (_, hours @ 1.., _) => format!("{hours}h{:02}m", seconds / 60 % 60),
        (_, _, minutes @ 1..) => format!("{minutes}m{:02}s", seconds % 60),
        _ => format!("{seconds}s"),
    }
}

/// Bytes in whole MiB, with a digit from 10 GiB on in GiB.
pub fn mebibytes(bytes: u64) -> String {
    if bytes < 10 << 30 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
    }
}

/// Main memory as gpustat shows it: whole numbers of up to four digits.
pub(super) fn host_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (bytes, 0);
    while value > 9999 && unit + 1 < UNITS.len() {
        value >>= 10;
        unit += 1;
    }
    format!("{value}{}", UNITS[unit])
}

/// Replaces control characters, which commands, names and hosts may contain.
pub(super) fn printable(text: &str) -> String {
    text.replace(|letter: char| letter.is_control(), " ")
}

/// Pads to a width. Unlike `format!`, which stops at 65,535.
pub(super) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    text.to_owned() + &" ".repeat(missing)
}

/// `1 GPU`, `3 GPUs`.
pub fn count_of(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units_at_most() {
        assert_eq!([0.9, 42.0, 309.0, 7620.0, 273_600.0].map(age), ["0s", "42s", "5m09s", "2h07m", "3d04h"]);
    }

    #[test]
    fn host_sizes_are_gpustats() {
        assert_eq!([9999, 10_000, 1_830_912, 30_000_000_000].map(host_size), ["9999B", "9KB", "1788KB", "27GB"]);
    }
}
