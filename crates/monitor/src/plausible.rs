//! Checks of values a driver reports: one that cannot be right is missing.

use crate::reading::{Missing, Reading};
use crate::sample::Memory;

/// One pebibyte: more than any GPU has.
const MAX_MEMORY: u64 = 1 << 50;

/// A share of time: 0 to 100.
pub fn percent(value: u32) -> Reading<u32> {
    up_to(value, 100, "%")
}

/// A fan may exceed its specified speed.
pub fn fan(value: u32) -> Reading<u32> {
    up_to(value, 200, "%")
}

/// Degrees Celsius, up to what silicon survives.
pub fn temperature(value: u32) -> Reading<u32> {
    up_to(value, 200, "°C")
}

/// Milliwatts, up to ten kilowatts.
pub fn power(value: u32) -> Reading<u32> {
    up_to(value, 10_000_000, "mW")
}

/// Used and free memory, each at most the total.
pub fn memory(value: Memory) -> Reading<Memory> {
    if value.total == 0 || value.total > MAX_MEMORY {
        return Err(Missing::Implausible(format!("{} bytes in total", value.total)));
    }
    if value.used > value.total || value.free > value.total {
        return Err(Missing::Implausible(format!(
            "{} bytes used and {} free of {}",
            value.used, value.free, value.total
        )));
    }
    Ok(value)
}

/// Memory of a process, at most that of its GPU.
pub fn process_memory(value: u64, gpu: Option<&Memory>) -> Reading<u64> {
    let limit = gpu.map_or(MAX_MEMORY, |memory| memory.total);
    if value > limit { Err(Missing::Implausible(format!("{value} bytes"))) } else { Ok(value) }
}

fn up_to(value: u32, limit: u32, unit: &str) -> Reading<u32> {
    if value > limit { Err(Missing::Implausible(format!("{value} {unit}"))) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_value_is_missing_with_the_value_as_reason() {
        assert_eq!(percent(100), Ok(100));
        assert_eq!(percent(u32::MAX).unwrap_err().to_string(), "implausible: 4294967295 %");
        assert_eq!(temperature(201).unwrap_err().to_string(), "implausible: 201 °C");
        assert_eq!(fan(120), Ok(120));
        assert!(power(u32::MAX).is_err());
        let whole = Memory { total: 100, used: 60, free: 40, reserved: 0 };
        assert_eq!(memory(whole), Ok(whole));
        assert!(memory(Memory { used: 101, ..whole }).is_err());
        assert!(memory(Memory { total: 0, used: 0, free: 0, reserved: 0 }).is_err());
        assert!(memory(Memory { total: u64::MAX, ..whole }).is_err());
        assert_eq!(process_memory(100, Some(&whole)), Ok(100));
        assert!(process_memory(101, Some(&whole)).is_err());
    }
}
