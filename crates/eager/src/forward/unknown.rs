//! What operators without a rule take, and functions whose backward is not in the capture.

use smallvec::SmallVec;
use vramfit_cudnn::Scenario;
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::TensorId;

use crate::autograd::{Backward, Context, Edge, Gradients, Node, Saved, Tensor};
use crate::operators::Call;

/// Bytes of the widest number that a kernel makes of another: an index, or a sum in double precision.
const WIDEST: u64 = 8;
/// How many arrays, each as long as all that an operator reads and writes, it holds for a moment. A sort holds keys and indices,
/// each of them as given, sorted, and in a second buffer.
const HELD: u64 = 6;
/// How many such arrays it keeps for the backward pass beside its inputs and results: a cell of an RNN keeps its gates.
const KEPT: u64 = 2;

/// The upper bound of what an operator without a rule takes for a moment, in bytes for each element that it reads or writes.
pub const SCRATCH: u64 = HELD * WIDEST;

/// What an operator without a rule may take at most (`docs/ranges.md`).
#[derive(Clone, Copy, Debug)]
struct Most {
    /// Bytes for a moment, in the forward and in the backward pass.
    scratch: u64,
    /// Bytes that autograd keeps, beside inputs and results.
    kept: u64,
}

impl Most {
    fn of(name: &str, inputs: &[&Tensor], results: &[Tensor], greatest_number: i64) -> Most {
        let elements = |tensor: &Tensor| tensor.shape().iter().product::<i64>().unsigned_abs();
        let touched = inputs.iter().copied().chain(results).map(elements).fold(0, u64::saturating_add);
        let more = match Kind::of(name) {
            Kind::Plain => 0,
            Kind::Pairs => pairs(inputs).saturating_mul(greatest_number.unsigned_abs().max(1)),
            Kind::Distances => pairs(inputs).saturating_mul(width(inputs)),
            Kind::Columns => columns(inputs, results),
            Kind::Eigenvalues => matrices(inputs).saturating_mul(EIGENVALUES_OF_A_MATRIX.div_ceil(SCRATCH)),
        };
        let scratch = touched.saturating_add(more).saturating_mul(SCRATCH);
        let kept = touched.saturating_mul(KEPT).saturating_add(more).saturating_mul(WIDEST);
        Most { scratch, kept }
    }
}

/// What an operator's name says about its temporary memory.
enum Kind {
    /// As long as its inputs and results.
    Plain,
    /// Scores of each row with each other row.
    Pairs,
    /// The differences of each row with each other row.
    Distances,
    /// What a kernel's window covers, for each element of the result.
    Columns,
    /// cuSOLVER's workspace for each matrix.
    Eigenvalues,
}

impl Kind {
    fn of(name: &str) -> Kind {
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["attention", "attn", "transformer_encoder"]) {
            Kind::Pairs
        } else if has(&["dist"]) {
            Kind::Distances
        } else if has(&["conv", "im2col", "unfold"]) {
            Kind::Columns
        } else if has(&["eig"]) {
            Kind::Eigenvalues
        } else {
            Kind::Plain
        }
    }
}

/// Pairs of rows of one tensor and rows of another (or the same), per image or head; the most of any two.
fn pairs(inputs: &[&Tensor]) -> u64 {
    let rows = |tensor: &Tensor| match tensor.shape() {
        [] | [_] => None,
        [all_rows @ .., _] => Some(all_rows.iter().product::<i64>().unsigned_abs()),
    };
    let last_rows = |tensor: &Tensor| tensor.shape().iter().rev().nth(1).map(|rows| rows.unsigned_abs());
    let most = |find: &dyn Fn(&Tensor) -> Option<u64>| inputs.iter().filter_map(|input| find(input)).max().unwrap_or(0);
    most(&rows).saturating_mul(most(&last_rows))
}

/// Matrices of the input with most of them.
fn matrices(inputs: &[&Tensor]) -> u64 {
    let of = |input: &&Tensor| match input.shape() {
        [batch @ .., _, _] => Some(batch.iter().product::<i64>().unsigned_abs()),
        _ => None,
    };
    inputs.iter().filter_map(of).max().unwrap_or(0)
}

fn width(inputs: &[&Tensor]) -> u64 {
    inputs.iter().filter_map(|input| input.shape().last()).map(|width| width.unsigned_abs()).max().unwrap_or(1)
}

/// For each position of the largest result, what one window of the largest weight covers. A weight has the results' channels first.
fn columns(inputs: &[&Tensor], results: &[Tensor]) -> u64 {
    let positions = results.iter().filter_map(|result| match result.shape() {
        [batch, _, sides @ ..] => Some((batch * sides.iter().product::<i64>()).unsigned_abs()),
        _ => None,
    });
    let windows = inputs.iter().skip(1).filter_map(|input| match input.shape() {
        [_, window @ ..] if window.len() > 1 => Some(window.iter().product::<i64>().unsigned_abs()),
        _ => None,
    });
    positions.max().unwrap_or(0).saturating_mul(windows.max().unwrap_or(0))
}

/// The greatest whole number among the arguments, such as how many heads there are.
fn greatest_number(arguments: &[Value]) -> i64 {
    let numbers = arguments.iter().filter_map(|value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    });
    numbers.filter(|number| (1..MOST_HEADS).contains(number)).max().unwrap_or(1)
}

/// cuSOLVER takes 271,816 bytes for a matrix of 3 × 3, and 35,020,232 for 129 of them.
const EIGENVALUES_OF_A_MATRIX: u64 = 272 << 10;

/// Numbers from here on are no numbers of heads.
const MOST_HEADS: i64 = 257;

/// A function whose backward is not known: it returns a gradient for each input.
#[derive(Debug)]
pub(super) struct Unknown {
    scenario: Scenario,
    scratch: u64,
}

impl Unknown {
    /// Of a function that has these inputs and saves these tensors.
    pub(super) fn function(scenario: Scenario, inputs: &[Option<Tensor>], saved: &Saved) -> Unknown {
        let touched: Vec<&Tensor> = inputs.iter().chain(saved).flatten().collect();
        Unknown { scenario, scratch: Most::of("", &touched, &[], 1).scratch }
    }
}

impl Backward for Unknown {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let is_upper = self.scenario == Scenario::Upper;
        if is_upper {
            context.use_blas_lt();
        }
        let scratch = is_upper.then(|| context.scratch(self.scratch));
        let incoming = gradients.iter().flatten().next().filter(|_| self.scenario == Scenario::Lower).cloned();
        let results = node
            .inputs
            .iter()
            .enumerate()
            .map(|(index, input)| {
                let input = input.as_ref().filter(|_| node.wants(index))?;
                let layout = Layout::contiguous(input.dtype, &input.shape);
                // At least the incoming gradient, expanded, or a new one that is smaller.
                let passed = incoming.as_ref().filter(|given| given.layout().bytes() <= layout.bytes());
                Some(passed.map_or_else(|| context.empty(layout.clone()), |given| given.view(layout.clone())))
            })
            .collect();
        drop(scratch);
        results
    }
}

/// Runs an operator without a rule. One that writes in place returns its first input.
pub(super) fn unmodelled(
    context: &mut Context,
    name: &str,
    call: &Call<'_>,
    is_in_place: bool,
    scenario: Scenario,
) -> SmallVec<[Tensor; 1]> {
    let mut inputs: Vec<Option<&Tensor>> = Vec::new();
    let mut add = |id: TensorId| inputs.push(call.tensors.get(id.0 as usize).and_then(Option::as_ref));
    call.arguments.iter().for_each(|value| value.each_tensor(&mut add));
    let results: SmallVec<[Tensor; 1]> = (0..call.captured.len())
        .filter_map(|index| call.result(index).ok())
        .map(|layout| {
            let shares = is_in_place || call.captured.iter().flatten().any(|captured| captured.is_view);
            match inputs.iter().flatten().next() {
                Some(source) if shares => source.view(layout),
                _ => context.empty(layout),
            }
        })
        .collect();
    let given: Vec<&Tensor> = inputs.iter().flatten().copied().collect();
    let most = Most::of(name, &given, &results, greatest_number(call.arguments));
    let is_only_view = !is_in_place && call.makes_only_views();
    let is_upper = scenario == Scenario::Upper && !is_only_view;
    if is_upper {
        context.use_blas_lt();
        drop(context.scratch(most.scratch));
    }
    let is_recorded = context.is_grad_on() && given.iter().any(|input| input.requires_grad());
    let kept = i64::try_from(most.kept).unwrap_or(i64::MAX);
    let kept = (is_upper && is_recorded).then(|| context.empty_contiguous(Dtype::Uint8, &[kept]));
    let saved = |_: &dyn Fn(usize) -> bool| -> Saved {
        match scenario {
            Scenario::Lower => Saved::new(),
            Scenario::Expected => inputs.iter().map(|input| input.cloned()).collect(),
            Scenario::Upper => {
                let written = results.iter().map(|result| Some(result.detach()));
                inputs.iter().map(|input| input.cloned()).chain(written).chain([kept]).collect()
            }
        }
    };
    let unknown = Unknown { scenario, scratch: if is_only_view { 0 } else { most.scratch } };
    let edge = context.record(&inputs, results.len(), saved, unknown);
    results
        .into_iter()
        .enumerate()
        .map(|(output, result)| {
            let edge = edge.clone().filter(|_| result.dtype().is_differentiable());
            result.with_edge(edge.map(|edge| Edge { output, ..edge }))
        })
        .collect()
}
