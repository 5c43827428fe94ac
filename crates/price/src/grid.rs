//! Interpolation of matrix product times over three sizes.

/// Microseconds by rows, inner and outer size, all as base-2 logarithms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grid {
    axes: [Vec<f64>; 3],
    /// The last axis varies fastest.
    times: Vec<f64>,
}

impl Grid {
    /// From the sizes along each axis and a time for each combination, the last axis varying fastest. `None` if the
    /// numbers do not match.
    pub fn new(axes: [Vec<f64>; 3], times: Vec<f64>) -> Option<Grid> {
        let count: usize = axes.iter().map(Vec::len).product();
        let axes = axes.map(|axis| axis.into_iter().map(f64::log2).collect::<Vec<_>>());
        let times = times.into_iter().map(f64::log2).collect::<Vec<_>>();
        (times.len() == count && axes.iter().all(|axis| axis.len() > 1)).then_some(Grid { axes, times })
    }

    /// The smallest measured time: the minimum of any product.
    pub fn min(&self) -> f64 {
        self.times.iter().copied().fold(f64::INFINITY, f64::min).exp2()
    }

    /// The time of a product of these sizes: along each axis constant below the smallest measured size, proportional to
    /// the size above the largest.
    pub fn at(&self, sizes: [f64; 3]) -> f64 {
        let mut beyond = 0.0;
        let mut cells = [(0, 0.0); 3];
        for ((axis, size), cell) in self.axes.iter().zip(sizes).zip(&mut cells) {
            let (smallest, largest) = (axis[0], axis[axis.len() - 1]);
            let size = size.max(1.0).log2();
            beyond += (size - largest).max(0.0);
            let inside = size.clamp(smallest, largest);
            let left = axis.partition_point(|&known| known <= inside).clamp(1, axis.len() - 1) - 1;
            *cell = (left, (inside - axis[left]) / (axis[left + 1] - axis[left]));
        }
        let (middle, last) = (self.axes[1].len(), self.axes[2].len());
        let mut sum = beyond;
        for corner in 0..8_usize {
            let mut weight = 1.0;
            let mut at = [0; 3];
            for (dim, &(left, share)) in cells.iter().enumerate() {
                let is_right = corner >> dim & 1;
                at[dim] = left + is_right;
                weight *= if is_right == 1 { share } else { 1.0 - share };
            }
            sum += weight * self.times[(at[0] * middle + at[1]) * last + at[2]];
        }
        sum.exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::Grid;

    #[test]
    fn times_are_interpolated_between_sizes_and_extrapolated_in_proportion() {
        let axes = || [vec![2.0, 8.0], vec![2.0, 8.0], vec![2.0, 8.0]];
        let times: Vec<f64> = [1.0, 4.0, 4.0, 16.0, 4.0, 16.0, 16.0, 64.0].into();
        let grid = Grid::new(axes(), times).expect("one time per combination");
        assert!((grid.at([4.0, 4.0, 4.0]) - 8.0).abs() < 1e-9);
        assert!((grid.at([8.0, 8.0, 16.0]) - 128.0).abs() < 1e-9);
        assert!((grid.at([1.0, 1.0, 1.0]) - 1.0).abs() < 1e-9);
        assert_eq!(Grid::new(axes(), vec![1.0]), None);
    }
}
