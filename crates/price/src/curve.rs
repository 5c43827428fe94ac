//! Interpolation of kernel times over one size.

/// Microseconds by number of elements, both as base-2 logarithms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curve(Vec<(f64, f64)>);

impl Curve {
    /// From pairs of (elements, microseconds), ordered by elements.
    pub fn new(pairs: impl IntoIterator<Item = (f64, f64)>) -> Curve {
        Curve(pairs.into_iter().map(|(elements, time)| (elements.log2(), time.max(0.01).log2())).collect())
    }

    /// The time at the smallest measured size: the kernel's minimum.
    pub fn min(&self) -> f64 {
        self.0.first().map_or(0.0, |&(_, time)| time.exp2())
    }

    /// The time at a number of elements: constant below the smallest measured size, proportional to the size above the
    /// largest.
    pub fn at(&self, elements: f64) -> f64 {
        let (Some(&(smallest, first)), Some(&(largest, last))) = (self.0.first(), self.0.last()) else { return 0.0 };
        let size = elements.max(1.0).log2();
        if size <= smallest {
            return first.exp2();
        }
        if size >= largest {
            return (last + size - largest).exp2();
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
    fn times_are_interpolated_between_sizes_and_extrapolated_in_proportion() {
        let curve = Curve::new([(1024.0, 2.0), (4096.0, 2.0), (65536.0, 32.0)]);
        assert!((curve.at(16.0) - 2.0).abs() < 1e-9);
        assert!((curve.at(16384.0) - 8.0).abs() < 1e-9);
        assert!((curve.at(131_072.0) - 64.0).abs() < 1e-9);
        assert!((Curve::default().at(5.0)).abs() < 1e-9);
    }
}
