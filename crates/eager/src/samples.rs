//! Where the samples of a batch meet: whether the loss of a batch is the mean or the sum of the losses of its parts.
//!
//! Follows the batch from the inputs to the loss, call by call. A dimension whose size depends on the batch holds samples. A
//! call whose result has two such dimensions compares samples with each other. A call whose result has none reduces over
//! the batch: a mean or a sum may stay so up to the loss, as long as what follows is linear in it. What an operator does along
//! each dimension is one of its facts; samples meet in one of which nobody has written that they do not.

use vramfit_graph::expression::Expression;
use vramfit_graph::model::{Argument, Call, Model, Size, Step, Symbol, TensorId, Variant};
use vramfit_graph::select::Sizes;

use crate::operators::{Effect, Greatest, Samples, facts};

/// How the loss depends on the samples of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossOverBatch {
    /// It is a mean over the samples.
    Mean {
        /// Whether it is a mean over tokens, of which those with an ignored label do not count: their number may differ
        /// between micro-batches.
        skips_labels: bool,
    },
    /// It is a sum over the samples.
    Sum,
    /// Samples meet, so that parts of a batch have another loss.
    Mixed(Meeting),
    /// It could not be followed.
    NotShown(Meeting),
}

/// A call in which samples meet, or through which they cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// How they meet.
    pub kind: MeetingKind,
    /// The operator, such as `aten.mm.default`.
    pub operator: String,
    /// The line of the model's code.
    pub source: Option<String>,
}

/// How samples meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeetingKind {
    /// A result has two dimensions that grow with the batch.
    Pairs,
    /// Something other than a mean or sum is computed over the batch, or of a mean or sum.
    Reduced,
    /// A softmax, a sort, a shift, a norm or a convolution runs along the batch, or only part of it is taken.
    Along,
    /// A mean is divided by the weights of the classes that occur.
    ClassWeights,
    /// The data decides which samples meet, or the operator is not known.
    NotFollowed,
}

impl MeetingKind {
    /// What the call does, to go on "`operator`".
    pub fn words(self) -> &'static str {
        match self {
            MeetingKind::Pairs => "compares the samples of a batch with each other",
            MeetingKind::Reduced => "reduces over the batch before the loss",
            MeetingKind::Along => "runs along the batch",
            MeetingKind::ClassWeights => "divides by the weights of the classes that occur in the batch",
            MeetingKind::NotFollowed => "picks samples in a way that cannot be followed",
        }
    }
}

/// How the loss of a variant depends on the samples of a batch. Where the variant returns no loss, the loss is a mean over
/// its first output. `None` where the model has no batch size, or no output.
pub fn loss_over_batch(model: &Model, variant: &Variant) -> Option<LossOverBatch> {
    let batch: Vec<u32> = Sizes::batch(model).into_iter().map(|size| size.symbol()).collect();
    if batch.is_empty() {
        return None;
    }
    let mut flow = Flow::new(model, variant, &batch);
    for step in &model.steps[variant.steps] {
        if let Step::Call(call) = step {
            flow.follow(call);
        }
    }
    let found = match variant.loss {
        Some(loss) => flow.states[loss.0 as usize],
        None => {
            let outputs = variant.outputs.iter().filter(|id| flow.is_differentiable(**id));
            let first = outputs.map(|id| flow.states[id.0 as usize]).next()?;
            if first == State::Samples { State::Mean } else { first }
        }
    };
    Some(match found {
        // A loss that does not depend on the batch is its own mean.
        State::Constant | State::Mean => LossOverBatch::Mean { skips_labels: flow.skips_labels },
        State::Sum => LossOverBatch::Sum,
        State::Samples => LossOverBatch::NotShown(Meeting {
            kind: MeetingKind::Reduced,
            operator: "the loss".to_owned(),
            source: None,
        }),
        State::Met(number) => {
            let (kind, call) = flow.meetings[number];
            let meeting = flow.meeting(kind, call);
            match kind {
                MeetingKind::NotFollowed => LossOverBatch::NotShown(meeting),
                _ => LossOverBatch::Mixed(meeting),
            }
        }
    })
}

/// What a tensor holds of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing.
    Constant,
    /// Each sample apart.
    Samples,
    /// A mean over the samples.
    Mean,
    /// A sum over the samples.
    Sum,
    /// Samples have met in this meeting.
    Met(usize),
}

/// How a size grows with the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// Not at all.
    Fixed,
    /// It is a multiple of the batch.
    Multiple,
    /// As pairs of samples do, or faster.
    Pairs,
    /// Otherwise, such as one less than the batch.
    Other,
}

impl Growth {
    /// That of an expression of these symbols, some of which are the batch.
    fn of(model: &Model, expression: &Expression, batch: &[u32]) -> Growth {
        if !expression.symbols().any(|symbol| batch.contains(&symbol)) {
            return Growth::Fixed;
        }
        let at = |samples: i64| {
            let size = |(number, symbol): (u32, &Symbol)| match batch.contains(&number) {
                true => samples,
                false => symbol.example.value().or(symbol.recorded.first().copied()).unwrap_or(PRIME),
            };
            let sizes: Vec<i64> = (0..).zip(&model.symbols).map(size).collect();
            expression.evaluate(&sizes).ok()
        };
        let [Some(one), Some(two), Some(three)] = [1, 2, 3].map(|times| at(times * PRIME)) else {
            return Growth::Other;
        };
        match (two == 2 * one, three == 3 * one) {
            (true, true) => Growth::Multiple,
            // The second difference of a square is twice its factor.
            _ if three - two - (two - one) >= PRIME * PRIME => Growth::Pairs,
            _ => Growth::Other,
        }
    }
}

/// A batch of which few divisions leave nothing over, to see how sizes grow with it.
const PRIME: i64 = 97;

struct Flow<'m> {
    model: &'m Model,
    variant: &'m Variant,
    /// Of each expression, how it grows with the batch.
    growths: Vec<Growth>,
    states: Vec<State>,
    /// Of each tensor, whether it holds whole numbers one after the other.
    are_ranges: Vec<bool>,
    meetings: Vec<(MeetingKind, &'m Call)>,
    skips_labels: bool,
}

impl<'m> Flow<'m> {
    fn new(model: &'m Model, variant: &'m Variant, batch: &[u32]) -> Flow<'m> {
        let growths = model.expressions.iter().map(|expression| Growth::of(model, expression, batch)).collect();
        let count = model.tensors[variant.tensors].len();
        let (states, are_ranges) = (vec![State::Constant; count], vec![false; count]);
        let mut flow = Flow { model, variant, growths, states, are_ranges, meetings: Vec::new(), skips_labels: false };
        for input in model.inputs.iter().chain(&model.targets) {
            if flow.sample_dims(input.tensor).next().is_some() {
                flow.states[input.tensor.0 as usize] = State::Samples;
            }
        }
        flow
    }

    fn tensor(&self, id: TensorId) -> &'m vramfit_graph::model::Tensor {
        &self.model.tensors[self.variant.tensors][id.0 as usize]
    }

    fn is_differentiable(&self, id: TensorId) -> bool {
        self.model.types[self.variant.types][self.tensor(id).r#type as usize].dtype.is_differentiable()
    }

    fn shape(&self, id: TensorId) -> &'m [Size] {
        &self.model.types[self.variant.types][self.tensor(id).r#type as usize].shape
    }

    fn growth(&self, size: Size) -> Growth {
        match size {
            Size::Known(_) => Growth::Fixed,
            Size::Symbolic(id) => self.growths[id.0 as usize],
        }
    }

    /// The dimensions of a tensor that grow with the batch, with their sizes.
    fn sample_dims(&self, id: TensorId) -> impl Iterator<Item = (usize, Size)> {
        let sizes = self.shape(id).iter().copied().enumerate();
        sizes.filter(|(_, size)| self.growth(*size) != Growth::Fixed)
    }

    /// Whether a dimension of a tensor grows with the batch.
    fn holds_samples(&self, id: TensorId, dim: usize) -> bool {
        self.shape(id).get(dim).is_some_and(|size| self.growth(*size) != Growth::Fixed)
    }

    fn meeting(&self, kind: MeetingKind, call: &Call) -> Meeting {
        let source = call.source.and_then(|source| self.model.sources.get(source as usize));
        Meeting {
            kind,
            operator: self.model.operators[call.operator as usize].name.clone(),
            source: source.map(|source| format!("{}:{}", source.file, source.line)),
        }
    }

    fn meet(&mut self, kind: MeetingKind, call: &'m Call) -> State {
        self.meetings.push((kind, call));
        State::Met(self.meetings.len() - 1)
    }

    fn follow(&mut self, call: &'m Call) {
        let facts = facts(self.model.operators[call.operator as usize].id);
        let mut given: Vec<State> = Vec::new();
        call.each_tensor(&mut |id| given.push(self.states[id.0 as usize]));
        let keeps_range = facts.samples == Samples::Linear && facts.greatest == Greatest::Same;
        for result in call.results.iter().flatten() {
            let state = self.state_of(call, facts.samples, &given, *result);
            self.states[result.0 as usize] = state;
            let was_range =
                matches!(call.arguments.first(), Some(Argument::Tensor(id)) if self.are_ranges[id.0 as usize]);
            self.are_ranges[result.0 as usize] = facts.samples == Samples::Range || keeps_range && was_range;
        }
        // What is written into a view is in all tensors of its storage.
        if facts.effect == Effect::WritesFirst
            && let Some(Argument::Tensor(written)) = call.arguments.first()
        {
            let state = self.state_of(call, facts.samples, &given, *written);
            let storage = self.tensor(*written).storage;
            for (tensor, known) in self.model.tensors[self.variant.tensors].iter().zip(&mut self.states) {
                if tensor.storage == storage {
                    *known = worse(*known, state);
                }
            }
        }
    }

    fn state_of(&mut self, call: &'m Call, samples: Samples, given: &[State], result: TensorId) -> State {
        let met = |followed: bool| {
            given.iter().copied().find(|state| match state {
                State::Met(number) => (self.meetings[*number].0 != MeetingKind::NotFollowed) == followed,
                _ => false,
            })
        };
        if matches!(samples, Samples::Ignored | Samples::Range) || given.iter().all(|state| *state == State::Constant) {
            return State::Constant;
        }
        if let Some(state) = met(true).or_else(|| met(false)) {
            return state;
        }
        let has_samples = given.contains(&State::Samples);
        let is_reduced = given.iter().any(|state| matches!(state, State::Mean | State::Sum));
        match (has_samples, is_reduced) {
            (true, true) => self.meet(MeetingKind::Reduced, call),
            (false, _) => self.of_reduced(call, samples, given),
            (true, false) => self.of_samples(call, samples, result),
        }
    }

    /// What a call makes of means and sums.
    fn of_reduced(&mut self, call: &'m Call, samples: Samples, given: &[State]) -> State {
        let reduced: Vec<State> = given.iter().copied().filter(|state| *state != State::Constant).collect();
        let numbers = call.arguments.iter().filter(|argument| self.grows(argument)).count();
        let first_is_reduced = given.first() == reduced.first();
        let is_single = reduced.len() == 1;
        let are_equal = reduced.iter().all(|state| *state == reduced[0]);
        match (samples, reduced[0]) {
            (Samples::Linear | Samples::Part | Samples::Sum | Samples::Mean, state) if are_equal && numbers == 0 => {
                state
            }
            (Samples::Product, state) if is_single && numbers == 0 => state,
            (Samples::Product, State::Mean) if is_single && numbers == 1 => State::Sum,
            (Samples::Quotient, state) if is_single && first_is_reduced && numbers == 0 => state,
            (Samples::Quotient, State::Sum) if is_single && first_is_reduced && numbers == 1 => State::Mean,
            _ => self.meet(MeetingKind::Reduced, call),
        }
    }

    /// Whether a number depends on the batch.
    fn grows(&self, argument: &Argument) -> bool {
        matches!(argument, Argument::Int(size) if self.growth(*size) != Growth::Fixed)
    }

    /// What a call makes of samples.
    fn of_samples(&mut self, call: &'m Call, samples: Samples, result: TensorId) -> State {
        let growths: Vec<Growth> = self.sample_dims(result).map(|(_, size)| self.growth(size)).collect();
        let count = growths.len();
        if count > 1 || growths.contains(&Growth::Pairs) {
            return self.meet(MeetingKind::Pairs, call);
        }
        if growths.contains(&Growth::Other) || self.mixes(call, samples, result) {
            return self.meet(MeetingKind::Along, call);
        }
        match samples {
            Samples::Picked(argument) if self.runs_along(call, argument) => self.meet(MeetingKind::NotFollowed, call),
            Samples::Indexed if self.picks_samples(call) => self.meet(MeetingKind::NotFollowed, call),
            Samples::Attends if self.attends_along(call) => self.meet(MeetingKind::NotFollowed, call),
            Samples::Unknown => self.meet(MeetingKind::NotFollowed, call),
            _ if count == 1 => State::Samples,
            Samples::Loss { reduction, class_weights, ignored } => {
                self.of_loss(call, reduction, class_weights, ignored)
            }
            Samples::Mean => State::Mean,
            Samples::Sum | Samples::Product => State::Sum,
            // A view that has no sample's dimension left shows one of them.
            Samples::Linear | Samples::Part => self.meet(MeetingKind::NotFollowed, call),
            _ => self.meet(MeetingKind::Reduced, call),
        }
    }

    /// Whether samples meet along a dimension of the first argument.
    fn mixes(&self, call: &Call, samples: Samples, result: TensorId) -> bool {
        let Some(Argument::Tensor(source)) = call.arguments.first() else { return false };
        let dims = || self.sample_dims(*source).map(|(dim, _)| dim);
        let count = self.shape(*source).len();
        match samples {
            Samples::Along(argument) => self.runs_along(call, argument),
            Samples::First => dims().any(|dim| dim > 0),
            Samples::Trailing(argument) => {
                let listed = match call.arguments.get(argument) {
                    Some(Argument::List(listed)) => listed.len(),
                    _ => 1,
                };
                dims().any(|dim| dim + listed >= count)
            }
            Samples::Matrices => dims().any(|dim| dim + 2 >= count),
            Samples::Steps { batch_first } => {
                let has_batch_first = matches!(call.arguments.get(batch_first), Some(Argument::Bool(true)));
                dims().any(|dim| dim != usize::from(!has_batch_first))
            }
            Samples::Part => {
                let sizes = |id: TensorId| self.sample_dims(id).map(|(_, size)| size);
                !sizes(*source).eq(sizes(result))
            }
            Samples::Loss { ignored: Some(_), .. } => self.holds_samples(*source, usize::from(count > 1)),
            _ => false,
        }
    }

    fn of_loss(
        &mut self,
        call: &'m Call,
        reduction: usize,
        class_weights: Option<usize>,
        ignored: Option<usize>,
    ) -> State {
        match call.arguments.get(reduction) {
            Some(Argument::Int(Size::Known(2))) => State::Sum,
            Some(Argument::Int(Size::Known(1))) | None => {
                let weights = class_weights.and_then(|argument| call.arguments.get(argument));
                if matches!(weights, Some(Argument::Tensor(_))) {
                    return self.meet(MeetingKind::ClassWeights, call);
                }
                // One label for each sample counts always.
                if ignored.is_some()
                    && let Some(Argument::Tensor(targets)) = call.arguments.get(1)
                {
                    self.skips_labels |= !self.is_label_of_sample(*targets);
                }
                State::Mean
            }
            _ => self.meet(MeetingKind::Reduced, call),
        }
    }

    /// Whether a tensor has one entry for each sample.
    fn is_label_of_sample(&self, id: TensorId) -> bool {
        let is_symbol = |size: Size| matches!(size, Size::Symbolic(id) if self.model.expressions[id.0 as usize].as_symbol().is_some());
        matches!(*self.shape(id), [size] if self.growth(size) == Growth::Multiple && is_symbol(size))
    }

    /// Whether one of the dimensions in an argument grows with the batch.
    fn runs_along(&self, call: &Call, argument: usize) -> bool {
        let Some(Argument::Tensor(source)) = call.arguments.first() else { return false };
        let count = self.shape(*source).len();
        let is_batch = |argument: &Argument| match argument {
            Argument::Int(Size::Known(dim)) => {
                let dim = if *dim < 0 { dim + count as i64 } else { *dim };
                usize::try_from(dim).is_ok_and(|dim| self.holds_samples(*source, dim))
            }
            _ => false,
        };
        match call.arguments.get(argument) {
            // All of them.
            Some(Argument::None) => self.sample_dims(*source).next().is_some(),
            Some(Argument::List(listed)) if listed.is_empty() => self.sample_dims(*source).next().is_some(),
            Some(Argument::List(listed)) => listed.iter().any(is_batch),
            Some(given) => is_batch(given),
            // By default the last one.
            None => count.checked_sub(1).is_some_and(|last| self.holds_samples(*source, last)),
        }
    }

    /// Whether entries of the batch are picked by indices that are not the numbers of the samples in order.
    fn picks_samples(&self, call: &Call) -> bool {
        let [Argument::Tensor(source), Argument::List(indices), ..] = &call.arguments[..] else { return false };
        indices.iter().enumerate().any(|(dim, index)| match index {
            Argument::Tensor(index) => self.holds_samples(*source, dim) && !self.are_ranges[index.0 as usize],
            _ => false,
        })
    }

    /// Whether the sequence that queries attend along grows with the batch.
    fn attends_along(&self, call: &Call) -> bool {
        let Some(Argument::Tensor(query)) = call.arguments.first() else { return false };
        self.shape(*query).len().checked_sub(2).is_some_and(|dim| self.holds_samples(*query, dim))
    }
}

/// The state that says less about a loss.
fn worse(one: State, other: State) -> State {
    let rank = |state: State| match state {
        State::Constant => 0,
        State::Samples => 1,
        State::Mean => 2,
        State::Sum => 3,
        State::Met(_) => 4,
    };
    if rank(other) > rank(one) { other } else { one }
}
