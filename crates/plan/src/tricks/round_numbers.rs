//! Round numbers: those with at most four significant bits, such as 96, 104, 112 and 224.

/// The largest round number that is not above `number`.
pub(super) fn rounded(number: i64) -> i64 {
    let bits = i64::BITS - number.leading_zeros();
    let dropped = bits.saturating_sub(4);
    number >> dropped << dropped
}

/// The round numbers below `number`, the largest first: steps of at most an eighth.
pub(super) fn round_numbers_below(number: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(number), |&last| Some(rounded(last - 1))).skip(1).take_while(|&next| next > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_an_eighth_apart_at_most() {
        let below: Vec<i64> = round_numbers_below(256).take(9).collect();
        assert_eq!(below, [240, 224, 208, 192, 176, 160, 144, 128, 120]);
        assert_eq!(round_numbers_below(100).next(), Some(96));
        assert_eq!(round_numbers_below(5).collect::<Vec<_>>(), [4, 3, 2, 1]);
        assert_eq!([rounded(1023), rounded(93), rounded(16), rounded(1)], [960, 88, 16, 1]);
    }
}
