//! The treemap of the peak: what memory is for, and inside it by module. Areas are bytes.

use std::collections::BTreeMap;

use super::super::Holder;
use super::super::holders::CATEGORY_NAMES;
use crate::explain::html::escape;
use crate::size::human;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 420.0;
/// Smaller pieces are drawn as one: nobody could point at them.
const LEAST: f64 = 40.0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// An SVG image of all holders.
pub fn treemap(holders: &[Holder]) -> String {
    let mut kinds: BTreeMap<usize, BTreeMap<&str, u64>> = BTreeMap::new();
    for holder in holders {
        let kind = CATEGORY_NAMES.iter().position(|name| *name == holder.category).unwrap_or(0);
        *kinds.entry(kind).or_default().entry(holder.module.as_deref().unwrap_or("the model")).or_default() +=
            holder.bytes;
    }
    let all: u64 = holders.iter().map(|holder| holder.bytes).sum();
    let mut kinds: Vec<(usize, Vec<(&str, u64)>)> =
        kinds.into_iter().map(|(kind, modules)| (kind, modules.into_iter().collect())).collect();
    let bytes_of = |modules: &[(&str, u64)]| modules.iter().map(|(_, bytes)| bytes).sum::<u64>();
    kinds.sort_by_key(|(_, modules)| std::cmp::Reverse(bytes_of(modules)));
    let whole = Area { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT };
    let sizes: Vec<u64> = kinds.iter().map(|(_, modules)| bytes_of(modules)).collect();
    let mut pieces = String::new();
    for ((kind, modules), area) in kinds.iter_mut().zip(divide(&sizes, whole)) {
        modules.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let scale = area.width * area.height / bytes_of(modules).max(1) as f64;
        let shown = modules.iter().take_while(|(_, bytes)| *bytes as f64 * scale >= LEAST).count();
        let rest = bytes_of(&modules[shown..]);
        let mut rows: Vec<(String, u64)> =
            modules[..shown].iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        if rest > 0 {
            rows.push((format!("{} more", modules.len() - shown), rest));
        }
        let sizes: Vec<u64> = rows.iter().map(|(_, bytes)| *bytes).collect();
        for ((name, bytes), area) in rows.iter().zip(divide(&sizes, area)) {
            pieces += &piece(CATEGORY_NAMES[*kind], *kind, name, *bytes, all, area);
        }
    }
    format!(
        "<svg id=\"treemap\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Treemap of the peak: {}\">{pieces}</svg>",
        human(all)
    )
}

fn piece(category: &str, kind: usize, name: &str, bytes: u64, all: u64, area: Area) -> String {
    let share = 100.0 * bytes as f64 / all.max(1) as f64;
    let title = escape(&format!("{category}, {name}: {} ({share:.1} %)", human(bytes)));
    let mut text = format!(
        "<g><title>{title}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"var(--c{})\"/>",
        area.x,
        area.y,
        area.width,
        area.height,
        kind + 1
    );
    // About six units a letter.
    let letters = (area.width / 6.2) as usize;
    if area.height > 30.0 && letters > 9 {
        let lines = [cut(category, letters), cut(name, letters), human(bytes)];
        let shown = if area.height > 48.0 { 3 } else { 2 };
        for (index, line) in lines.iter().take(shown).enumerate() {
            text += &format!(
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                area.x + 5.0,
                area.y + 15.0 + 14.0 * index as f64,
                escape(line)
            );
        }
    }
    text + "</g>"
}

/// A text with its beginning cut off where it is too long.
fn cut(text: &str, letters: usize) -> String {
    let length = text.chars().count();
    if length <= letters {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(length - letters + 1)).collect()
}

/// Divides an area by sizes that fall, in rows whose pieces are as square as can be.
fn divide(sizes: &[u64], area: Area) -> Vec<Area> {
    let all: f64 = sizes.iter().map(|&size| size as f64).sum();
    let mut areas = Vec::with_capacity(sizes.len());
    if all <= 0.0 {
        return vec![Area { width: 0.0, height: 0.0, ..area }; sizes.len()];
    }
    let scale = area.width * area.height / all;
    let (mut rest, mut next) = (area, 0);
    while next < sizes.len() {
        let side = rest.width.min(rest.height);
        let mut end = next + 1;
        while end < sizes.len() && worst(&sizes[next..=end], scale, side) <= worst(&sizes[next..end], scale, side) {
            end += 1;
        }
        let row = &sizes[next..end];
        let thickness = row.iter().map(|&size| size as f64 * scale).sum::<f64>() / side.max(f64::MIN_POSITIVE);
        let mut along = 0.0;
        for &size in row {
            let length = size as f64 * scale / thickness.max(f64::MIN_POSITIVE);
            areas.push(if rest.width >= rest.height {
                Area { x: rest.x, y: rest.y + along, width: thickness, height: length }
            } else {
                Area { x: rest.x + along, y: rest.y, width: length, height: thickness }
            });
            along += length;
        }
        if rest.width >= rest.height {
            rest = Area { x: rest.x + thickness, width: (rest.width - thickness).max(0.0), ..rest };
        } else {
            rest = Area { y: rest.y + thickness, height: (rest.height - thickness).max(0.0), ..rest };
        }
        next = end;
    }
    areas
}

/// The worst ratio of sides in a row along `side`.
fn worst(row: &[u64], scale: f64, side: f64) -> f64 {
    let sum: f64 = row.iter().map(|&size| size as f64 * scale).sum();
    let (least, most) = row.iter().fold((f64::MAX, 0.0_f64), |(least, most), &size| {
        (least.min(size as f64 * scale), most.max(size as f64 * scale))
    });
    (side * side * most / (sum * sum)).max(sum * sum / (side * side * least.max(f64::MIN_POSITIVE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_in_proportion_and_fill_the_whole() {
        let whole = Area { x: 0.0, y: 0.0, width: 600.0, height: 400.0 };
        let sizes = [600, 600, 400, 300, 200, 200, 100];
        let areas = divide(&sizes, whole);
        assert_eq!(areas.len(), sizes.len());
        for (area, size) in areas.iter().zip(sizes) {
            assert!((area.width * area.height - f64::from(size as u32) * 100.0).abs() < 1e-6);
            assert!(area.x >= 0.0 && area.x + area.width <= 600.0 + 1e-6);
            assert!(area.y >= 0.0 && area.y + area.height <= 400.0 + 1e-6);
        }
        assert!(areas.iter().all(|area| area.width.max(area.height) / area.width.min(area.height) < 4.0));
    }

    #[test]
    fn a_module_cannot_become_markup() {
        let holder = Holder {
            bytes: 1 << 20,
            blocks: 1,
            category: "activations",
            module: Some("<script>".into()),
            op: None,
            source: None,
        };
        assert!(!treemap(&[holder]).contains("<script>"));
    }
}
