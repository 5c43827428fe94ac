//! Times that depend on one number, between measured ones.

/// Microseconds by number of elements, both as logarithms of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curve(Vec<(f64, f64)>);

impl Curve {
    /// From pairs of (elements, microseconds), in rising order of elements.
    pub fn new(pairs: impl IntoIterator<Item = (f64, f64)>) -> Curve {
        Curve(pairs.into_iter().map(|(elements, time)| (elements.log2(), time.max(0.01).log2())).collect())
    }

    /// The time of the smallest size measured: what a kernel takes at least.
    pub fn least(&self) -> f64 {
        self.0.first().map_or(0.0, |&(_, time)| time.exp2())
    }

    /// The time at so many elements. Below the smallest size measured a kernel gets no faster; above the largest one, time
    /// grows with the size.
    pub fn at(&self, elements: f64) -> f64 {
        let (Some(&(least, floor)), Some(&(most, top))) = (self.0.first(), self.0.last()) else { return 0.0 };
        let size = elements.max(1.0).log2();
        if size <= least {
            return floor.exp2();
        }
        if size >= most {
            return (top + size - most).exp2();
        }
        let after = self.0.partition_point(|&(known, _)| known < size);
        let ((left, low), (right, high)) = (self.0[after - 1], self.0[after]);
        (low + (high - low) * (size - left) / (right - left)).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::Curve;

    #[test]
    fn times_between_sizes_are_interpolated_and_beyond_them_follow_the_size() {
        let curve = Curve::new([(1024.0, 2.0), (4096.0, 2.0), (65536.0, 32.0)]);
        assert!((curve.at(16.0) - 2.0).abs() < 1e-9);
        assert!((curve.at(16384.0) - 8.0).abs() < 1e-9);
        assert!((curve.at(131_072.0) - 64.0).abs() < 1e-9);
        assert!((Curve::default().at(5.0)).abs() < 1e-9);
    }
}
