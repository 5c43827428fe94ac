//! Activation checkpointing: blocks run again in the backward pass instead of keeping what they saved.

use vramfit_eager::forward::{Choice, block_names};

use super::{Finding, Trick};
use crate::control::Control;
use crate::effect::Effect;
use crate::selective::{ModuleTree, modules, updates_buffers};
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct Checkpointing;

impl Trick for Checkpointing {
    fn name(&self) -> &'static str {
        "activation checkpointing"
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn conflicts(&self) -> &'static str {
        "caches (use_cache) and modules that write into their input"
    }

    fn written(&self) -> &'static str {
        "module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.checkpoint != Choice::Nothing {
            return Err("something is checkpointed already; start without --checkpoint to compare".to_owned());
        }
        let bound = bench.bind(start).ok_or("the model cannot be bound")?;
        let tree = modules(&bound);
        let mut blocks = whole_blocks(&block_names(&bound), &tree);
        let every = |step: usize, names: &[String]| -> Setup {
            let mut setup = start.clone();
            let names = names.iter().step_by(step).cloned().collect();
            setup.training.checkpoint = Choice::modules(names);
            setup
        };
        if blocks.is_empty() {
            blocks.extend(tree.outermost().into_iter().map(str::to_owned));
            return if blocks.is_empty() {
                Err(tree.why_not(&[]).unwrap_or("the model has no modules within it").to_owned())
            } else {
                Ok(vec![every(1, &blocks)])
            };
        }
        let mut setups = vec![every(1, &blocks)];
        setups.extend([2, 3, 4].into_iter().filter(|step| blocks.len() > *step).map(|step| every(step, &blocks)));
        Ok(setups)
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.checkpoint.clone_from(&from.training.checkpoint);
    }

    fn state(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match &setup.training.checkpoint {
            Choice::Nothing => "nothing checkpointed".to_owned(),
            Choice::Blocks => "every block checkpointed".to_owned(),
            Choice::Sequential(segments) => format!("checkpoint_sequential in {segments} segments"),
            Choice::Modules(names) => format!("checkpoint {}", listed(names)),
        }
    }

    fn warning(&self, bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        let bound = bench.bind(setup)?;
        updates_buffers(&bound, &setup.training.checkpoint).then(|| {
            "buffers such as a batch norm's running statistics are updated twice a step where they are checkpointed: they \
             follow the data faster"
                .to_owned()
        })
    }

    fn findings(&self, bench: &Workbench<'_>, start: &Setup, _control: &Control) -> Vec<Finding> {
        let Some(bound) = bench.bind(start) else { return Vec::new() };
        let (tree, blocks) = (modules(&bound), block_names(&bound));
        let is_refused = !blocks.is_empty() && whole_blocks(&blocks, &tree).is_empty() && tree.any();
        let reason = tree.why_not(&blocks).filter(|_| is_refused);
        let what = reason.map(|reason| format!("no block as a whole, only parts of them: {reason}"));
        what.into_iter().map(|what| Finding { what, bytes: None }).collect()
    }
}

/// The blocks that may be checkpointed as a whole.
fn whole_blocks(blocks: &[String], tree: &ModuleTree) -> Vec<String> {
    blocks.iter().filter(|name| tree.may_checkpoint(name)).cloned().collect()
}

/// Names with what they share written once: `encoder.layer.{0..5}`, and how many there are.
pub fn listed(names: &[String]) -> String {
    // Names that differ in one number only go together.
    let mut groups: Vec<(String, String, Vec<u64>)> = Vec::new();
    let mut plain: Vec<&str> = Vec::new();
    for name in names {
        let parts: Vec<&str> = name.split('.').collect();
        let Some(at) = parts.iter().position(|part| part.bytes().all(|byte| byte.is_ascii_digit())) else {
            plain.push(name);
            continue;
        };
        let (head, tail) = (parts[..at].join("."), parts[at + 1..].join("."));
        let number = parts[at].parse().unwrap_or(0);
        match groups.iter_mut().find(|(one, other, _)| *one == head && *other == tail) {
            Some((_, _, numbers)) => numbers.push(number),
            None => groups.push((head, tail, vec![number])),
        }
    }
    let mut texts: Vec<String> = groups
        .into_iter()
        .map(|(head, tail, mut numbers)| {
            numbers.sort_unstable();
            let head = if head.is_empty() { head } else { format!("{head}.") };
            let tail = if tail.is_empty() { tail } else { format!(".{tail}") };
            match numbers.as_slice() {
                [one] => format!("{head}{one}{tail}"),
                _ => format!("{head}{{{}}}{tail}", ranges(&numbers)),
            }
        })
        .collect();
    texts.extend(plain.into_iter().map(str::to_owned));
    texts.join(", ")
}

/// `0..3,7`.
fn ranges(numbers: &[u64]) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < numbers.len() {
        let first = numbers[at];
        while at + 1 < numbers.len() && numbers[at + 1] == numbers[at] + 1 {
            at += 1;
        }
        texts.push(if numbers[at] == first { first.to_string() } else { format!("{first}..{}", numbers[at]) });
        at += 1;
    }
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_a_number_go_together() {
        let names: Vec<String> =
            ["h.0", "h.1", "h.2", "h.5", "h.3.mlp", "embed"].iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed(&names), "h.{0..2,5}, h.3.mlp, embed");
    }
}
