//! What it costs to split a tile.

use vramfit_graph::dtype::Dtype;

/// What each level of adding parts up costs, in iterations. Derived from the numbers of parts that cuDNN takes.
pub(super) fn cost_of_a_level(dtype: Dtype, tile: usize, has_whole_tiles: bool) -> f64 {
    let by_tile: &[(usize, f64)] = match (dtype, has_whole_tiles) {
        (Dtype::Float16, false) => &[
            (0, 7.25),
            (1, 8.5),
            (3, 5.75),
            (4, 7.5),
            (5, 13.0),
            (6, 5.75),
            (7, 8.5),
            (9, 7.0),
            (18, 5.75),
            (20, 10.75),
        ],
        (Dtype::Float16, true) => &[
            (0, 5.0),
            (1, 9.0),
            (3, 1.25),
            (4, 3.25),
            (5, 5.0),
            (6, 3.0),
            (7, 3.25),
            (9, 4.75),
            (16, 6.75),
            (18, 3.0),
            (20, 6.25),
        ],
        (Dtype::Bfloat16, false) => {
            &[(0, 51.0), (1, 68.0), (3, 45.0), (4, 55.0), (5, 98.0), (6, 50.0), (7, 68.0), (9, 52.0)]
        }
        (Dtype::Bfloat16, true) => {
            &[(0, 32.0), (1, 32.0), (3, 26.0), (4, 43.0), (5, 42.0), (6, 25.0), (7, 34.0), (9, 25.0)]
        }
        (_, false) => &[(0, 14.25), (1, 17.0), (3, 11.5), (4, 11.75), (5, 24.0), (7, 17.0), (9, 14.5)],
        (_, true) => &[(0, 6.5), (1, 7.5), (3, 5.0), (4, 7.25), (5, 10.25), (7, 3.75), (9, 7.5)],
    };
    by_tile.iter().find(|(number, _)| *number == tile).map_or(by_tile[0].1, |(_, cost)| *cost)
}
