//! Constant folding: the values of small integer tensors that depend on sizes alone, such as attention masks, at small
//! sizes.

use super::flatten::{Flat, FlatCall, Item};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Size, TensorId};

/// Tensors with more elements than this are not folded.
const ELEMENT_LIMIT: usize = 1 << 17;

/// A tensor's numbers, in row-major order; truth values are 0 and 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<i64>,
    /// Whether they depend on what is assumed of an input.
    pub(super) is_assumed: bool,
}

/// The numbers of each of a graph's tensors, where they are known. `symbols` are the symbols' values, and `ones` the inputs
/// that are taken to be full of ones.
pub(super) fn fold(flat: &Flat, symbols: &[i64], ones: &[TensorId]) -> Vec<Option<Numbers>> {
    let mut known: Vec<Option<Numbers>> = vec![None; flat.values.len()];
    let folder = Folder { flat, symbols };
    for tensor in ones {
        let shape = folder.shape(&flat.values[tensor.0 as usize].shape);
        known[tensor.0 as usize] = shape.and_then(|shape| filled(shape, 1, true));
    }
    for item in &flat.items {
        let Item::Call(call) = item else { continue };
        let [Some(result)] = call.results[..] else { continue };
        let value = &flat.values[result.0 as usize];
        let is_whole = matches!(value.dtype, Dtype::Bool | Dtype::Int64 | Dtype::Int32);
        if is_whole && known[result.0 as usize].is_none() {
            let found = folder.call(call, &known).filter(|found| {
                // A result of another shape than the file's was not understood.
                folder.shape(&value.shape).is_some_and(|shape| shape == found.shape)
            });
            known[result.0 as usize] = found;
        }
    }
    known
}

fn filled(shape: Vec<usize>, value: i64, is_assumed: bool) -> Option<Numbers> {
    let count = count(&shape)?;
    Some(Numbers { shape, values: vec![value; count], is_assumed })
}

fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size)).filter(|count| *count <= ELEMENT_LIMIT)
}

struct Folder<'a> {
    flat: &'a Flat<'a>,
    symbols: &'a [i64],
}

impl Folder<'_> {
    fn size(&self, size: Size) -> Option<i64> {
        match size {
            Size::Known(value) => Some(value),
            Size::Symbolic(id) => self.flat.sizes.expressions[id.0 as usize].evaluate(self.symbols).ok(),
        }
    }

    fn shape(&self, sizes: &[Size]) -> Option<Vec<usize>> {
        sizes.iter().map(|size| self.size(*size).and_then(|size| usize::try_from(size).ok())).collect()
    }

    fn call(&self, call: &FlatCall, known: &[Option<Numbers>]) -> Option<Numbers> {
        let name = self.flat.operators.name(call.operator).strip_prefix("aten.")?;
        let base = name.split('.').next()?;
        let arguments = &call.arguments;
        let tensor = |at: usize| match arguments.get(at) {
            Some(Argument::Tensor(tensor)) => known[tensor.0 as usize].clone(),
            _ => None,
        };
        let int = |at: usize| match arguments.get(at) {
            Some(Argument::Int(size)) => self.size(*size),
            Some(Argument::Bool(value)) => Some(i64::from(*value)),
            Some(Argument::Float(value)) if value.fract() == 0.0 => Some(*value as i64),
            _ => None,
        };
        // A larger number is the width of a window, which has no effect at sizes as small as these.
        let near = |at: usize| int(at).filter(|value| (-1..=1).contains(value));
        let moved = |at: usize| tensor(at).or_else(|| near(at).and_then(|value| filled(Vec::new(), value, false)));
        let other = |at: usize| tensor(at).or_else(|| int(at).and_then(|value| filled(Vec::new(), value, false)));
        let result = self.flat.values[call.results.first().copied()??.0 as usize].clone();
        let shape = self.shape(&result.shape)?;
        Some(match base {
            "arange" => {
                let (start, step) = match name {
                    "arange.default" => (0, 1),
                    "arange.start" => (int(0)?, 1),
                    _ => (int(0)?, int(2)?),
                };
                let length = *shape.first()?;
                count(&shape)?;
                let values = (0..length as i64).map(|at| at.wrapping_mul(step).wrapping_add(start)).collect();
                Numbers { shape, values, is_assumed: false }
            }
            "ones" | "new_ones" | "ones_like" => filled(shape, 1, false)?,
            "zeros" | "new_zeros" | "zeros_like" => filled(shape, 0, false)?,
            "full" => filled(shape, int(1)?, false)?,
            "add" => pairwise(&tensor(0)?, &moved(1)?, |one, two| one.wrapping_add(two))?,
            "sub" => pairwise(&tensor(0)?, &moved(1)?, |one, two| one.wrapping_sub(two))?,
            "mul" => pairwise(&tensor(0)?, &other(1)?, |one, two| one.wrapping_mul(two))?,
            "le" => pairwise(&tensor(0)?, &other(1)?, |one, two| i64::from(one <= two))?,
            "lt" => pairwise(&tensor(0)?, &other(1)?, |one, two| i64::from(one < two))?,
            "ge" => pairwise(&tensor(0)?, &other(1)?, |one, two| i64::from(one >= two))?,
            "gt" => pairwise(&tensor(0)?, &other(1)?, |one, two| i64::from(one > two))?,
            "eq" => pairwise(&tensor(0)?, &other(1)?, |one, two| i64::from(one == two))?,
            "ne" => pairwise(&tensor(0)?, &other(1)?, |one, two| i64::from(one != two))?,
            "__and__" | "bitwise_and" | "logical_and" => pairwise(&tensor(0)?, &other(1)?, |one, two| one & two)?,
            "__or__" | "bitwise_or" | "logical_or" => pairwise(&tensor(0)?, &other(1)?, |one, two| one | two)?,
            "expand" => broadcast(&tensor(0)?, &shape)?,
            "unsqueeze" | "view" | "reshape" | "clone" | "contiguous" | "squeeze" | "alias" => {
                let source = tensor(0)?;
                (count(&shape)? == source.values.len()).then_some(Numbers { shape, ..source })?
            }
            "to" | "_to_copy" => {
                let source = tensor(0)?;
                let values = match result.dtype {
                    Dtype::Bool => source.values.iter().map(|value| i64::from(*value != 0)).collect(),
                    _ => source.values,
                };
                Numbers { values, ..source_shape(source.shape, source.is_assumed) }
            }
            "slice" => self.slice(&tensor(0)?, int(1)?, int(2).unwrap_or(0), int(4).unwrap_or(1), &shape)?,
            "cumsum" => along(&tensor(0)?, int(1)?, |line| {
                let add = |sum: &mut i64, value: &i64| {
                    *sum = sum.wrapping_add(*value);
                    Some(*sum)
                };
                line.iter().scan(0, add).collect()
            })?,
            "diff" if int(1)? == 1 => {
                let joined = join(&tensor(3)?, &tensor(0)?, int(2)?)?;
                along(&joined, int(2)?, |line| line.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect())?
            }
            "index" => index(&tensor(0)?, arguments.get(1)?, known)?,
            _ => return None,
        })
    }

    fn slice(&self, source: &Numbers, dim: i64, start: i64, step: i64, shape: &[usize]) -> Option<Numbers> {
        let dim = wrapped(dim, source.shape.len())?;
        let size = source.shape[dim] as i64;
        let start = if start < 0 { start.saturating_add(size).max(0) } else { start.min(size) };
        along(source, dim as i64, |line| {
            let wanted = shape.get(dim).copied().unwrap_or(0);
            let position = |at: usize| (at as i64).checked_mul(step)?.checked_add(start);
            let value = |at: usize| line.get(usize::try_from(position(at)?).ok()?).copied();
            (0..wanted.min(line.len())).filter_map(value).collect()
        })
    }
}

fn source_shape(shape: Vec<usize>, is_assumed: bool) -> Numbers {
    Numbers { shape, values: Vec::new(), is_assumed }
}

fn wrapped(dim: i64, rank: usize) -> Option<usize> {
    let dim = if dim < 0 { dim + rank as i64 } else { dim };
    usize::try_from(dim).ok().filter(|dim| *dim < rank)
}

fn broadcast(source: &Numbers, shape: &[usize]) -> Option<Numbers> {
    let skipped = shape.len().checked_sub(source.shape.len())?;
    let total = count(shape)?;
    let mut values = Vec::with_capacity(total);
    for number in 0..total {
        let (mut rest, mut at, mut stride) = (number, 0, 1);
        for dim in (0..shape.len()).rev() {
            let position = rest % shape[dim].max(1);
            rest /= shape[dim].max(1);
            if dim >= skipped {
                let size = source.shape[dim - skipped];
                if size != 1 && size != shape[dim] {
                    return None;
                }
                at += if size == 1 { 0 } else { position * stride };
                stride *= size;
            }
        }
        values.push(*source.values.get(at)?);
    }
    Some(Numbers { shape: shape.to_vec(), values, is_assumed: source.is_assumed })
}

fn pairwise(one: &Numbers, two: &Numbers, operation: impl Fn(i64, i64) -> i64) -> Option<Numbers> {
    let rank = one.shape.len().max(two.shape.len());
    let size = |numbers: &Numbers, dim: usize| match (dim + numbers.shape.len()).checked_sub(rank) {
        Some(dim) => numbers.shape[dim],
        None => 1,
    };
    let shape: Vec<usize> =
        (0..rank).map(|dim| if size(one, dim) == 1 { size(two, dim) } else { size(one, dim) }).collect();
    let (left, right) = (broadcast(one, &shape)?, broadcast(two, &shape)?);
    let values = left.values.iter().zip(&right.values).map(|(left, right)| operation(*left, *right)).collect();
    Some(Numbers { shape, values, is_assumed: one.is_assumed || two.is_assumed })
}

/// Applies a function to every line of numbers along a dimension.
fn along(source: &Numbers, dim: i64, change: impl Fn(&[i64]) -> Vec<i64>) -> Option<Numbers> {
    let dim = wrapped(dim, source.shape.len())?;
    let inner: usize = source.shape[dim + 1..].iter().product();
    let outer: usize = source.shape[..dim].iter().product();
    let size = source.shape[dim];
    let mut lines = Vec::with_capacity(outer * inner);
    for line in 0..outer * inner {
        let (block, offset) = (line / inner.max(1), line % inner.max(1));
        let numbers: Vec<i64> = (0..size).map(|at| source.values[(block * size + at) * inner + offset]).collect();
        lines.push(change(&numbers));
    }
    let length = lines.first().map_or(0, Vec::len);
    let mut shape = source.shape.clone();
    shape[dim] = length;
    let mut values = vec![0; outer * length * inner];
    for (number, line) in lines.iter().enumerate() {
        let (block, offset) = (number / inner.max(1), number % inner.max(1));
        for (at, value) in line.iter().enumerate() {
            *values.get_mut((block * length + at) * inner + offset)? = *value;
        }
    }
    Some(Numbers { shape, values, is_assumed: source.is_assumed })
}

/// Two tensors one after the other along a dimension.
fn join(one: &Numbers, two: &Numbers, dim: i64) -> Option<Numbers> {
    let at = wrapped(dim, one.shape.len())?;
    let is_last = at + 1 == one.shape.len() && one.shape.len() == two.shape.len() && one.shape[..at] == two.shape[..at];
    if !is_last {
        return None;
    }
    let mut shape = one.shape.clone();
    shape[at] += two.shape[at];
    let mut values = Vec::with_capacity(one.values.len() + two.values.len());
    for row in 0..one.shape[..at].iter().product::<usize>() {
        values.extend(one.values.get(row * one.shape[at]..(row + 1) * one.shape[at])?);
        values.extend(two.values.get(row * two.shape[at]..(row + 1) * two.shape[at])?);
    }
    Some(Numbers { shape, values, is_assumed: one.is_assumed || two.is_assumed })
}

/// `source[first, second, …]`, with an index for every dimension.
fn index(source: &Numbers, indices: &Argument, known: &[Option<Numbers>]) -> Option<Numbers> {
    let Argument::List(indices) = indices else { return None };
    if indices.len() != source.shape.len() {
        return None;
    }
    let mut positions: Option<Numbers> = None;
    let mut is_assumed = source.is_assumed;
    for (dim, index) in indices.iter().enumerate() {
        let Argument::Tensor(tensor) = index else { return None };
        let index = known[tensor.0 as usize].as_ref()?;
        is_assumed |= index.is_assumed;
        let scale = source.shape[dim] as i64;
        positions = Some(match positions {
            None => index.clone(),
            Some(before) => pairwise(&before, index, |before, index| before.wrapping_mul(scale).wrapping_add(index))?,
        });
    }
    let positions = positions?;
    let values = positions.values.iter().map(|at| source.values.get(usize::try_from(*at).ok()?).copied());
    Some(Numbers { shape: positions.shape.clone(), values: values.collect::<Option<_>>()?, is_assumed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(shape: &[usize], values: &[i64]) -> Numbers {
        Numbers { shape: shape.to_vec(), values: values.to_vec(), is_assumed: false }
    }

    #[test]
    fn shapes_are_broadcast() {
        let row = numbers(&[1, 3], &[0, 1, 2]);
        let column = numbers(&[2, 1], &[1, 0]);
        let found = pairwise(&row, &column, |one, two| i64::from(one <= two)).expect("they fit");
        assert_eq!(found, numbers(&[2, 3], &[1, 1, 0, 1, 0, 0]));
        assert_eq!(pairwise(&row, &numbers(&[2], &[0, 0]), |one, _| one), None);
    }

    #[test]
    fn lines_are_summed_and_joined() {
        let source = numbers(&[2, 2], &[1, 2, 3, 4]);
        let summed = along(&source, -1, |line| vec![line[0], line[0] + line[1]]).expect("it has a last dimension");
        assert_eq!(summed, numbers(&[2, 2], &[1, 3, 3, 7]));
        let joined = join(&numbers(&[2, 1], &[9, 8]), &source, -1).expect("they fit");
        assert_eq!(joined, numbers(&[2, 3], &[9, 1, 2, 8, 3, 4]));
    }
}
