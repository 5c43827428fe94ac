//! How `forward` functions and their statements begin and end, and what they hold.

use super::Walk;
use super::frame::{Frame, Statement};
use crate::pt2::call_site::Line;
use crate::pt2::statement::ParsedLine;
use vramfit_graph::model::{Step, TensorId};

impl<'a> Walk<'a> {
    /// Ends and begins `forward` functions until these are the running ones.
    pub(super) fn move_to(&mut self, calls: &[u32], lines: &[Line]) {
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

    /// The innermost `forward` returns.
    pub(super) fn leave(&mut self) {
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

    /// A statement ends: its targets are bound, and what they held before is released.
    pub(super) fn end_statement(&mut self, depth: usize) {
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
}
