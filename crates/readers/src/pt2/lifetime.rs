//! When Python lets go of tensors, as far as an archive tells.
//!
//! It does not say so. But a module call holds its arguments until it returns, a local variable of a forward function holds
//! its tensor until it is bound anew or the function returns, and each call comes with the modules that are running and the
//! line at which each of them is. A tensor goes after its last use once none of these holds it.
//!
//! A tensor that is used after its name was bound to another is held by something no line shows: a list, an attribute,
//! another name. It may live until the function returns; that it may is told beside the steps.

use super::place::{Line, Places};
use super::statement;
use vramfit_graph::model::{Argument, Call, Late, Step, TensorId};

/// Something that happens, in order.
pub(super) enum Event {
    /// A call, and where it comes from.
    Call(Call, u32),
    /// What opened operators let go of: it lives until here, though no call needs it.
    End(Vec<TensorId>),
    /// Anything that names no tensors.
    Mark(Step),
}

/// What outlives the step or lies outside of it.
pub(super) struct Boundary<'a> {
    /// How many tensors there are before the step.
    pub(super) given: usize,
    /// What the model returns.
    pub(super) outputs: &'a [TensorId],
    /// Tensors that are there at the end.
    pub(super) kept: &'a [TensorId],
    /// The module call that is the model, where that is not the outermost one; what follows it is the loss.
    pub(super) inner: Option<u32>,
    /// Casts of weights that live until autocast ends.
    pub(super) casts: &'a [TensorId],
    /// Whether the whole step stands in an autocast region.
    pub(super) autocast: Option<Step>,
}

/// The steps with module calls and frees put in, and the tensors that may live longer.
pub(super) fn steps(
    events: Vec<Event>,
    tensors: usize,
    places: &Places<'_>,
    boundary: &Boundary<'_>,
) -> (Vec<Step>, Vec<Late>) {
    let mut walk = Walk::new(&events, tensors, places, boundary);
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
            Event::Call(call, place) => {
                let path = &places.places[place as usize];
                let (calls, lines) = (&path.calls[..], &path.lines[..]);
                walk.move_to(calls, lines);
                walk.call(call);
            }
            Event::End(tensors) => walk.end(&tensors),
        }
    }
    walk.finish()
}

/// A statement of a forward function under way.
struct Statement<'a> {
    line: u32,
    text: &'a str,
    /// Whether it takes something out of a list.
    is_taking: bool,
    /// The module calls it was in, the last of which it may be in still.
    children: Vec<u32>,
    /// What it has made so far.
    made: Vec<TensorId>,
    /// What its last module call has returned.
    returned: Vec<TensorId>,
    /// Whether it calls something itself before its first module call: so does each turn of a loop of one line.
    begins_itself: bool,
    /// What it has used itself since its last module call: that may be the next turn.
    used: Vec<TensorId>,
}

impl<'a> Statement<'a> {
    fn new(line: Line<'a>, child: Option<u32>) -> Statement<'a> {
        let children = child.into_iter().collect();
        let is_taking = statement::is_taking(line.text);
        Statement {
            line: line.number,
            text: line.text,
            is_taking,
            children,
            made: Vec::new(),
            returned: Vec::new(),
            begins_itself: false,
            used: Vec::new(),
        }
    }
}

/// A running forward function.
struct Frame<'a> {
    call: u32,
    arguments: Vec<TensorId>,
    locals: Vec<(&'a str, Vec<TensorId>)>,
    statement: Option<Statement<'a>>,
    /// What may live until the function returns.
    unsure: Vec<TensorId>,
    /// What may live until the next statement is done.
    soon: Vec<TensorId>,
}

struct Walk<'a> {
    places: &'a Places<'a>,
    boundary: &'a Boundary<'a>,
    steps: Vec<Step>,
    frames: Vec<Frame<'a>>,
    /// Uses that are still to come, by tensor.
    uses: Vec<u32>,
    /// Names and calls that hold a tensor.
    holds: Vec<u32>,
    is_freed: Vec<bool>,
    is_output: Vec<bool>,
    /// What a list has let go of when it was used.
    is_taken: Vec<bool>,
    is_late: Vec<bool>,
    late: Vec<Late>,
    /// What each module call is given from outside, by the call's number.
    given: Vec<Vec<TensorId>>,
    pending: Vec<TensorId>,
    is_in_loss: bool,
    has_root: bool,
}

impl<'a> Walk<'a> {
    fn new(events: &[Event], tensors: usize, places: &'a Places<'a>, boundary: &'a Boundary<'a>) -> Walk<'a> {
        let mut uses = vec![0_u32; tensors];
        let mut made_at = vec![0_usize; tensors];
        let mut begun: Vec<Option<usize>> = vec![None; places.calls.len()];
        let mut given: Vec<Vec<TensorId>> = vec![Vec::new(); places.calls.len()];
        for (at, event) in events.iter().enumerate() {
            if let Event::End(tensors) = event {
                tensors.iter().for_each(|tensor| uses[tensor.0 as usize] += 1);
            }
            let Event::Call(call, place) = event else { continue };
            let calls = &places.places[*place as usize].calls;
            for module in calls {
                begun[*module as usize].get_or_insert(at);
            }
            for_each_tensor(&call.arguments, &mut |tensor| {
                uses[tensor.0 as usize] += 1;
                // What is there before the step stays whatever holds it.
                if (tensor.0 as usize) < boundary.given {
                    return;
                }
                for module in calls {
                    if Some(made_at[tensor.0 as usize]) < begun[*module as usize] {
                        let list = &mut given[*module as usize];
                        if !list.contains(&tensor) {
                            list.push(tensor);
                        }
                    }
                }
            });
            for tensor in call.results.iter().flatten() {
                if made_at[tensor.0 as usize] == 0 {
                    made_at[tensor.0 as usize] = at;
                }
            }
        }
        let mut holds = vec![0_u32; tensors];
        for tensor in boundary.kept.iter().chain(boundary.casts) {
            holds[tensor.0 as usize] += 1;
        }
        let mut is_output = vec![false; tensors];
        for tensor in boundary.outputs {
            is_output[tensor.0 as usize] = true;
        }
        Walk {
            places,
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

    /// The model is called, before anything else happens.
    fn enter_root(&mut self) {
        self.has_root = true;
        self.steps.push(Step::Enter(0, Vec::new()));
    }

    /// Ends and begins forward functions until these are the ones that run.
    fn move_to(&mut self, calls: &[u32], lines: &[Line<'a>]) {
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
                    // A loop of one line may call modules of several lists.
                    let is_next = child.is_some_and(|second| {
                        let mut others = statement.children.iter().filter(|first| **first != second);
                        others.any(|first| self.places.are_in_a_loop(*first, second))
                    });
                    statement.line != line.number || is_next
                }
            };
            if is_other {
                let turn = frame.statement.as_ref().filter(|it| it.begins_itself && it.line == line.number);
                let begins_itself = turn.is_some();
                let (mut soon, mut named) = (Vec::new(), Vec::new());
                if let Some(turn) = turn.filter(|turn| !turn.used.is_empty()) {
                    soon.clone_from(&turn.returned);
                    named.clone_from(&turn.used);
                    named.retain(|tensor| frame.locals.iter().any(|(_, tensors)| tensors.contains(tensor)));
                }
                self.end_statement(same - 1);
                let frame = &mut self.frames[same - 1];
                frame.unsure.extend(named);
                frame.soon = soon;
                frame.statement = Some(Statement { begins_itself, ..Statement::new(line, child) });
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
                self.frames[depth].statement = Some(Statement::new(line, child));
            }
        }
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

    /// The number under which a module call is shown; the outermost one is shown apart.
    fn module(&self, call: u32) -> Option<u32> {
        let module = self.places.calls[call as usize].module;
        match self.boundary.inner {
            None => (module != 0).then_some(module),
            // The model stands first among the modules.
            Some(inner) if call == inner => Some(0),
            Some(inner) => {
                let first = self.places.calls[inner as usize].module;
                match module {
                    0 => None,
                    other if other == first => Some(0),
                    other => Some(other),
                }
            }
        }
    }

    /// The innermost forward function returns.
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
        self.let_live(frame.unsure);
        for tensor in held.into_iter().chain(frame.arguments) {
            self.release(tensor);
        }
        if let Some(parent) = self.frames.last_mut()
            && let Some(statement) = &mut parent.statement
        {
            statement.made.extend(&returned);
            statement.returned = returned;
        }
        if self.boundary.inner == Some(frame.call) {
            self.flush();
            self.steps.push(Step::Loss);
            self.is_in_loss = true;
        }
    }

    /// Tells of those of these tensors that are gone by now that they may be there still.
    fn let_live(&mut self, tensors: Vec<TensorId>) {
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

    /// Whether a tensor is used later though no name holds it.
    fn is_nameless(&self, tensor: TensorId) -> bool {
        self.uses[tensor.0 as usize] > 0 && self.holds[tensor.0 as usize] == 0
    }

    /// A statement is done: the names on its left are bound, and what they held before goes.
    fn end_statement(&mut self, depth: usize) {
        let Some(statement) = self.frames[depth].statement.take() else { return };
        let soon = std::mem::take(&mut self.frames[depth].soon);
        self.let_live(soon);
        let reading = statement::read(statement.text);
        if reading.has_several {
            self.frames[depth].unsure.extend(&statement.made);
        }
        let mut made: Vec<TensorId> = Vec::new();
        for tensor in statement.made {
            if !self.is_freed[tensor.0 as usize] && !made.contains(&tensor) {
                made.push(tensor);
            }
        }
        // What is needed later but not bound to a name is on its way to the caller.
        if reading.targets.is_empty() {
            for tensor in made {
                if reading.is_return && self.is_needed(tensor) {
                    self.holds[tensor.0 as usize] += 1;
                    self.frames[depth].locals.push(("", vec![tensor]));
                    continue;
                }
                if reading.is_storing && self.is_nameless(tensor) {
                    self.frames[depth].unsure.push(tensor);
                }
                self.check(tensor);
            }
            return;
        }
        let spread = made.len() == reading.targets.len();
        for (number, target) in reading.targets.into_iter().enumerate() {
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
        for_each_tensor(&call.arguments, &mut |tensor| arguments.push(tensor));
        if let Some(statement) = self.frames.last_mut().and_then(|frame| frame.statement.as_mut()) {
            if statement.is_taking {
                arguments.iter().for_each(|tensor| self.is_taken[tensor.0 as usize] = true);
            }
            statement.made.extend(call.results.iter().flatten());
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

    /// Lets go of a tensor that nothing needs any more.
    fn check(&mut self, tensor: TensorId) {
        let at = tensor.0 as usize;
        if at >= self.boundary.given && !self.is_freed[at] && self.uses[at] == 0 && self.holds[at] == 0 {
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

/// Shows every tensor of some arguments.
pub(super) fn for_each_tensor(arguments: &[Argument], show: &mut impl FnMut(TensorId)) {
    for argument in arguments {
        match argument {
            Argument::Tensor(tensor) => show(*tensor),
            Argument::List(items) => {
                for item in items {
                    if let Argument::Tensor(tensor) = item {
                        show(*tensor);
                    }
                }
            }
            _ => {}
        }
    }
}
