//! Which part of the flat weights each rank updates.

/// The weights of a model in one flat tensor, cut into equal parts.
#[derive(Debug)]
pub(super) struct Partitions {
    /// Where each weight begins.
    starts: Vec<i64>,
    sizes: Vec<i64>,
    /// Elements of a part.
    pub size: i64,
    /// Elements that are added so that the parts are equal.
    pub padding: i64,
}

/// Parts begin at multiples of so many elements: NCCL wants 4 bytes, an element has at least 2.
const ALIGNMENT: i64 = 2;

impl Partitions {
    /// Weights of these sizes over so many ranks.
    pub fn new(sizes: Vec<i64>, world: u32) -> Partitions {
        let mut total = 0;
        let starts = sizes
            .iter()
            .map(|size| {
                total += size;
                total - size
            })
            .collect();
        let multiple = ALIGNMENT * i64::from(world);
        let padding = (multiple - total % multiple) % multiple;
        Partitions { starts, sizes, size: (total + padding) / i64::from(world), padding }
    }

    /// Elements of the flat tensor.
    pub fn total(&self) -> i64 {
        self.sizes.iter().sum::<i64>() + self.padding
    }

    /// Whether the first rank updates any of a weight.
    pub fn is_first(&self, weight: usize) -> bool {
        self.starts[weight] < self.size
    }

    /// The weights of which the first rank updates any.
    pub fn first(&self) -> impl Iterator<Item = usize> {
        (0..self.sizes.len()).filter(|&weight| self.is_first(weight))
    }

    /// How many of a weight's elements the first rank updates.
    pub fn elements_in_first(&self, weight: usize) -> i64 {
        self.sizes[weight].min(self.size - self.starts[weight])
    }

    /// Elements of the weights of which the first rank updates any, the rest of the last one included.
    pub fn first_elements(&self) -> i64 {
        self.first().map(|weight| self.sizes[weight]).sum()
    }

    /// The elements of the pieces that these gradients are reduced in: neighbours that go to the same rank are one.
    pub fn pieces(&self, weights: &[usize]) -> Vec<i64> {
        let mut pieces = Vec::new();
        let mut before = None;
        for &weight in weights {
            let (mut start, end) = (self.starts[weight], self.starts[weight] + self.sizes[weight]);
            while start < end {
                let rank = start / self.size;
                let piece = end.min((rank + 1) * self.size) - start;
                start += piece;
                match pieces.last_mut().filter(|_| before == Some(rank)) {
                    Some(last) => *last += piece,
                    None => pieces.push(piece),
                }
                before = Some(rank);
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_and_a_weight_may_belong_to_two_ranks() {
        let parts = Partitions::new(vec![6, 4, 3], 2);
        assert_eq!((parts.padding, parts.size, parts.total()), (3, 8, 16));
        assert_eq!(parts.first().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(parts.first_elements(), 10);
    }

    #[test]
    fn neighbours_of_one_rank_are_reduced_in_one_piece() {
        let parts = Partitions::new(vec![6, 4, 3], 2);
        assert_eq!(parts.pieces(&[2]), [3]);
        assert_eq!(parts.pieces(&[1]), [2, 2]);
        assert_eq!(parts.pieces(&[0, 1, 2]), [8, 5]);
        assert_eq!(parts.pieces(&[2, 1, 0]), [3, 2, 2, 6], "a weight's parts go to the ranks in order");
        assert!(parts.pieces(&[]).is_empty());
    }
}
