//! Costs that depend on three numbers, near measured ones.

/// How fast a measured point's weight falls with its distance.
const POWER: i32 = 4;
/// What is added to squared distances, in doublings, so that a point itself does not divide by zero.
const SOFTENING: f64 = 0.01;

/// Costs for each unit of work, forward and backward, by three sizes; sizes and costs as logarithms of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Points(Vec<([f64; 3], [f64; 2])>);

impl Points {
    /// Adds what was measured at these sizes: costs for each unit, forward and backward.
    pub fn push(&mut self, sizes: [f64; 3], costs: [f64; 2]) {
        self.0.push((sizes.map(|size| size.max(1.0).log2()), costs.map(f64::log2)));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The costs for each unit at these sizes: the mean over all points, the nearest counting most.
    pub fn at(&self, sizes: [f64; 3]) -> [f64; 2] {
        let sizes = sizes.map(|size| size.max(1.0).log2());
        let (mut sums, mut weights) = ([0.0; 2], 0.0);
        for (known, costs) in &self.0 {
            let distance: f64 = known.iter().zip(sizes).map(|(one, other)| (one - other).powi(2)).sum();
            let weight = (distance + SOFTENING).powi(-POWER / 2);
            weights += weight;
            for (sum, cost) in sums.iter_mut().zip(costs) {
                *sum += weight * cost;
            }
        }
        sums.map(|sum| if weights > 0.0 { (sum / weights).exp2() } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::Points;

    #[test]
    fn a_measured_point_gives_nearly_its_own_costs_and_a_point_between_two_their_mean() {
        let mut points = Points::default();
        points.push([64.0, 64.0, 64.0], [1.0, 2.0]);
        points.push([4096.0, 64.0, 64.0], [4.0, 8.0]);
        let [forward, backward] = points.at([64.0, 64.0, 64.0]);
        assert!((forward - 1.0).abs() < 1e-3 && (backward - 2.0).abs() < 1e-3);
        let [forward, backward] = points.at([512.0, 64.0, 64.0]);
        assert!((forward - 2.0).abs() < 1e-9 && (backward - 4.0).abs() < 1e-9);
    }
}
