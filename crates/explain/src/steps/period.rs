//! The period of a sequence: the distance at which it repeats itself.

use std::collections::HashMap;

/// A stretch of a sequence that repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The distance in tokens.
    pub length: usize,
    /// Where the stretch begins.
    pub first: usize,
    /// Where it ends; it is at least two periods long.
    pub end: usize,
}

/// A mismatch costs as much as this many matches bring: what repeats with fewer than one odd token in nine counts as
/// one stretch.
const MISMATCH: i64 = 8;
/// How many candidate periods are tried.
const CANDIDATES: usize = 48;
/// How many comparisons are made in all, so that a recording of millions of events stays affordable.
const COMPARISONS: usize = 100_000_000;

/// The period with the longest stretch, the shorter one among equals.
///
/// Inside a step, layers repeat too; but their stretch ends with the pass, while the step's goes on.
pub fn find(tokens: &[u32]) -> Option<Period> {
    let most = (COMPARISONS / tokens.len().max(1)).clamp(4, CANDIDATES);
    let mut best: Option<Period> = None;
    for length in candidates(tokens, most) {
        let Some((first, last)) = longest_repeat(tokens, length) else { continue };
        let found = Period { length, first, end: last + length };
        let is_better = best.is_none_or(|best| {
            let (ours, theirs) = (found.end - found.first, best.end - best.first);
            // A multiple of the period repeats as well, over a stretch that is no longer.
            if length < best.length { ours + ours / 50 >= theirs } else { ours > theirs + theirs / 50 }
        });
        if last - first >= length && is_better {
            best = Some(found);
        }
    }
    best
}

/// Distances between equal runs of tokens, those that explain the most first.
fn candidates(tokens: &[u32], most: usize) -> Vec<usize> {
    let run = if tokens.len() < 64 { 3 } else { 8 };
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (index, window) in tokens.windows(run).enumerate() {
        if let Some(before) = seen.insert(hash(window), index) {
            *votes.entry(index - before).or_default() += 1;
        }
    }
    let mut ranked: Vec<(usize, usize)> =
        votes.into_iter().map(|(length, votes)| (votes.saturating_mul(length), length)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked.into_iter().take(most).map(|(_, length)| length).collect()
}

/// FNV-1a over whole tokens.
fn hash(window: &[u32]) -> u64 {
    window.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &token| {
        (hash ^ u64::from(token)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    })
}

/// The stretch `first..last` of positions that best equal those `length` later.
fn longest_repeat(tokens: &[u32], length: usize) -> Option<(usize, usize)> {
    let (mut score, mut begin) = (0i64, 0);
    let mut best = (0i64, 0, 0);
    for (index, (token, later)) in tokens.iter().zip(tokens.get(length..)?).enumerate() {
        if token == later {
            score += 1;
            if score > best.0 {
                best = (score, begin, index + 1);
            }
        } else {
            score -= MISMATCH;
            if score <= 0 {
                (score, begin) = (0, index + 1);
            }
        }
    }
    (best.0 > 0).then_some((best.1, best.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(layers: u32) -> Vec<u32> {
        let mut tokens = vec![100, 101];
        for _ in 0..layers {
            tokens.extend([1, 2, 3, 4, 5]);
        }
        tokens.extend([200, 201]);
        for _ in 0..layers {
            tokens.extend([5, 6, 7]);
        }
        tokens
    }

    #[test]
    fn steps_are_found_not_the_layers_inside_them() {
        let one = step(24);
        let tokens: Vec<u32> = std::iter::repeat_n(one.clone(), 4).flatten().collect();
        let found = find(&tokens).unwrap();
        assert_eq!(found.length, one.len());
        assert_eq!((found.first, found.end), (0, tokens.len()));
    }

    #[test]
    fn a_first_step_that_differs_is_left_out() {
        let one = step(6);
        let mut tokens = vec![9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
        tokens.extend(&one);
        tokens.extend([300, 301, 302, 303]);
        let begin = tokens.len();
        for _ in 0..3 {
            tokens.extend(&one);
            tokens.extend([400]);
        }
        let found = find(&tokens).unwrap();
        assert_eq!(found.length, one.len() + 1);
        assert!(found.first <= begin && found.end >= tokens.len() - 1);
    }

    #[test]
    fn what_never_repeats_has_no_period() {
        assert_eq!(find(&(0..500).collect::<Vec<u32>>()), None);
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[1, 2]), None);
    }
}
