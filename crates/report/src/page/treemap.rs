//! The treemap of a peak: areas are bytes, colours what they are for. Two pictures of the same bytes, of which the reader
//! chooses one: by what memory is for and then by who holds it, or the other way round.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::escape;
use crate::size::human;

/// The looks of it.
pub const STYLE: &str = include_str!("treemap.css");

/// Shares of the whole, in percent of a side; the picture is about so much wider than high.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 100.0;
/// Smaller pieces are drawn as one: nobody could point at them.
const LEAST: f64 = 6.0;

/// Bytes that one holder has for one purpose.
pub struct Leaf<'a> {
    /// What they are for.
    pub kind: &'a str,
    /// The number of that purpose's colour.
    pub color: usize,
    /// Who holds them, exactly.
    pub owner: &'a str,
    /// The larger whole that the holder belongs to.
    pub block: &'a str,
    /// How many.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// By kind and holder: the colour's number and the bytes.
type Sums<'a> = BTreeMap<(&'a str, &'a str), (usize, u64)>;

/// A piece before it has a place.
struct Piece<'a> {
    kind: &'a str,
    color: usize,
    owner: String,
    bytes: u64,
}

/// The radio buttons that choose between the two pictures; `owner` says what holders are called.
pub fn choice(owner: &str) -> String {
    let owner = escape(owner);
    format!(
        "<div class=\"tools\" role=\"radiogroup\" aria-label=\"Group by\">Group by <label><input type=\"radio\" name=\"treemap\" value=\"kind\" checked> purpose</label><label><input type=\"radio\" name=\"treemap\" value=\"owner\"> {owner}</label></div>"
    )
}

/// Both pictures and what their colours mean.
pub fn treemap(leaves: &[Leaf<'_>]) -> String {
    let by_kind = picture(leaves, "by-kind", |leaf| leaf.kind, |leaf| leaf.owner);
    let by_owner = picture(leaves, "by-owner", |leaf| leaf.block, |leaf| leaf.block);
    let mut kinds: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for leaf in leaves {
        kinds.entry(leaf.kind).or_insert((leaf.color, 0)).1 += leaf.bytes;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
    let legend: String = kinds
        .iter()
        .map(|(kind, (color, bytes))| {
            format!("<li><i class=\"swatch\" style=\"--c:var(--c{color})\"></i>{} {}</li>", escape(kind), human(*bytes))
        })
        .collect();
    format!(
        "{by_kind}{by_owner}<ul class=\"kinds\" aria-label=\"Colours\">{legend}</ul><p class=\"help\">Areas are bytes. <kbd>Tab</kbd> into the picture, then arrow keys go from piece to piece.</p>"
    )
}

/// One picture: outer areas by `outer`, pieces inside by kind and `inner`.
fn picture<'a>(
    leaves: &[Leaf<'a>],
    class: &str,
    outer: impl Fn(&Leaf<'a>) -> &'a str,
    inner: impl Fn(&Leaf<'a>) -> &'a str,
) -> String {
    let all: u64 = leaves.iter().map(|leaf| leaf.bytes).sum();
    let mut groups: BTreeMap<&str, Sums<'_>> = BTreeMap::new();
    for leaf in leaves {
        let piece = groups.entry(outer(leaf)).or_default().entry((leaf.kind, inner(leaf)));
        piece.or_insert((leaf.color, 0)).1 += leaf.bytes;
    }
    let mut groups: Vec<(u64, Vec<Piece<'_>>)> = groups
        .into_values()
        .map(|pieces| {
            let pieces = pieces.into_iter().map(|((kind, owner), (color, bytes))| Piece {
                kind,
                color,
                owner: owner.to_owned(),
                bytes,
            });
            let mut pieces: Vec<Piece<'_>> = pieces.collect();
            pieces.sort_by_key(|piece| std::cmp::Reverse(piece.bytes));
            (pieces.iter().map(|piece| piece.bytes).sum(), pieces)
        })
        .collect();
    groups.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    merge_small(&mut groups, all);
    let sizes: Vec<u64> = groups.iter().map(|(bytes, _)| *bytes).collect();
    let whole = Area { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT };
    let (mut html, mut outlines) = (String::new(), String::new());
    for ((_, pieces), area) in groups.iter().zip(divide(&sizes, whole)) {
        let sizes: Vec<u64> = pieces.iter().map(|piece| piece.bytes).collect();
        for (piece, area) in pieces.iter().zip(divide(&sizes, area)) {
            html += &piece_html(piece, all, area);
        }
        let _ = write!(outlines, "<div class=\"outline\" style=\"{}\"></div>", style(area));
    }
    format!(
        "<div class=\"treemap {class}\" role=\"list\" aria-label=\"Treemap of the peak: {}\" data-pieces>{html}{outlines}</div>",
        human(all)
    )
}

/// Puts what nobody could point at together: pieces within a group, then groups.
fn merge_small(groups: &mut Vec<(u64, Vec<Piece<'_>>)>, all: u64) {
    let scale = WIDTH * HEIGHT / all.max(1) as f64;
    let is_shown = |bytes: u64| bytes as f64 * scale >= LEAST;
    for (_, pieces) in groups.iter_mut() {
        let shown = pieces.iter().take_while(|piece| is_shown(piece.bytes)).count();
        if pieces.len() - shown > 1 {
            let first = &pieces[shown];
            let is_mixed = pieces[shown..].iter().any(|piece| piece.kind != first.kind);
            let (kind, color) = if is_mixed { ("several purposes", 0) } else { (first.kind, first.color) };
            let bytes = pieces[shown..].iter().map(|piece| piece.bytes).sum();
            let owner = format!("{} more", pieces.len() - shown);
            pieces.truncate(shown);
            pieces.push(Piece { kind, color, owner, bytes });
            pieces.sort_by_key(|piece| std::cmp::Reverse(piece.bytes));
        }
    }
    let shown = groups.iter().take_while(|(bytes, _)| is_shown(*bytes)).count();
    if groups.len() - shown > 1 {
        let (count, bytes) = (groups.len() - shown, groups[shown..].iter().map(|(bytes, _)| bytes).sum());
        groups.truncate(shown);
        groups.push((bytes, vec![Piece { kind: "several purposes", color: 0, owner: format!("{count} more"), bytes }]));
        groups.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    }
}

fn piece_html(piece: &Piece<'_>, all: u64, area: Area) -> String {
    let Piece { kind, color, owner, bytes } = piece;
    let share = 100.0 * *bytes as f64 / all.max(1) as f64;
    let title = escape(&format!("{owner}, {kind}: {} ({share:.1} %)", human(*bytes)));
    let (owner, kind) = (escape(owner), escape(kind));
    format!(
        "<div class=\"piece\" role=\"listitem\" data-piece style=\"{};--c:var(--c{color})\" title=\"{title}\"><span class=\"owner\"><bdi>{owner}</bdi></span><span>{}</span><span>{kind}</span></div>",
        style(area),
        human(*bytes)
    )
}

fn style(area: Area) -> String {
    let (across, down) = (100.0 / WIDTH, 100.0 / HEIGHT);
    format!(
        "--x:{:.2}%;--y:{:.2}%;--w:{:.2}%;--h:{:.2}%",
        area.x * across,
        area.y * down,
        area.width * across,
        area.height * down
    )
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

    fn leaf<'a>(kind: &'a str, owner: &'a str, block: &'a str, bytes: u64) -> Leaf<'a> {
        Leaf { kind, color: 4, owner, block, bytes }
    }

    #[test]
    fn a_module_cannot_become_markup() {
        let html = treemap(&[leaf("activations", "<script>", "\"><script>", 1 << 20)]);
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "{html}");
    }

    #[test]
    fn the_same_bytes_are_grouped_both_ways() {
        let html = treemap(&[
            leaf("activations", "layer.0.a", "layer.0", 6 << 20),
            leaf("activations", "layer.0.b", "layer.0", 2 << 20),
            leaf("gradients", "layer.0.a", "layer.0", 2 << 20),
        ]);
        assert!(html.contains("layer.0.b, activations: 2.00 MiB (20.0 %)"), "by purpose, each holder: {html}");
        assert!(html.contains("layer.0, activations: 8.00 MiB (80.0 %)"), "by block, each purpose: {html}");
    }

    #[test]
    fn what_is_too_small_to_point_at_is_one_piece_and_no_byte_is_lost() {
        let names: Vec<String> = (0..500).map(|number| format!("m{number}")).collect();
        let mut leaves: Vec<Leaf<'_>> = names.iter().map(|name| leaf("gradients", name, name, 1)).collect();
        leaves.push(leaf("gradients", "big", "big", 10_000_000));
        let html = treemap(&leaves);
        assert_eq!(html.matches("class=\"piece\"").count(), 4, "{html}");
        assert_eq!(html.matches("500 more").count(), 4, "{html}");
    }
}
