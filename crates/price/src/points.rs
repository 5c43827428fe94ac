//! Interpolation between scattered measurements over three sizes, by inverse distance weighting.

/// The exponent of the distance.
const POWER: i32 = 4;
/// Added to squared distances, in base-2 logarithms of sizes, so that a measured point does not divide by zero.
const SOFTENING: f64 = 0.01;

/// Costs per unit of work, forward and backward, by three sizes; sizes and costs as base-2 logarithms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Points(Vec<([f64; 3], [f64; 2])>);

impl Points {
    /// Adds a measurement: costs per unit, forward and backward.
    pub fn push(&mut self, sizes: [f64; 3], costs: [f64; 2]) {
        self.0.push((sizes.map(|size| size.max(1.0).log2()), costs.map(f64::log2)));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest first size that was measured with the other two sizes, or with those nearest to them.
    pub fn largest_near(&self, others: [f64; 2]) -> f64 {
        let others = others.map(|size| size.max(1.0).log2());
        let distance = |known: &[f64; 3]| (known[1] - others[0]).powi(2) + (known[2] - others[1]).powi(2);
        let nearest = self.0.iter().map(|(known, _)| distance(known)).fold(f64::INFINITY, f64::min);
        let near = self.0.iter().filter(|(known, _)| distance(known) <= nearest);
        near.map(|(known, _)| known[0]).fold(0.0, f64::max).exp2()
    }

    /// The costs per unit at these sizes: the weighted mean of all points.
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
    fn the_largest_size_is_that_of_the_points_with_the_nearest_other_sizes() {
        let mut points = Points::default();
        for sizes in [[64.0, 64.0, 64.0], [512.0, 64.0, 64.0], [4096.0, 512.0, 64.0]] {
            points.push(sizes, [1.0, 1.0]);
        }
        assert!((points.largest_near([70.0, 60.0]) - 512.0).abs() < 1e-9);
        assert!((points.largest_near([400.0, 60.0]) - 4096.0).abs() < 1e-9);
    }

    #[test]
    fn a_measured_point_gives_about_its_own_costs_and_a_midpoint_the_mean() {
        let mut points = Points::default();
        points.push([64.0, 64.0, 64.0], [1.0, 2.0]);
        points.push([4096.0, 64.0, 64.0], [4.0, 8.0]);
        let [forward, backward] = points.at([64.0, 64.0, 64.0]);
        assert!((forward - 1.0).abs() < 1e-3 && (backward - 2.0).abs() < 1e-3);
        let [forward, backward] = points.at([512.0, 64.0, 64.0]);
        assert!((forward - 2.0).abs() < 1e-9 && (backward - 4.0).abs() < 1e-9);
    }
}
