//! What was measured on an H200: the reader of `data/h200.txt`, whose head says what each line holds.

use std::collections::HashMap;
use std::sync::LazyLock;

use vramfit_training::optimizer::{Implementation, Kind};

use crate::curve::Curve;
use crate::grid::Grid;
use crate::points::Points;

const MEASURED: &str = include_str!("../data/h200.txt");

/// The tables; a line that cannot be read is left out, and a test sees to it that there is none.
pub(crate) static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables::read(MEASURED).0);

/// Forward, and backward.
pub(crate) type Both<T> = [T; 2];

/// Single precision, and half.
pub(crate) type Precisions<T> = [T; 2];

/// The three products of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    Forward,
    ForInput,
    ForWeight,
}

/// What was measured of a kernel that moves memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel(pub Precisions<Both<Curve>>);

/// What a step of an optimizer costs, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OptimizerCost {
    /// On the CPU, whatever the weights.
    pub base: f64,
    /// On the CPU, for each weight.
    pub each: f64,
    /// On the GPU, for each weight.
    pub gpu_each: f64,
    /// On the GPU, for each byte of the weights.
    pub gpu_byte: f64,
}

/// All tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    kernels: HashMap<String, Kernel>,
    dispatch: HashMap<String, Both<f64>>,
    products: [Precisions<Grid>; 3],
    /// How much slower products are whose rows are not whole groups of eight, and of two.
    pub unaligned: Precisions<[[f64; 2]; 3]>,
    points: HashMap<(String, bool), Points>,
    optimizers: HashMap<(String, String), OptimizerCost>,
    constants: HashMap<String, f64>,
    /// Microseconds of a copy from the host, by bytes.
    pub copy: Curve,
}

impl Tables {
    /// Reads the lines; the second part is those that cannot be read.
    pub fn read(text: &str) -> (Tables, Vec<String>) {
        let mut tables = Tables { unaligned: [[[1.0; 2]; 3]; 2], ..Tables::default() };
        let mut unread = Vec::new();
        let mut axes: [Vec<f64>; 3] = Default::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if tables.read_line(&words, &mut axes).is_none() {
                unread.push(line.to_owned());
            }
        }
        (tables, unread)
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
            ["constant", name, value] => {
                self.constants.insert((*name).to_owned(), value.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }

    /// The curves of a kernel.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// Microseconds of the CPU, forward and backward.
    pub fn dispatch(&self, name: &str) -> Option<Both<f64>> {
        self.dispatch.get(name).copied()
    }

    /// The times of a product.
    pub fn product(&self, which: Product, is_half: bool) -> &Grid {
        &self.products[which as usize][usize::from(is_half)]
    }

    /// The costs of a family of operators that compute.
    pub fn points(&self, name: &str, is_half: bool) -> Option<&Points> {
        self.points.get(&(name.to_owned(), is_half)).filter(|points| !points.is_empty())
    }

    /// What a step of an optimizer costs.
    pub fn optimizer(&self, kind: Kind, implementation: Implementation) -> OptimizerCost {
        let name = match (implementation, kind) {
            (Implementation::Fused, _) => "fused",
            (Implementation::ForLoop, _) | (_, Kind::Adafactor) => "for-loop",
            _ => "foreach",
        };
        self.optimizer_part(kind.name(), name)
    }

    /// What clipping or a scaler adds to a step.
    pub fn optimizer_part(&self, name: &str, implementation: &str) -> OptimizerCost {
        self.optimizers.get(&(name.to_owned(), implementation.to_owned())).copied().unwrap_or_default()
    }

    /// A single number.
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
    fn every_line_of_the_measurements_is_read() {
        let (_, unread) = Tables::read(MEASURED);
        assert!(unread.is_empty(), "{unread:?}");
    }

    #[test]
    fn every_optimizer_has_a_cost_in_what_torch_chooses_for_it() {
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
