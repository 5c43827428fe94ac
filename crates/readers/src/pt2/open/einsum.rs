//! `einsum`: its operands are given the same dimensions, then multiplied pair by pair.

use std::collections::VecDeque;

use super::{Inside, ONE, Part, Workshop, int, ints, list};
use vramfit_graph::model::{Argument, Size, TensorId};

/// The first letter of the dimensions of an ellipsis; no equation has it.
const ELLIPSIS: u32 = 0xE000;

/// The letters of the operands, and the order of all letters once the operands are aligned.
struct Equation {
    operands: Vec<Vec<char>>,
    /// The letters of the output, then those that are summed.
    order: Vec<char>,
    /// How many letters the output has.
    output: usize,
}

impl Equation {
    /// Reads an equation for operands with so many dimensions; `None` where it does not fit them, or one of them has a letter
    /// twice.
    fn parse(text: &str, ranks: &[usize]) -> Option<Equation> {
        let text: String = text.chars().filter(|it| *it != ' ').collect();
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (&text[..], None),
        };
        let inputs: Vec<&str> = inputs.split(',').collect();
        if inputs.len() != ranks.len() {
            return None;
        }
        let hidden = |input: &str, rank: usize| match input.contains("...") {
            true => rank.checked_sub(input.len() - 3),
            false => (input.len() == rank).then_some(0),
        };
        let counts: Vec<usize> =
            inputs.iter().zip(ranks).map(|(input, rank)| hidden(input, *rank)).collect::<Option<_>>()?;
        let most = counts.iter().copied().max()?;
        let dots = |count: usize| (most - count..most).filter_map(|at| char::from_u32(ELLIPSIS + at as u32));
        let expanded = |input: &str, count: usize| -> Vec<char> {
            match input.split_once("...") {
                Some((before, after)) => before.chars().chain(dots(count)).chain(after.chars()).collect(),
                None => input.chars().collect(),
            }
        };
        let operands: Vec<Vec<char>> = inputs.iter().zip(counts).map(|(input, count)| expanded(input, count)).collect();
        let mut letters: Vec<char> = operands.iter().flatten().copied().filter(char::is_ascii_alphabetic).collect();
        letters.sort_unstable();
        let is_twice = |letters: &[char]| letters.iter().enumerate().any(|(at, it)| letters[..at].contains(it));
        let mut order = match output {
            Some(output) => expanded(output, most),
            None => {
                let once = |letter: &&char| letters.iter().filter(|it| it == letter).count() == 1;
                dots(most).chain(letters.iter().filter(once).copied()).collect()
            }
        };
        let output = order.len();
        for letter in dots(most).chain(letters.iter().copied()) {
            if !order.contains(&letter) {
                order.push(letter);
            }
        }
        let is_known = operands.iter().flatten().all(|it| order.contains(it))
            && order[..output].iter().all(|it| operands.iter().any(|letters| letters.contains(it)));
        let is_plain = is_known && !is_twice(&order) && !operands.iter().any(|letters| is_twice(letters));
        is_plain.then_some(Equation { operands, order, output })
    }
}

/// `einsum` as the views, sums and products inside it.
pub(super) fn einsum<W: Workshop>(mut inside: Inside<'_, W>) -> Option<Vec<Part>> {
    let Some(Argument::Text(text)) = inside.argument("equation") else { return None };
    let Some(Argument::List(operands)) = inside.argument("tensors") else { return None };
    let is_tensor = |it: &Argument| if let Argument::Tensor(tensor) = it { Some(*tensor) } else { None };
    let operands: Vec<TensorId> = operands.iter().map(is_tensor).collect::<Option<_>>()?;
    let mut path = path(&inside)?.into_iter();
    let ranks: Vec<usize> = operands.iter().map(|tensor| inside.shape(*tensor).len()).collect();
    let equation = Equation::parse(&text, &ranks)?;
    let dims = equation.order.len();
    let summed = equation.output..dims;
    let mut aligned = VecDeque::new();
    let is_turned_only = operands.len() == 1 && summed.is_empty();
    for (tensor, letters) in operands.iter().zip(&equation.operands) {
        let (tensor, order) = unsqueezed(&mut inside, *tensor, letters, &equation.order);
        if is_turned_only {
            return inside.end("aten.permute.default", vec![Argument::Tensor(tensor), ints(&order)]);
        }
        aligned.push_back(permuted(&mut inside, tensor, &order));
    }
    let is_wide = |inside: &Inside<'_, W>, tensor: TensorId, dim: usize| inside.shape(tensor)[dim] != ONE;
    // How many operands have each letter still.
    let mut counts: Vec<usize> =
        (0..dims).map(|dim| aligned.iter().filter(|tensor| is_wide(&inside, **tensor, dim)).count()).collect();
    if operands.len() == 1 {
        let dims: Vec<usize> = summed.collect();
        return inside.end("aten.sum.dim_IntList", vec![Argument::Tensor(aligned[0]), ints(&dims)]);
    }
    while aligned.len() > 1 {
        let given = path.next().zip(path.next());
        let (first, second) = given.map_or((0, 1), |(one, other)| (one.min(other), one.max(other)));
        let (right, left) = (aligned.remove(second)?, aligned.remove(first)?);
        let mut sums = [Vec::new(), Vec::new(), Vec::new()];
        for dim in summed.clone() {
            let has = [left, right].map(|tensor| is_wide(&inside, tensor, dim));
            match has {
                [true, true] => {
                    counts[dim] -= 1;
                    if counts[dim] == 1 {
                        sums[2].push(dim);
                        counts[dim] = 0;
                    }
                }
                [false, false] => {}
                [is_left, _] if counts[dim] == 1 => {
                    sums[usize::from(!is_left)].push(dim);
                    counts[dim] = 0;
                }
                _ => {}
            }
        }
        let [alone, other, both] = sums;
        let (left, right) = (reduced(&mut inside, left, &alone), reduced(&mut inside, right, &other));
        let is_end = aligned.is_empty() && summed.is_empty();
        if both.is_empty() {
            let factors = vec![Argument::Tensor(left), Argument::Tensor(right)];
            if is_end {
                return inside.end("aten.mul.Tensor", factors);
            }
            let shape: Vec<Size> = (inside.shape(left).into_iter().zip(inside.shape(right)))
                .map(|(one, other)| if one == ONE { other } else { one })
                .collect();
            let product = inside.add("aten.mul.Tensor", factors, shape);
            put(&mut aligned, product, given.is_some());
            inside.drop(&[left, right]);
            continue;
        }
        let product = multiplied(&mut inside, left, right, &both)?;
        put(&mut aligned, product, given.is_some());
        inside.drop(&[left, right]);
    }
    let product = aligned.pop_front()?;
    let shape: Vec<Size> = inside.shape(product)[..equation.output].to_vec();
    inside.end("aten.view.default", vec![Argument::Tensor(product), list(&shape)])
}

/// Puts a product where the next pair is taken from.
fn put(aligned: &mut VecDeque<TensorId>, product: TensorId, has_path: bool) {
    if has_path { aligned.push_back(product) } else { aligned.push_front(product) }
}

/// The order in which the operands are taken, two numbers for each pair; empty where it is from left to right.
fn path<W: Workshop>(inside: &Inside<'_, W>) -> Option<Vec<usize>> {
    match inside.argument("path") {
        Some(Argument::List(path)) => path
            .iter()
            .map(|it| if let Argument::Int(Size::Known(at)) = it { usize::try_from(*at).ok() } else { None })
            .collect(),
        _ => Some(Vec::new()),
    }
}

/// An operand with dimensions for all letters, and where the dimension of each letter is.
fn unsqueezed<W: Workshop>(
    inside: &mut Inside<'_, W>,
    mut tensor: TensorId,
    letters: &[char],
    order: &[char],
) -> (TensorId, Vec<usize>) {
    let mut dims = letters.len();
    let mut positions = Vec::with_capacity(order.len());
    for letter in order {
        let position = letters.iter().position(|it| it == letter).unwrap_or_else(|| {
            let mut shape = inside.shape(tensor);
            shape.push(ONE);
            let wider = inside.add("aten.unsqueeze.default", vec![Argument::Tensor(tensor), int(dims as i64)], shape);
            inside.drop(&[tensor]);
            tensor = wider;
            dims += 1;
            dims - 1
        });
        positions.push(position);
    }
    (tensor, positions)
}

/// A tensor with its dimensions in another order.
fn permuted<W: Workshop>(inside: &mut Inside<'_, W>, tensor: TensorId, order: &[usize]) -> TensorId {
    let sizes = inside.shape(tensor);
    let shape = order.iter().map(|dim| sizes[*dim]).collect();
    let result = inside.add("aten.permute.default", vec![Argument::Tensor(tensor), ints(order)], shape);
    inside.drop(&[tensor]);
    result
}

/// A factor without the letters that it alone has still.
fn reduced<W: Workshop>(inside: &mut Inside<'_, W>, tensor: TensorId, dims: &[usize]) -> TensorId {
    if dims.is_empty() {
        return tensor;
    }
    let mut shape = inside.shape(tensor);
    dims.iter().for_each(|dim| shape[*dim] = ONE);
    let arguments = vec![Argument::Tensor(tensor), ints(dims), Argument::Bool(true)];
    let result = inside.add("aten.sum.dim_IntList", arguments, shape);
    inside.drop(&[tensor]);
    result
}

/// Two aligned factors as a product of stacks of matrices, summed over these dimensions.
fn multiplied<W: Workshop>(
    inside: &mut Inside<'_, W>,
    left: TensorId,
    right: TensorId,
    summed: &[usize],
) -> Option<TensorId> {
    let (mut left, mut right) = (left, right);
    let dims = inside.shape(left).len();
    let [mut batches, mut rows, mut columns] = [Vec::new(), Vec::new(), Vec::new()];
    for dim in (0..dims).filter(|dim| !summed.contains(dim)) {
        match (inside.shape(left)[dim] != ONE, inside.shape(right)[dim] != ONE) {
            (true, true) => batches.push(dim),
            (true, false) => rows.push(dim),
            (false, _) => columns.push(dim),
        }
    }
    // Where the result has all of the right factor's own dimensions before the left one's, they are swapped.
    if let ([row, ..], [.., column]) = (&rows[..], &columns[..])
        && column < row
    {
        (left, right) = (right, left);
        (rows, columns) = (columns, rows);
    }
    let sizes = |inside: &Inside<'_, W>, tensor: TensorId, dims: &[usize]| -> Vec<Size> {
        let shape = inside.shape(tensor);
        dims.iter().map(|dim| shape[*dim]).collect()
    };
    let (of_batches, of_rows) = (sizes(inside, left, &batches), sizes(inside, left, &rows));
    let (of_columns, of_sums) = (sizes(inside, right, &columns), sizes(inside, left, summed));
    let [batch, row, column, sum] =
        [&of_batches, &of_rows, &of_columns, &of_sums].map(|it| inside.workshop.product(it));
    let (batch, row, column, sum) = (batch?, row?, column?, sum?);
    let side = |inside: &mut Inside<'_, W>, tensor: TensorId, order: [&[usize]; 4], shape: [Size; 3]| {
        let order: Vec<usize> = order.concat();
        let from = inside.shape(tensor);
        let turned: Vec<Size> = order.iter().map(|dim| from[*dim]).collect();
        let turned = inside.add("aten.permute.default", vec![Argument::Tensor(tensor), ints(&order)], turned);
        let flat = inside.add("aten.reshape.default", vec![Argument::Tensor(turned), list(&shape)], shape.to_vec());
        inside.drop(&[turned]);
        flat
    };
    let one = side(inside, left, [&batches, &rows, summed, &columns], [batch, row, sum]);
    let other = side(inside, right, [&batches, summed, &columns, &rows], [batch, sum, column]);
    let factors = vec![Argument::Tensor(one), Argument::Tensor(other)];
    let product = inside.add("aten.bmm.default", factors, vec![batch, row, column]);
    let ones = vec![ONE; summed.len()];
    let apart: Vec<Size> = [of_batches, of_rows, ones, of_columns].concat();
    let seen = inside.add("aten.view.default", vec![Argument::Tensor(product), list(&apart)], apart);
    let order: Vec<usize> = [&batches[..], &rows, summed, &columns].concat();
    let back: Vec<usize> = (0..dims).filter_map(|dim| order.iter().position(|it| *it == dim)).collect();
    let result = permuted(inside, seen, &back);
    inside.drop(&[product, one, other]);
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str, ranks: &[usize]) -> Option<(String, usize)> {
        let equation = Equation::parse(text, ranks)?;
        Some((equation.order.into_iter().filter(char::is_ascii_alphabetic).collect(), equation.output))
    }

    #[test]
    fn letters_are_in_the_order_of_the_output_and_then_of_the_alphabet() {
        assert_eq!(order("b i j, bcj -> bci", &[3, 3]), Some(("bcij".to_owned(), 3)));
        assert_eq!(order("zZa->", &[3]), Some(("Zaz".to_owned(), 0)));
        assert_eq!(order("bij,bcj", &[3, 3]), Some(("cibj".to_owned(), 2)));
        assert_eq!(order("...ij,jk->...ik", &[4, 2]), Some(("ikj".to_owned(), 4)));
    }

    #[test]
    fn an_equation_that_does_not_fit_is_left_whole() {
        assert_eq!(order("bii->bi", &[3]), None);
        assert_eq!(order("ij,jk->ik", &[2]), None);
        assert_eq!(order("ij,jk->il", &[2, 2]), None);
        assert_eq!(order("ij->ji", &[3]), None);
    }
}
