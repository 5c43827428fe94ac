//! Steps told by forward and backward passes.
//!
//! What lies between two backward passes is a stretch: the end of one step and the beginning of the next. Stretches
//! are compared as sequences of places in the program, so that neither sizes nor what happens inside the model matters.
//! In most of them nothing but the loop's own lines ran; where something else ran too (building the model, an
//! evaluation), the part they have in common, counted back from the backward pass, is the step's beginning.

use std::collections::HashMap;

use vramfit_trace::snapshot::FrameId;

use super::Step;
use crate::history::{History, number};
use crate::origin::{Activity, SiteId};
use crate::phases::{Phases, Span};

/// A place with what was done there.
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

    /// Which loop it belongs to: the place right before the backward pass.
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

/// What the passes tell.
pub struct Found {
    /// The steps.
    pub list: Vec<Step>,
    /// How many backward passes make one.
    pub passes: usize,
    /// The first event of the step in which the recording ends.
    pub unfinished: Option<u32>,
}

/// Whether two lines stand in one function.
pub type SameFunction<'a> = &'a dyn Fn(FrameId, FrameId) -> bool;

/// The steps told by forward and backward passes.
pub fn steps(history: &History, phases: &Phases, is_same_function: SameFunction<'_>) -> Found {
    let (stretches, tail) = cut(&phases.spans);
    let shapes = shapes(&stretches, is_same_function);
    let mut passes: Vec<Pass> = Vec::with_capacity(stretches.len());
    for stretch in &stretches {
        let shape = stretch.cluster().and_then(|cluster| shapes.get(&cluster));
        let parts = shape.map_or(Parts { ending: 0, beginning: 0 }, |shape| shape.divide(stretch));
        let begin = stretch.spans.get(parts.beginning).unwrap_or(stretch.backward).first_event;
        if let Some(last) = passes.last_mut() {
            last.end = stretch.spans.get(parts.ending).unwrap_or(stretch.backward).first_event.min(begin);
            last.has_optimizer = stretch.optimizer_spans() > 0;
        }
        passes.push(Pass {
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
    /// The usual stretch.
    usual: Vec<Token>,
    /// How many of its places, counted from the end, belong to the step that begins.
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
        let common = common(stretch.tokens().rev(), self.usual.iter().rev().copied()).min(self.beginning);
        let beginning = if common == self.beginning {
            length - common
        } else {
            // The loop ran otherwise this time; it still begins where it always begins.
            let first = self.usual[self.usual.len() - self.beginning];
            let at = stretch.tokens().collect::<Vec<_>>().iter().rposition(|&token| token == first);
            at.unwrap_or(optimizer).max(optimizer)
        };
        let usual_ending = self.usual[..self.usual.len() - self.beginning].iter().copied();
        let ending = self::common(stretch.tokens(), usual_ending).max(optimizer).min(beginning);
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
    let usual: Vec<Token> = stretch.tokens().collect();
    let forward = stretch.spans.iter().position(|span| span.activity == Activity::Forward).unwrap_or(0);
    let line = stretch.spans.get(forward).and_then(|span| span.line);
    let is_near = |span: &&Span| line.zip(span.line).is_some_and(|(a, b)| is_same_function(a, b));
    let before = stretch.spans[..forward.min(usual.len())].iter().rev().take_while(is_near).count();
    Shape { beginning: usual.len() - (forward - before), usual }
}

fn shape(sequences: &[Vec<Token>]) -> Shape {
    let mut counts: HashMap<&[Token], (usize, usize)> = HashMap::new();
    for (index, sequence) in sequences.iter().enumerate() {
        counts.entry(sequence).or_insert((0, index)).0 += 1;
    }
    // Among equally frequent ones the later: the first stretch has the building of the model before it.
    let usual = counts.iter().max_by_key(|&(_, &(count, index))| (count, index)).map_or(&[][..], |(&key, _)| key);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (&sequence, &(count, _)) in &counts {
        let shared = common(sequence.iter().rev().copied(), usual.iter().rev().copied());
        if sequence != usual && shared > 0 && shared < sequence.len() {
            *lengths.entry(shared).or_default() += count;
        }
    }
    let beginning = lengths.into_iter().max_by_key(|&(length, count)| (count, length)).map(|(length, _)| length);
    Shape { usual: usual.to_vec(), beginning: beginning.unwrap_or(usual.len()) }
}

/// One forward and backward pass.
struct Pass {
    first: u32,
    end: u32,
    backward: Span,
    loop_line: Option<Token>,
    has_optimizer: bool,
    makes_gradients: bool,
}

/// The last step ends with what usually follows a backward pass; one that the recording breaks off in is none, but its
/// first event is told.
fn finish_last(passes: &mut Vec<Pass>, tail: &[Span], shapes: &HashMap<Token, Shape>, end: u32) -> Option<u32> {
    let last = passes.last_mut()?;
    let stretch = Stretch { spans: tail, backward: &last.backward };
    let shape = last.loop_line.and_then(|line| shapes.get(&line));
    let usual = shape.map_or(&[][..], |shape| &shape.usual[..shape.usual.len() - shape.beginning]);
    let ending = common(stretch.tokens(), usual.iter().copied()).max(stretch.optimizer_spans());
    let after = tail.get(ending).map_or(end, |span| span.first_event);
    last.has_optimizer = stretch.optimizer_spans() > 0;
    last.end = after.min(end);
    let allocations = |pass: &Pass| pass.backward.end - pass.backward.first;
    let is_cut_off = tail.is_empty() && passes.len() > 1 && {
        let mut lengths: Vec<u32> = passes[..passes.len() - 1].iter().map(allocations).collect();
        lengths.sort_unstable();
        allocations(&passes[passes.len() - 1]) * 10 < lengths[lengths.len() / 2] * 9
    };
    if is_cut_off {
        return passes.pop().map(|pass| pass.first);
    }
    let first = shape.and_then(|shape| shape.usual.get(shape.usual.len() - shape.beginning))?;
    let next = tail[ending..].iter().rfind(|span| (span.activity, span.site) == *first)?;
    Some(next.first_event)
}

/// Gradients that outlive the pass are made by the first pass after they were dropped.
fn note_gradients(history: &History, passes: &mut [Pass]) {
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

/// Joins the passes that make up one step: micro-batches, or the losses of several networks.
fn group(passes: &[Pass]) -> (Vec<Step>, usize) {
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
    let only = |is_it: fn(&Pass) -> bool| {
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
