//! The reader of `data/h200.txt`, the measurements on an H200. The file's header describes its lines.

use std::collections::HashMap;
use std::sync::LazyLock;

use vramfit_training::optimizer::{Implementation, Kind};

use crate::curve::Curve;
use crate::grid::Grid;
use crate::points::Points;

const MEASURED: &str = include_str!("../data/h200.txt");

/// The measurements. Malformed lines are skipped; a test checks that there are none.
pub(crate) static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables::read(MEASURED).0);

/// Forward and backward.
pub(crate) type PerPass<T> = [T; 2];

/// Single and half precision.
pub(crate) type PerPrecision<T> = [T; 2];

/// The three matrix products of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    Forward,
    ForInput,
    ForWeight,
}

/// Measured times of a memory-bound kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel(pub PerPrecision<PerPass<Curve>>);

/// The cost of an optimizer step in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OptimizerCost {
    /// CPU, per step.
    pub base: f64,
    /// CPU, per weight tensor.
    pub each: f64,
    /// GPU, per weight tensor.
    pub gpu_each: f64,
    /// GPU, per byte of weights.
    pub gpu_byte: f64,
}

/// All measurements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    kernels: HashMap<String, Kernel>,
    dispatch: HashMap<String, PerPass<f64>>,
    products: [PerPrecision<Grid>; 3],
    /// Time factors of products with an odd size, and with an even size that is no multiple of eight.
    pub unaligned: PerPrecision<[[f64; 2]; 3]>,
    points: HashMap<(String, bool), Points>,
    optimizers: HashMap<(String, String), OptimizerCost>,
    constants: HashMap<String, f64>,
    /// Microseconds of a copy from the host by bytes.
    pub copy: Curve,
    /// Microseconds of a saved tensor by bytes: to pinned memory and back, and to pageable memory and back.
    pub host: [[Curve; 2]; 2],
}

impl Tables {
    /// Parses all lines; also returns the malformed ones.
    pub fn read(text: &str) -> (Tables, Vec<String>) {
        let mut tables = Tables { unaligned: [[[1.0; 2]; 3]; 2], ..Tables::default() };
        let mut malformed = Vec::new();
        let mut axes: [Vec<f64>; 3] = Default::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if tables.read_line(&words, &mut axes).is_none() {
                malformed.push(line.to_owned());
            }
        }
        (tables, malformed)
    }

    fn read_line(&mut self, words: &[&str], axes: &mut [Vec<f64>; 3]) -> Option<()> {
        match words {
            ["kernel", name, dtype, side, pairs @ ..] => {
                let kernel = self.kernels.entry((*name).to_owned()).or_default();
                kernel.0[precision(dtype)?][direction(side)?] = curve(pairs)?;
            }
            ["dispatch", name, forward, backward] => {
                self.dispatch.insert((*name).to_owned(), [forward.parse().ok()?, backward.parse().ok()?]);
            }
            ["axis", name, sizes @ ..] => {
                let axis = ["rows", "inner", "outer"].iter().position(|known| known == name)?;
                axes[axis] = numbers(sizes)?;
            }
            ["product", dtype, name, times @ ..] => {
                let grid = Grid::new(axes.clone(), numbers(times)?)?;
                self.products[product(name)? as usize][precision(dtype)?] = grid;
            }
            ["unaligned", dtype, name, odd, even] => {
                let factors = [odd.parse().ok()?, even.parse().ok()?];
                self.unaligned[precision(dtype)?][product(name)? as usize] = factors;
            }
            ["point", name, dtype, values @ ..] => {
                let [one, two, three, forward, backward] = numbers(values)?.try_into().ok()?;
                let key = ((*name).to_owned(), precision(dtype)? == 1);
                self.points.entry(key).or_default().push([one, two, three], [forward, backward]);
            }
            ["optimizer", kind, implementation, values @ ..] => {
                let [base, each, gpu_each, gpu_byte] = numbers(values)?.try_into().ok()?;
                let cost = OptimizerCost { base, each, gpu_each, gpu_byte };
                self.optimizers.insert(((*kind).to_owned(), (*implementation).to_owned()), cost);
            }
            ["copy", pairs @ ..] => self.copy = curve(pairs)?,
            ["host", memory, to_host, to_gpu] => {
                let memory = ["pinned", "pageable"].iter().position(|known| known == memory)?;
                let pairs = |words: &str| curve(&words.split(',').collect::<Vec<_>>());
                self.host[memory] = [pairs(to_host)?, pairs(to_gpu)?];
            }
            ["constant", name, value] => {
                self.constants.insert((*name).to_owned(), value.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }

    /// Times of a memory-bound kernel.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// CPU microseconds of a call.
    pub fn dispatch(&self, name: &str) -> Option<PerPass<f64>> {
        self.dispatch.get(name).copied()
    }

    /// Times of a matrix product.
    pub fn product(&self, which: Product, is_half: bool) -> &Grid {
        &self.products[which as usize][usize::from(is_half)]
    }

    /// Costs of a family of compute-bound operators.
    pub fn points(&self, name: &str, is_half: bool) -> Option<&Points> {
        self.points.get(&(name.to_owned(), is_half)).filter(|points| !points.is_empty())
    }

    /// The cost of an optimizer step.
    pub fn optimizer(&self, kind: Kind, implementation: Implementation) -> OptimizerCost {
        let name = match (implementation, kind) {
            (Implementation::Fused, _) => "fused",
            (Implementation::ForLoop, _) => "for-loop",
            _ if kind.goes_weight_by_weight() => "for-loop",
            _ => "foreach",
        };
        self.optimizer_part(kind.name(), name)
    }

    /// The cost of an optimizer, of gradient clipping (`clip`) or of a GradScaler (`scaler`).
    pub fn optimizer_part(&self, name: &str, implementation: &str) -> OptimizerCost {
        self.optimizers.get(&(name.to_owned(), implementation.to_owned())).copied().unwrap_or_default()
    }

    /// A single measured time or factor; 0 if it is missing.
    pub fn constant(&self, name: &str) -> f64 {
        self.constants.get(name).copied().unwrap_or(0.0)
    }
}

fn precision(dtype: &str) -> Option<usize> {
    ["float32", "bfloat16"].iter().position(|known| *known == dtype)
}

fn direction(side: &str) -> Option<usize> {
    ["forward", "backward"].iter().position(|known| *known == side)
}

fn product(name: &str) -> Option<Product> {
    match name {
        "forward" => Some(Product::Forward),
        "for_input" => Some(Product::ForInput),
        "for_weight" => Some(Product::ForWeight),
        _ => None,
    }
}

fn numbers(words: &[&str]) -> Option<Vec<f64>> {
    words.iter().map(|word| word.parse().ok()).collect()
}

fn curve(pairs: &[&str]) -> Option<Curve> {
    let pair = |word: &&str| {
        let (size, time) = word.split_once(':')?;
        Some((size.parse().ok()?, time.parse().ok()?))
    };
    Some(Curve::new(pairs.iter().map(pair).collect::<Option<Vec<_>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_the_measurements_is_malformed() {
        let (_, malformed) = Tables::read(MEASURED);
        assert!(malformed.is_empty(), "{malformed:?}");
    }

    #[test]
    fn every_optimizer_has_a_cost_in_its_default_implementation() {
        for (name, kind) in Kind::NAMES.iter().filter(|(_, kind)| *kind != Kind::None) {
            let cost = TABLES.optimizer(*kind, Implementation::Default);
            assert!(cost.each > 0.0 && cost.gpu_byte > 0.0, "{name}: {cost:?}");
        }
    }

    #[test]
    fn larger_products_take_longer_and_half_precision_is_faster() {
        for which in [Product::Forward, Product::ForInput, Product::ForWeight] {
            let time = |size: f64, is_half| TABLES.product(which, is_half).at([size; 3]);
            assert!(time(4096.0, false) > 4.0 * time(2048.0, false));
            assert!(time(4096.0, true) * 3.0 < time(4096.0, false));
        }
    }
}
