//! When Python frees tensors, as far as an archive shows it.
//!
//! An archive does not record frees. But a module call holds its arguments until it returns, a local variable of a `forward`
//! holds its tensor until it is rebound or the function returns, and each call comes with the running modules and the line
//! each of them is at. A tensor is freed after its last use once none of these holds it.
//!
//! A tensor that is used after its name was rebound is held by something that no line shows: a list, an attribute, another
//! name. It may live until the function returns; such tensors are reported beside the steps.
//!
//! An archive has no lines of other functions than `forward`. Where a statement runs more operators than its line has calls,
//! it calls such a function, whose variables may hold what it makes until it returns; such tensors are reported too.

mod frame;
mod frames;
mod uses;

use super::call_site::CallSites;
use super::event::Event;
use frame::Frame;
use uses::Uses;
use vramfit_graph::model::{Call, Cast, Late, Step, TensorId};

/// What outlives the step or is outside of it.
pub(super) struct Boundary<'a> {
    /// How many tensors exist before the step.
    pub(super) given: usize,
    /// What the model returns.
    pub(super) outputs: &'a [TensorId],
    /// Tensors that are alive at the end.
    pub(super) kept: &'a [TensorId],
    /// The module call that is the model, where that is not the outermost one; what follows it is the loss.
    pub(super) inner: Option<u32>,
    /// Casts of weights that live until autocast ends.
    pub(super) casts: &'a [TensorId],
    /// The autocast region around the whole step.
    pub(super) autocast: Option<Step>,
}

/// The steps, with module calls and frees added, and the tensors that may live longer.
pub(super) fn steps(
    events: Vec<Event>,
    tensors: usize,
    sites: &CallSites<'_>,
    boundary: &Boundary<'_>,
) -> (Vec<Step>, Vec<Late>) {
    let own_calls = own_calls(&events, tensors, sites, boundary);
    let mut walk = Walk::new(&events, tensors, sites, boundary);
    walk.known_own_calls = own_calls;
    if let Some(autocast) = &boundary.autocast {
        walk.steps.push(autocast.clone());
    }
    if boundary.inner.is_none() {
        walk.enter_root();
    }
    for event in events {
        match event {
            Event::Mark(step) => {
                walk.flush();
                walk.steps.push(step);
            }
            Event::Call(call, site) => {
                let site = sites.get(site);
                walk.move_to(&site.calls, &site.lines);
                walk.call(call);
            }
            Event::End(tensors) => walk.end(&tensors),
        }
    }
    walk.finish()
}

/// How many operators each statement runs itself, not in a module that it calls.
fn own_calls(events: &[Event], tensors: usize, sites: &CallSites<'_>, boundary: &Boundary<'_>) -> Vec<u32> {
    let mut walk = Walk::new(events, tensors, sites, boundary);
    for event in events {
        if let Event::Call(call, site) = event {
            let site = sites.get(*site);
            walk.move_to(&site.calls, &site.lines);
            walk.call(call.clone());
        }
    }
    walk.own_calls
}

struct Walk<'a> {
    /// How many operators each statement has run itself so far, and in all where that is known.
    own_calls: Vec<u32>,
    known_own_calls: Vec<u32>,
    /// The statement that has made each tensor or got it from a module.
    maker: Vec<Option<usize>>,
    sites: &'a CallSites<'a>,
    boundary: &'a Boundary<'a>,
    steps: Vec<Step>,
    frames: Vec<Frame<'a>>,
    /// How often each tensor will still be used.
    uses: Vec<u32>,
    /// How many names and calls hold each tensor.
    holds: Vec<u32>,
    is_freed: Vec<bool>,
    is_output: Vec<bool>,
    /// Tensors that were taken out of a list when they were used.
    is_taken: Vec<bool>,
    is_late: Vec<bool>,
    late: Vec<Late>,
    /// The tensors that each module call gets from outside.
    given: Vec<Vec<TensorId>>,
    pending: Vec<TensorId>,
    is_in_loss: bool,
    has_root: bool,
}

impl<'a> Walk<'a> {
    fn new(events: &[Event], tensors: usize, sites: &'a CallSites<'a>, boundary: &'a Boundary<'a>) -> Walk<'a> {
        let Uses { uses, given } = Uses::count(events, tensors, sites, boundary.given);
        let mut holds = vec![0_u32; tensors];
        for tensor in boundary.kept.iter().chain(boundary.casts) {
            holds[tensor.0 as usize] += 1;
        }
        let mut is_output = vec![false; tensors];
        for tensor in boundary.outputs {
            is_output[tensor.0 as usize] = true;
        }
        Walk {
            own_calls: Vec::new(),
            known_own_calls: Vec::new(),
            maker: vec![None; tensors],
            sites,
            boundary,
            steps: Vec::with_capacity(2 * events.len()),
            frames: Vec::new(),
            uses,
            holds,
            is_freed: vec![false; tensors],
            is_output,
            is_taken: vec![false; tensors],
            is_late: vec![false; tensors],
            late: Vec::new(),
            given,
            pending: Vec::new(),
            is_in_loss: false,
            has_root: false,
        }
    }

    /// The model is called.
    fn enter_root(&mut self) {
        self.has_root = true;
        self.steps.push(Step::Enter(0, Vec::new()));
    }

    /// Reports which of these tensors, freed by now, may still be alive.
    fn report_late(&mut self, tensors: Vec<TensorId>) {
        for tensor in tensors {
            let at = tensor.0 as usize;
            let is_open = self.is_freed[at] && !self.is_taken[at];
            if is_open && !std::mem::replace(&mut self.is_late[at], true) {
                self.late.push(Late { tensor, until: self.steps.len() });
            }
        }
    }

    /// Whether a tensor is used later or returned by the model.
    fn is_needed(&self, tensor: TensorId) -> bool {
        self.uses[tensor.0 as usize] > 0 || self.is_output[tensor.0 as usize]
    }

    /// Whether a tensor is used later although no name holds it.
    fn is_nameless(&self, tensor: TensorId) -> bool {
        self.uses[tensor.0 as usize] > 0 && self.holds[tensor.0 as usize] == 0
    }

    fn call(&mut self, call: Call) {
        self.flush();
        let mut arguments: Vec<TensorId> = Vec::new();
        call.each_tensor(&mut |tensor| arguments.push(tensor));
        if let Some(statement) = self.frames.last_mut().and_then(|frame| frame.statement.as_mut()) {
            if statement.parsed.is_taking {
                arguments.iter().for_each(|tensor| self.is_taken[tensor.0 as usize] = true);
            }
            self.own_calls[statement.number] += u32::from(call.cast == Cast::No);
            for result in call.results.iter().flatten() {
                statement.made.push(*result);
                self.maker[result.0 as usize] = Some(statement.number);
            }
            match statement.children.is_empty() {
                true => statement.begins_itself = true,
                false => statement.used.extend(&arguments),
            }
        }
        let results: Vec<TensorId> = call.results.iter().flatten().copied().collect();
        self.steps.push(Step::Call(call));
        for tensor in &arguments {
            self.uses[tensor.0 as usize] -= 1;
        }
        for tensor in arguments {
            self.check(tensor);
        }
        let has_statement = self.frames.last().is_some_and(|frame| frame.statement.is_some());
        if !has_statement {
            for tensor in results {
                self.check(tensor);
            }
        }
    }

    fn end(&mut self, tensors: &[TensorId]) {
        for tensor in tensors {
            self.uses[tensor.0 as usize] -= 1;
            self.check(*tensor);
        }
    }

    fn release(&mut self, tensor: TensorId) {
        self.holds[tensor.0 as usize] -= 1;
        self.check(tensor);
    }

    /// Frees a tensor that nothing needs any more.
    fn check(&mut self, tensor: TensorId) {
        let at = tensor.0 as usize;
        if at >= self.boundary.given && !self.is_freed[at] && self.uses[at] == 0 && self.holds[at] == 0 {
            if let Some(statement) = self.frames.last_mut().and_then(|frame| frame.statement.as_mut()) {
                let own_calls = self.known_own_calls.get(statement.number).copied().unwrap_or(0);
                if own_calls > statement.parsed.operations && self.maker[at] == Some(statement.number) {
                    statement.unused.push(tensor);
                }
            }
            self.is_freed[at] = true;
            self.pending.push(tensor);
        }
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.steps.push(Step::Free(std::mem::take(&mut self.pending)));
        }
    }

    fn finish(mut self) -> (Vec<Step>, Vec<Late>) {
        while !self.frames.is_empty() {
            self.leave();
        }
        if self.has_root {
            self.flush();
            self.steps.push(Step::Exit(0, self.boundary.outputs.to_vec()));
        }
        self.flush();
        if self.is_in_loss {
            self.steps.push(Step::EndLoss);
        }
        if self.boundary.autocast.is_some() {
            self.steps.push(Step::EndAutocast);
            for tensor in self.boundary.casts {
                self.release(*tensor);
            }
            self.flush();
        }
        (self.steps, self.late)
    }
}
