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
mod uses;

use super::call_site::{CallSites, Line};
use super::event::Event;
use super::statement::ParsedLine;
use frame::{Frame, Statement};
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

    /// Ends and begins `forward` functions until these are the running ones.
    fn move_to(&mut self, calls: &[u32], lines: &[Line]) {
        let same = self.frames.iter().zip(calls).take_while(|(frame, call)| frame.call == **call).count();
        while self.frames.len() > same {
            self.leave();
        }
        if let Some(line) = same.checked_sub(1).and_then(|depth| lines.get(depth)).copied() {
            let child = calls.get(same).copied();
            let frame = &self.frames[same - 1];
            let is_other = match &frame.statement {
                None => true,
                Some(statement) => {
                    // A loop on one line may call modules of several lists.
                    let is_next = child.is_some_and(|second| {
                        let mut others = statement.children.iter().filter(|first| **first != second);
                        others.any(|first| self.sites.are_in_a_loop(*first, second))
                    });
                    statement.line != line.number || is_next
                }
            };
            if is_other {
                let iteration = frame.statement.as_ref().filter(|it| it.begins_itself && it.line == line.number);
                let begins_itself = iteration.is_some();
                let (mut soon, mut named) = (Vec::new(), Vec::new());
                if let Some(iteration) = iteration.filter(|iteration| !iteration.used.is_empty()) {
                    soon.clone_from(&iteration.returned);
                    named.clone_from(&iteration.used);
                    named.retain(|tensor| frame.locals.iter().any(|(_, tensors)| tensors.contains(tensor)));
                }
                self.end_statement(same - 1);
                let parsed = self.parsed(line);
                let frame = &mut self.frames[same - 1];
                frame.unsure.extend(named);
                frame.soon = soon;
                let number = self.own_calls.len();
                self.own_calls.push(0);
                frame.statement =
                    Some(Statement { begins_itself, ..Statement::new(number, line.number, parsed, child) });
            } else if let (Some(statement), Some(child)) = (&mut self.frames[same - 1].statement, child) {
                statement.used.clear();
                if !statement.children.contains(&child) {
                    statement.children.push(child);
                }
            }
        }
        for depth in same..calls.len() {
            self.enter(calls[depth]);
            if let Some(line) = lines.get(depth).copied() {
                let child = calls.get(depth + 1).copied();
                let number = self.own_calls.len();
                self.own_calls.push(0);
                self.frames[depth].statement = Some(Statement::new(number, line.number, self.parsed(line), child));
            }
        }
    }

    fn parsed(&self, line: Line) -> &'a ParsedLine<'a> {
        &self.sites.lines[line.parsed as usize]
    }

    fn enter(&mut self, call: u32) {
        self.flush();
        let mut arguments = self.given[call as usize].clone();
        arguments.retain(|tensor| !self.is_freed[tensor.0 as usize]);
        for tensor in &arguments {
            self.holds[tensor.0 as usize] += 1;
        }
        if let Some(module) = self.module(call) {
            self.steps.push(Step::Enter(module, arguments.clone()));
        }
        self.frames.push(Frame {
            call,
            arguments,
            locals: Vec::new(),
            statement: None,
            unsure: Vec::new(),
            soon: Vec::new(),
        });
    }

    /// The module of a call in the steps; the outermost call is not shown here.
    fn module(&self, call: u32) -> Option<u32> {
        let module = self.sites.calls[call as usize].module;
        match self.boundary.inner {
            None => (module != 0).then_some(module),
            // The model is the first of the modules.
            Some(inner) if call == inner => Some(0),
            Some(inner) => {
                let first = self.sites.calls[inner as usize].module;
                match module {
                    0 => None,
                    other if other == first => Some(0),
                    other => Some(other),
                }
            }
        }
    }

    /// The innermost `forward` returns.
    fn leave(&mut self) {
        let depth = self.frames.len() - 1;
        self.end_statement(depth);
        let Some(frame) = self.frames.pop() else { return };
        let mut returned: Vec<TensorId> = Vec::new();
        let mut held: Vec<TensorId> = Vec::new();
        for (_, tensors) in frame.locals {
            held.extend(tensors);
        }
        for tensor in &held {
            if self.is_needed(*tensor) {
                returned.push(*tensor);
            }
        }
        if let Some(module) = self.module(frame.call) {
            self.flush();
            let alive = returned.iter().copied().filter(|tensor| !self.is_freed[tensor.0 as usize]).collect();
            self.steps.push(Step::Exit(module, alive));
        }
        self.report_late(frame.unsure);
        for tensor in held.into_iter().chain(frame.arguments) {
            self.release(tensor);
        }
        if let Some(parent) = self.frames.last_mut()
            && let Some(statement) = &mut parent.statement
        {
            statement.made.extend(&returned);
            returned.iter().for_each(|tensor| self.maker[tensor.0 as usize] = Some(statement.number));
            statement.returned = returned;
        }
        if self.boundary.inner == Some(frame.call) {
            self.flush();
            self.steps.push(Step::Loss);
            self.is_in_loss = true;
        }
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

    /// A statement ends: its targets are bound, and what they held before is released.
    fn end_statement(&mut self, depth: usize) {
        let Some(statement) = self.frames[depth].statement.take() else { return };
        let soon = std::mem::take(&mut self.frames[depth].soon);
        self.report_late(soon);
        let line = statement.parsed;
        self.report_late(statement.unused);
        if line.has_several {
            self.frames[depth].unsure.extend(&statement.made);
        }
        let mut made: Vec<TensorId> = Vec::new();
        for tensor in statement.made {
            if !self.is_freed[tensor.0 as usize] && !made.contains(&tensor) {
                made.push(tensor);
            }
        }
        // What is needed later but not bound to a name is being returned to the caller.
        if line.targets.is_empty() {
            for tensor in made {
                if line.is_return && self.is_needed(tensor) {
                    self.holds[tensor.0 as usize] += 1;
                    self.frames[depth].locals.push(("", vec![tensor]));
                    continue;
                }
                if line.is_storing && self.is_nameless(tensor) {
                    self.frames[depth].unsure.push(tensor);
                }
                self.check(tensor);
            }
            return;
        }
        let spread = made.len() == line.targets.len();
        for (number, target) in line.targets.iter().copied().enumerate() {
            let bound: Vec<TensorId> = match (spread, number) {
                (true, _) => vec![made[number]],
                (false, 0) => std::mem::take(&mut made),
                (false, _) => Vec::new(),
            };
            for tensor in &bound {
                self.holds[tensor.0 as usize] += 1;
            }
            let locals = &mut self.frames[depth].locals;
            let old = match locals.iter_mut().find(|(name, _)| *name == target) {
                Some((_, tensors)) => std::mem::replace(tensors, bound),
                None => {
                    locals.push((target, bound));
                    Vec::new()
                }
            };
            for tensor in old {
                self.release(tensor);
                if self.is_nameless(tensor) {
                    self.frames[depth].unsure.push(tensor);
                }
            }
        }
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
