//! Operators that are shown as the calls inside them.

mod pad;

use super::flatten::FlatCall;
use crate::dtype::Dtype;
use crate::model::{Argument, Size, TensorId};
pub(super) use pad::pad;

/// What opening an operator needs of whoever builds the calls.
pub(super) trait Workshop {
    /// An operator's number and its arguments where none is given.
    fn operator(&mut self, name: &str) -> (u32, Vec<Argument>);
    /// A call's argument of this name.
    fn argument(&self, call: &FlatCall, name: &str) -> Option<Argument>;
    fn shape(&self, tensor: TensorId) -> Vec<Size>;
    fn dtype(&self, tensor: TensorId) -> Dtype;
    /// A new contiguous tensor.
    fn make(&mut self, shape: Vec<Size>, dtype: Dtype) -> TensorId;
    /// A new view of a part of a tensor, with that one's strides.
    fn make_part(&mut self, of: TensorId, shape: Vec<Size>) -> TensorId;
    /// The type of a matrix product of tensors of this type, as autocast has it.
    fn product_dtype(&self, dtype: Dtype) -> Dtype;
    fn set_dtype(&mut self, tensor: TensorId, dtype: Dtype);
}

/// `cross_entropy_loss` as a `log_softmax` in its argument's type and an `nll_loss`.
pub(super) fn cross_entropy(workshop: &mut impl Workshop, call: &FlatCall) -> Option<Vec<FlatCall>> {
    let Argument::Tensor(logits) = call.arguments[0] else { return None };
    let Argument::Tensor(target) = call.arguments[1] else { return None };
    let shape = workshop.shape(logits);
    let is_classes = matches!(workshop.dtype(target), Dtype::Int64 | Dtype::Uint8);
    let is_smooth = workshop.argument(call, "label_smoothing") != Some(Argument::Float(0.0));
    let loss = match shape.len() {
        2 => "aten.nll_loss.default",
        4 => "aten.nll_loss2d.default",
        _ => return None,
    };
    if !is_classes || is_smooth {
        return None;
    }
    let dtype = workshop.dtype(logits);
    let chances = workshop.make(shape, dtype);
    let (softmax, mut arguments) = workshop.operator("aten.log_softmax.int");
    arguments[0] = Argument::Tensor(logits);
    arguments[1] = Argument::Int(Size::Known(1));
    arguments[2] = Argument::Dtype(dtype);
    let first =
        FlatCall { operator: softmax, arguments, results: vec![Some(chances)], place: call.place, is_by_method: false };
    let (operator, mut arguments) = workshop.operator(loss);
    arguments[0] = Argument::Tensor(chances);
    arguments[1] = Argument::Tensor(target);
    for (at, name) in [(2, "weight"), (3, "reduction"), (4, "ignore_index")] {
        arguments[at] = workshop.argument(call, name)?;
    }
    for result in call.results.iter().flatten() {
        workshop.set_dtype(*result, Dtype::Float32);
    }
    let second =
        FlatCall { operator, arguments, results: call.results.clone(), place: call.place, is_by_method: false };
    Some(vec![first, second])
}

/// The one letter, if there is any; `None` where there are several.
fn only(letters: Vec<char>) -> Option<Option<char>> {
    (letters.len() <= 1).then(|| letters.first().copied())
}

/// `einsum` of two tensors that agree in several indices of the result: a product of stacks of matrices. `factors` are the two, with
/// their letters and which of them stand for rows and columns.
fn product(
    workshop: &mut impl Workshop,
    call: &FlatCall,
    batches: &[char],
    factors: [(TensorId, &[char], [char; 2]); 2],
    output: &[char],
) -> Option<Vec<FlatCall>> {
    let [Some(result)] = call.results[..] else { return None };
    let places = |wanted: &[char], letters: &[char]| -> Option<Vec<usize>> {
        let places = wanted.iter().map(|letter| letters.iter().position(|it| it == letter));
        places.collect::<Option<Vec<usize>>>().filter(|places| places.len() == letters.len())
    };
    let permute = |workshop: &mut dyn FnMut(&str) -> (u32, Vec<Argument>), from, places: &[usize], to| {
        let (operator, mut arguments) = workshop("aten.permute.default");
        let order = places.iter().map(|&place| Argument::Int(Size::Known(place as i64))).collect();
        arguments.splice(..2, [Argument::Tensor(from), Argument::List(order)]);
        FlatCall { operator, arguments, results: vec![Some(to)], place: call.place, is_by_method: false }
    };
    let dtype = workshop.dtype(factors[0].0);
    let mut parts = Vec::new();
    let mut sides = Vec::new();
    let mut shape = Vec::new();
    for (side, (tensor, letters, matrix)) in factors.into_iter().enumerate() {
        let wanted: Vec<char> = batches.iter().copied().chain(matrix).collect();
        let places = places(&wanted, letters)?;
        let sizes = workshop.shape(tensor);
        let turned: Vec<Size> = places.iter().map(|&place| sizes[place]).collect();
        match side {
            0 => shape.clone_from(&turned),
            _ => shape.splice(shape.len() - 1.., turned.last().copied()).for_each(drop),
        }
        let permuted = workshop.make(turned, dtype);
        parts.push(permute(&mut |name| workshop.operator(name), tensor, &places, permuted));
        sides.push(Argument::Tensor(permuted));
    }
    let dtype = workshop.product_dtype(dtype);
    let made = workshop.make(shape, dtype);
    let (operator, mut arguments) = workshop.operator("aten.matmul.default");
    arguments.splice(..2, sides);
    parts.push(FlatCall { operator, arguments, results: vec![Some(made)], place: call.place, is_by_method: false });
    let letters: Vec<char> = batches.iter().copied().chain([factors[0].2[0], factors[1].2[1]]).collect();
    let places = places(output, &letters)?;
    workshop.set_dtype(result, dtype);
    parts.push(permute(&mut |name| workshop.operator(name), made, &places, result));
    Some(parts)
}

/// `einsum` of two tensors as the matrix product inside it, where each kind of index occurs at most once, or all but those of
/// the batch exactly once.
pub(super) fn einsum(workshop: &mut impl Workshop, call: &FlatCall) -> Option<Vec<FlatCall>> {
    let Argument::Text(equation) = &call.arguments[0] else { return None };
    let Argument::List(operands) = &call.arguments[1] else { return None };
    let [Argument::Tensor(left), Argument::Tensor(right)] = operands[..] else { return None };
    let [Some(result)] = call.results[..] else { return None };
    let (inputs, output) = equation.split_once("->")?;
    let (one, two) = inputs.split_once(',')?;
    let letters = |text: &str| -> Vec<char> { text.chars().filter(|it| !it.is_whitespace()).collect() };
    let (one, two, output) = (letters(one), letters(two), letters(output));
    let shapes = (workshop.shape(left), workshop.shape(right));
    if one.len() != shapes.0.len() || two.len() != shapes.1.len() {
        return None;
    }
    let those = |belongs: &dyn Fn(char) -> bool, from: &[char]| -> Vec<char> {
        from.iter().copied().filter(|it| belongs(*it)).collect()
    };
    let batches = those(&|it| one.contains(&it) && two.contains(&it), &output);
    let summed = only(those(&|it| two.contains(&it) && !output.contains(&it), &one))?;
    let rows = only(those(&|it| !two.contains(&it) && output.contains(&it), &one))?;
    let columns = only(those(&|it| !one.contains(&it) && output.contains(&it), &two))?;
    if batches.len() > 1 {
        let factors = [(left, &one[..], [rows?, summed?]), (right, &two[..], [summed?, columns?])];
        return product(workshop, call, &batches, factors, &output);
    }
    let batch = batches.first().copied();
    let count = |kinds: &[Option<char>]| kinds.iter().flatten().count();
    if count(&[batch, rows, summed]) != one.len() || count(&[batch, summed, columns]) != two.len() {
        return None;
    }
    let size = |letter: Option<char>| match letter {
        None => Size::Known(1),
        Some(letter) => match one.iter().position(|it| *it == letter) {
            Some(at) => shapes.0[at],
            None => two.iter().position(|it| *it == letter).map_or(Size::Known(1), |at| shapes.1[at]),
        },
    };
    let dtype = workshop.dtype(left);
    let mut parts = Vec::new();
    let mut make = |workshop: &mut dyn FnMut(&str) -> (u32, Vec<Argument>),
                    name: &str,
                    arguments: Vec<Argument>,
                    result: TensorId| {
        let (operator, mut all) = workshop(name);
        all.splice(..arguments.len(), arguments);
        parts.push(FlatCall {
            operator,
            arguments: all,
            results: vec![Some(result)],
            place: call.place,
            is_by_method: false,
        });
    };
    let ints = |sizes: &[Size]| Argument::List(sizes.iter().map(|size| Argument::Int(*size)).collect());
    let mut sides = Vec::new();
    for (tensor, letters, wanted) in [(left, &one, [batch, rows, summed]), (right, &two, [batch, summed, columns])] {
        let order: Vec<Size> = (wanted.iter().flatten())
            .filter_map(|letter| letters.iter().position(|it| it == letter).map(|at| Size::Known(at as i64)))
            .collect();
        let turned: Vec<Size> = wanted.iter().flatten().map(|letter| size(Some(*letter))).collect();
        let permuted = workshop.make(turned, dtype);
        make(
            &mut |name| workshop.operator(name),
            "aten.permute.default",
            vec![Argument::Tensor(tensor), ints(&order)],
            permuted,
        );
        let flat: Vec<Size> = wanted.iter().map(|letter| size(*letter)).collect();
        let shaped = workshop.make(flat.clone(), dtype);
        make(
            &mut |name| workshop.operator(name),
            "aten.reshape.default",
            vec![Argument::Tensor(permuted), ints(&flat)],
            shaped,
        );
        sides.push(shaped);
    }
    let dtype = workshop.product_dtype(dtype);
    let product = workshop.make(vec![size(batch), size(rows), size(columns)], dtype);
    let factors = sides.into_iter().map(Argument::Tensor).collect();
    make(&mut |name| workshop.operator(name), "aten.bmm.default", factors, product);
    let kept: Vec<char> = [batch, rows, columns].into_iter().flatten().collect();
    let sizes: Vec<Size> = kept.iter().map(|letter| size(Some(*letter))).collect();
    let shaped = workshop.make(sizes.clone(), dtype);
    make(
        &mut |name| workshop.operator(name),
        "aten.view.default",
        vec![Argument::Tensor(product), ints(&sizes)],
        shaped,
    );
    let order: Vec<Size> = (output.iter())
        .filter_map(|letter| kept.iter().position(|it| it == letter).map(|at| Size::Known(at as i64)))
        .collect();
    workshop.set_dtype(result, dtype);
    make(
        &mut |name| workshop.operator(name),
        "aten.permute.default",
        vec![Argument::Tensor(shaped), ints(&order)],
        result,
    );
    Some(parts)
}
