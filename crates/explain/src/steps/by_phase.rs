//! Steps by forward and backward passes.
//!
//! Between two backward passes is a stretch: the end of one step and the beginning of the next. Stretches are compared as
//! sequences of call sites, so that neither sizes nor what happens inside the model matters. In most of them only the
//! loop's own lines ran. Where something else ran too (building the model, an evaluation), the part they have in common,
//! counted back from the backward pass, is the step's beginning.

use std::collections::HashMap;

use vramfit_trace::snapshot::FrameId;

use super::Step;
use crate::history::{History, OUTSIDE, number};
use crate::origin::{Activity, SiteId};
use crate::phases::{Phases, Span};

/// An activity at a call site.
type Token = (Activity, SiteId);

/// The spans before a backward pass, since the last one.
struct Stretch<'a> {
    spans: &'a [Span],
    backward: &'a Span,
}

impl Stretch<'_> {
    fn tokens(&self) -> impl DoubleEndedIterator<Item = Token> + Clone + '_ {
        self.spans.iter().map(|span| (span.activity, span.site))
    }

    /// Which loop it belongs to: the call site right before the backward pass.
    fn cluster(&self) -> Option<Token> {
        self.tokens().next_back()
    }

    /// How many leading spans are the optimizer's, which belong to the step before.
    fn optimizer_spans(&self) -> usize {
        self.spans.iter().rposition(|span| span.activity == Activity::Optimizer).map_or(0, |last| {
            let is_before_forward = self.spans[..last].iter().all(|span| span.activity != Activity::Forward);
            if is_before_forward { last + 1 } else { 0 }
        })
    }
}

/// The steps that were found.
pub struct Found {
    /// The steps.
    pub list: Vec<Step>,
    /// How many backward passes make one.
    pub passes: usize,
    /// The first event of the step in which the recording ends.
    pub unfinished: Option<u32>,
}

/// Whether two lines are in one function.
pub type SameFunction<'a> = &'a dyn Fn(FrameId, FrameId) -> bool;

/// The steps by forward and backward passes. `optimizer` are the events before which a step of the optimizer is marked as
/// ended, in order.
pub fn steps(history: &History, phases: &Phases, optimizer: &[u32], is_same_function: SameFunction<'_>) -> Found {
    let (stretches, tail) = cut(&phases.spans);
    let shapes = shapes(&stretches, is_same_function);
    let mut passes: Vec<TrainingPass> = Vec::with_capacity(stretches.len());
    for stretch in &stretches {
        let shape = stretch.cluster().and_then(|cluster| shapes.get(&cluster));
        let parts = shape.map_or(Parts { ending: 0, beginning: 0 }, |shape| shape.divide(stretch));
        let begin = stretch.spans.get(parts.beginning).unwrap_or(stretch.backward).first_event;
        if let Some(last) = passes.last_mut() {
            last.end = stretch.spans.get(parts.ending).unwrap_or(stretch.backward).first_event.min(begin);
            last.has_optimizer = stretch.optimizer_spans() > 0;
        }
        passes.push(TrainingPass {
            first: begin,
            end: stretch.backward.end_event,
            backward: *stretch.backward,
            loop_line: stretch.cluster(),
            has_optimizer: false,
            makes_gradients: false,
        });
    }
    let unfinished = finish_last(&mut passes, tail, &shapes, number(history.allocated.len()));
    note_gradients(history, &mut passes);
    note_marks(&mut passes, optimizer);
    let (list, length) = group(&passes);
    let left_over = list.last().and_then(|last| passes.iter().find(|pass| pass.first >= last.end));
    Found { list, passes: length, unfinished: left_over.map(|pass| pass.first).or(unfinished) }
}

/// Cuts the program at its backward passes; what follows the last one is the tail.
fn cut(spans: &[Span]) -> (Vec<Stretch<'_>>, &[Span]) {
    let mut stretches = Vec::new();
    let mut begin = 0;
    for (index, span) in spans.iter().enumerate() {
        if span.activity == Activity::Backward {
            stretches.push(Stretch { spans: &spans[begin..index], backward: span });
            begin = index + 1;
        }
    }
    (stretches, &spans[begin..])
}

/// What the stretches of one loop have in common.
struct Shape {
    /// The most frequent stretch.
    typical: Vec<Token>,
    /// How many of its tokens, counted from the end, belong to the step that begins.
    beginning: usize,
}

/// Where a stretch is divided, in spans: `..ending` belongs to the step before, `beginning..` to the step after.
struct Parts {
    ending: usize,
    beginning: usize,
}

impl Shape {
    fn divide(&self, stretch: &Stretch<'_>) -> Parts {
        let length = stretch.spans.len();
        let optimizer = stretch.optimizer_spans();
        let common = common(stretch.tokens().rev(), self.typical.iter().rev().copied()).min(self.beginning);
        let beginning = if common == self.beginning {
            length - common
        } else {
            // The loop ran differently this time; it still begins where it always begins.
            let first = self.typical[self.typical.len() - self.beginning];
            let at = stretch.tokens().collect::<Vec<_>>().iter().rposition(|&token| token == first);
            at.unwrap_or(optimizer).max(optimizer)
        };
        let typical_ending = self.typical[..self.typical.len() - self.beginning].iter().copied();
        let ending = self::common(stretch.tokens(), typical_ending).max(optimizer).min(beginning);
        Parts { ending, beginning }
    }
}

fn common(a: impl Iterator<Item = Token>, b: impl Iterator<Item = Token>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

fn shapes(stretches: &[Stretch<'_>], is_same_function: SameFunction<'_>) -> HashMap<Token, Shape> {
    let mut clusters: HashMap<Token, Vec<&Stretch<'_>>> = HashMap::new();
    for stretch in stretches {
        if let Some(cluster) = stretch.cluster() {
            clusters.entry(cluster).or_default().push(stretch);
        }
    }
    let shape_of = |members: Vec<&Stretch<'_>>| match members[..] {
        [single] => lonely_shape(single, is_same_function),
        _ => shape(&members.iter().map(|stretch| stretch.tokens().collect()).collect::<Vec<_>>()),
    };
    clusters.into_iter().map(|(cluster, members)| (cluster, shape_of(members))).collect()
}

/// Nothing to compare with: the step begins where the function that calls the model is entered.
fn lonely_shape(stretch: &Stretch<'_>, is_same_function: SameFunction<'_>) -> Shape {
    let typical: Vec<Token> = stretch.tokens().collect();
    let forward = stretch.spans.iter().position(|span| span.activity == Activity::Forward).unwrap_or(0);
    let line = stretch.spans.get(forward).and_then(|span| span.line);
    let is_near = |span: &&Span| line.zip(span.line).is_some_and(|(a, b)| is_same_function(a, b));
    let before = stretch.spans[..forward.min(typical.len())].iter().rev().take_while(is_near).count();
    Shape { beginning: typical.len() - (forward - before), typical }
}

fn shape(sequences: &[Vec<Token>]) -> Shape {
    let mut counts: HashMap<&[Token], (usize, usize)> = HashMap::new();
    for (index, sequence) in sequences.iter().enumerate() {
        counts.entry(sequence).or_insert((0, index)).0 += 1;
    }
    // Among equally frequent ones the later: the first stretch has the building of the model before it.
    let typical = counts.iter().max_by_key(|&(_, &(count, index))| (count, index)).map_or(&[][..], |(&key, _)| key);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (&sequence, &(count, _)) in &counts {
        let shared = common(sequence.iter().rev().copied(), typical.iter().rev().copied());
        if sequence != typical && shared > 0 && shared < sequence.len() {
            *lengths.entry(shared).or_default() += count;
        }
    }
    let beginning = lengths.into_iter().max_by_key(|&(length, count)| (count, length)).map(|(length, _)| length);
    Shape { typical: typical.to_vec(), beginning: beginning.unwrap_or(typical.len()) }
}

/// One forward and backward pass.
struct TrainingPass {
    first: u32,
    end: u32,
    backward: Span,
    loop_line: Option<Token>,
    has_optimizer: bool,
    makes_gradients: bool,
}

/// The last step ends with what usually follows a backward pass. A step in which the recording ends is left out; its first
/// event is returned.
fn finish_last(passes: &mut Vec<TrainingPass>, tail: &[Span], shapes: &HashMap<Token, Shape>, end: u32) -> Option<u32> {
    let last = passes.last_mut()?;
    let stretch = Stretch { spans: tail, backward: &last.backward };
    let shape = last.loop_line.and_then(|line| shapes.get(&line));
    let typical = shape.map_or(&[][..], |shape| &shape.typical[..shape.typical.len() - shape.beginning]);
    let ending = common(stretch.tokens(), typical.iter().copied()).max(stretch.optimizer_spans());
    let after = tail.get(ending).map_or(end, |span| span.first_event);
    last.has_optimizer = stretch.optimizer_spans() > 0;
    last.end = after.min(end);
    let allocations = |pass: &TrainingPass| pass.backward.end - pass.backward.first;
    let is_cut_off = tail.is_empty() && passes.len() > 1 && {
        let mut lengths: Vec<u32> = passes[..passes.len() - 1].iter().map(allocations).collect();
        lengths.sort_unstable();
        allocations(&passes[passes.len() - 1]) * 10 < lengths[lengths.len() / 2] * 9
    };
    if is_cut_off {
        return passes.pop().map(|pass| pass.first);
    }
    let first = shape.and_then(|shape| shape.typical.get(shape.typical.len() - shape.beginning))?;
    let next = tail[ending..].iter().rfind(|span| (span.activity, span.site) == *first)?;
    Some(next.first_event)
}

/// Gradients that outlive the pass are made by the first pass after they were dropped.
fn note_gradients(history: &History, passes: &mut [TrainingPass]) {
    let outliving: Vec<u64> = passes
        .iter()
        .map(|pass| {
            let births = &history.births()[pass.backward.first as usize..pass.backward.end as usize];
            births.iter().filter(|birth| birth.death > pass.end).map(|birth| birth.size).sum()
        })
        .collect();
    let most = outliving.iter().copied().max().unwrap_or(0);
    for (pass, bytes) in passes.iter_mut().zip(outliving) {
        pass.makes_gradients = bytes > most / 3;
    }
}

/// An optimizer that allocates nothing shows by its mark alone.
fn note_marks(passes: &mut [TrainingPass], optimizer: &[u32]) {
    for index in 0..passes.len() {
        let begin = passes[index].backward.first_event;
        let end = passes.get(index + 1).map_or(OUTSIDE, |next| next.backward.first_event);
        let first = optimizer.partition_point(|&event| event <= begin);
        passes[index].has_optimizer |= optimizer.get(first).is_some_and(|&event| event <= end);
    }
}

/// Joins the passes that make up one step: micro-batches, or the losses of several networks.
fn group(passes: &[TrainingPass]) -> (Vec<Step>, usize) {
    let signs: Vec<_> = passes.iter().map(|pass| (pass.loop_line, pass.has_optimizer, pass.makes_gradients)).collect();
    let length = (1..=passes.len() / 2)
        .take(64)
        .find(|&length| {
            let pairs = signs.iter().zip(&signs[length..]);
            let (mut equal, mut all) = (0, 0);
            // The first passes differ: they make what then stays.
            for (a, b) in pairs.skip(if passes.len() > 3 * length { length } else { 0 }) {
                all += 1;
                equal += usize::from(a == b);
            }
            all > 0 && equal * 100 >= all * 85
        })
        .unwrap_or(1);
    if length == 1 {
        return (passes.iter().map(|pass| Step { first: pass.first, end: pass.end }).collect(), 1);
    }
    // A step begins after the one pass that the optimizer follows, or with the one that makes the gradients.
    let only = |is_it: fn(&TrainingPass) -> bool| {
        let turn = &passes[passes.len() - length..];
        let at = turn.iter().position(is_it).filter(|_| turn.iter().filter(|pass| is_it(pass)).count() == 1);
        at.map(|at| passes.len() - length + at)
    };
    let after_optimizer = only(|pass| pass.has_optimizer).map(|at| at + 1);
    let offset = after_optimizer.or_else(|| only(|pass| pass.makes_gradients)).unwrap_or(0) % length;
    let whole = passes[offset..].chunks_exact(length);
    let steps = whole.map(|chunk| Step { first: chunk[0].first, end: chunk[length - 1].end }).collect();
    (steps, length)
}
