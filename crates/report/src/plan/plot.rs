//! The frontier as a small plot of letters: memory to the right, time upwards.

use vramfit_plan::search::FrontierPoint;

use super::WIDE;
use crate::size::human;

const WIDTH: usize = 56;
const HEIGHT: usize = 8;

/// The plot; `o` fits, `x` does not. Empty where there are fewer than two points.
pub fn plot(points: &[FrontierPoint], capacity: Option<u64>) -> String {
    if points.len() < 2 {
        return String::new();
    }
    let (mut left, mut right) = (u64::MAX, 0);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for point in points {
        (left, right) = (left.min(point.taken), right.max(point.taken));
        (low, high) = (low.min(point.slowdown), high.max(point.slowdown));
    }
    let width = (right - left).max(1) as f64;
    // As on the page: where times are far apart, the axis is logarithmic.
    let scaled = |slowdown: f64| if high > WIDE * low { slowdown.ln() } else { slowdown };
    let height = (scaled(high) - scaled(low)).max(1e-9);
    let column = |bytes: u64| ((bytes.saturating_sub(left)) as f64 / width * (WIDTH - 1) as f64).round() as usize;
    let mut rows = vec![vec![' '; WIDTH]; HEIGHT];
    if let Some(capacity) = capacity.filter(|capacity| (left..=right).contains(capacity)) {
        for row in &mut rows {
            row[column(capacity)] = '|';
        }
    }
    for point in points {
        let row = ((scaled(high) - scaled(point.slowdown)) / height * (HEIGHT - 1) as f64).round() as usize;
        rows[row.min(HEIGHT - 1)][column(point.taken).min(WIDTH - 1)] = if point.fits { 'o' } else { 'x' };
    }
    let mut text = String::new();
    for (index, row) in rows.into_iter().enumerate() {
        let label = match index {
            0 => format!("×{high:.2}"),
            index if index == HEIGHT - 1 => format!("×{low:.2}"),
            _ => String::new(),
        };
        let line: String = row.into_iter().collect();
        text += format!("  {label:>7} {line}").trim_end();
        text.push('\n');
    }
    let (left, right) = (human(left), human(right));
    let gap = WIDTH.saturating_sub(left.len() + right.len());
    text + &format!("  {:7} {left}{:gap$}{right}\n", "", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_far_apart_are_on_a_logarithmic_axis() {
        let point = |taken: u64, slowdown: f64| FrontierPoint { taken: taken << 30, slowdown, fits: true };
        let text = plot(&[point(8, 1.0), point(5, 8.0), point(2, 64.0)], None);
        let marked: Vec<usize> = (0..HEIGHT).filter(|&row| text.lines().nth(row).unwrap().contains('o')).collect();
        assert_eq!(marked, [0, 4, 7], "the middle factor is in the middle: {text}");
    }

    #[test]
    fn points_are_where_their_memory_and_time_put_them() {
        let point = |taken: u64, slowdown: f64, fits| FrontierPoint { taken: taken << 30, slowdown, fits };
        let text = plot(&[point(8, 1.0, false), point(4, 1.2, true), point(2, 1.4, true)], Some(5 << 30));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), HEIGHT + 1);
        assert!(lines[0].starts_with("    ×1.40 o"), "{text}");
        assert!(lines[HEIGHT - 1].ends_with('x') && lines[HEIGHT - 1].contains('|'), "{text}");
        assert!(lines[HEIGHT].contains("2.00 GiB") && lines[HEIGHT].ends_with("8.00 GiB"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
    }
}
