//! Where an allocation comes from, by its call stack: whose line it is, and what the program was doing.

mod frame;

use std::collections::HashMap;

use vramfit_trace::snapshot::{Event, Frame, FrameId, Snapshot, StackId, StringId};

pub use frame::FrameKind;
use frame::{plain, torch_path};

/// What a program was doing when it allocated memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// Inside a module's call.
    Forward,
    /// In autograd: on its threads, which carry no Python frames, or in a call of `backward`.
    Backward,
    /// In an optimizer, a gradient scaler or gradient clipping.
    Optimizer,
    /// Anything else: moving data, computing a loss, building the model.
    Other,
    /// Not known: the recording has no frames.
    Unknown,
}

/// A call site at the level of the program's loops: the line that calls the model, with all its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

impl SiteId {
    /// Unknown.
    pub const NONE: SiteId = SiteId(0);
}

/// The frames of a stack inside a [`SiteId`]: the same for two calls of one model from different lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InnerId(pub u32);

/// What is known from a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The innermost line of the user's own code.
    pub owner: Option<FrameId>,
    /// The user's line that called the outermost module, or else `owner`: where the loop is.
    pub caller: Option<FrameId>,
    /// The call site at the level of the program's loops.
    pub site: SiteId,
    /// The frames inside that call site.
    pub inner: InnerId,
    /// What the program was doing; `None` for a thread of unknown purpose, which counts as doing what was done before.
    pub activity: Option<Activity>,
}

/// The origins of all stacks of a recording.
#[derive(Clone, Debug)]
pub struct Origins {
    table: Vec<Origin>,
    /// Whether the events carry frames at all; an event without them is then one of autograd's threads.
    pub has_frames: bool,
}

/// A recording in which fewer than one event in so many has frames counts as one without frames.
const FRAMED_SHARE: usize = 50;

impl Origins {
    /// Reads every stack of `snapshot` once. The root of the main thread is derived from `events`.
    pub fn of(snapshot: &Snapshot, events: &[Event]) -> Origins {
        let framed = events.iter().filter(|event| !event.stack.is_none()).count();
        let has_frames = framed > 0 && framed >= events.len() / FRAMED_SHARE;
        let kinds = FrameKinds::of(snapshot);
        let main_root = main_root(snapshot, events);
        let mut sites: HashMap<&[FrameId], u32> = HashMap::new();
        let mut inners: HashMap<&[FrameId], u32> = HashMap::new();
        let table = (0..snapshot.stacks.len()).map(|index| {
            let stack = StackId(u32::try_from(index).unwrap_or(u32::MAX));
            let ids = snapshot.stacks.frame_ids(stack);
            if ids.is_empty() {
                let activity = Some(if has_frames { Activity::Backward } else { Activity::Unknown });
                return Origin { owner: None, caller: None, site: SiteId::NONE, inner: InnerId(0), activity };
            }
            let marks = Marks::of(ids, &kinds);
            let next = u32::try_from(sites.len() + 1).unwrap_or(u32::MAX);
            let site = SiteId(*sites.entry(&ids[marks.site..]).or_insert(next));
            let next = u32::try_from(inners.len() + 1).unwrap_or(u32::MAX);
            let inner = InnerId(*inners.entry(&ids[..marks.site]).or_insert(next));
            let root = root_of(snapshot, ids[ids.len() - 1]);
            Origin { owner: marks.owner, caller: marks.caller, site, inner, activity: marks.activity(root, main_root) }
        });
        Origins { table: table.collect(), has_frames }
    }

    /// The origin of `stack`.
    pub fn get(&self, stack: StackId) -> Origin {
        self.table[stack.0 as usize]
    }
}

/// The outermost function of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Root {
    file: StringId,
    function: StringId,
    is_torch: bool,
}

fn root_of(snapshot: &Snapshot, id: FrameId) -> Root {
    let Frame { file, function, .. } = snapshot.stacks.frame(id);
    Root { file, function, is_torch: torch_path(&plain(snapshot.strings.get(file))).is_some() }
}

/// The outermost function of most stacks: the one the main thread began with.
fn main_root(snapshot: &Snapshot, events: &[Event]) -> Option<Root> {
    let mut counts: HashMap<FrameId, u64> = HashMap::new();
    for event in events {
        if let Some(&outermost) = snapshot.stacks.frame_ids(event.stack).last() {
            *counts.entry(outermost).or_default() += 1;
        }
    }
    let mut roots: HashMap<Root, u64> = HashMap::new();
    for (frame, count) in counts {
        *roots.entry(root_of(snapshot, frame)).or_default() += count;
    }
    roots.into_iter().max_by_key(|&(root, count)| (count, root.file, root.function)).map(|(root, _)| root)
}

/// What is known from a single frame.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FrameFacts {
    kind: FrameKind,
    mark: Option<Mark>,
}

/// What a frame shows the program is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    ModuleCall,
    Backward,
    Optimizer,
}

struct FrameKinds(Vec<FrameFacts>);

impl FrameKinds {
    fn of(snapshot: &Snapshot) -> FrameKinds {
        let mut facts = Vec::new();
        for index in 0..snapshot.stacks.len() {
            let stack = StackId(u32::try_from(index).unwrap_or(u32::MAX));
            for &id in snapshot.stacks.frame_ids(stack) {
                let index = id.0 as usize;
                if index >= facts.len() {
                    facts.resize(index + 1, None);
                }
                if facts[index].is_none() {
                    let frame = snapshot.stacks.frame(id);
                    let kind = FrameKind::of(frame, &snapshot.strings);
                    let file = snapshot.strings.get(frame.file);
                    facts[index] =
                        Some(FrameFacts { kind, mark: mark_of(kind, file, snapshot.strings.get(frame.function)) });
                }
            }
        }
        let unseen = FrameFacts { kind: FrameKind::Native, mark: None };
        FrameKinds(facts.into_iter().map(|fact| fact.unwrap_or(unseen)).collect())
    }

    fn get(&self, id: FrameId) -> FrameFacts {
        self.0[id.0 as usize]
    }
}

fn mark_of(kind: FrameKind, file: &str, function: &str) -> Option<Mark> {
    if kind == FrameKind::Native {
        return function.contains("autograd::Engine").then_some(Mark::Backward);
    }
    let file = plain(file);
    let below = torch_path(&file)?;
    match below {
        "nn/modules/module.py" if matches!(function, "_call_impl" | "_wrapped_call_impl" | "__call__") => {
            Some(Mark::ModuleCall)
        }
        "_dynamo/eval_frame.py" => Some(Mark::ModuleCall),
        "autograd/graph.py" if function == "_engine_run_backward" => Some(Mark::Backward),
        "_tensor.py" if function == "backward" => Some(Mark::Backward),
        "autograd/__init__.py" if matches!(function, "backward" | "grad" | "_make_grads") => Some(Mark::Backward),
        "amp/grad_scaler.py" | "cuda/amp/grad_scaler.py" | "nn/utils/clip_grad.py" if function != "scale" => {
            Some(Mark::Optimizer)
        }
        _ if below.starts_with("optim/") && function != "__init__" => Some(Mark::Optimizer),
        _ => None,
    }
}

/// The significant frames of one stack; positions count from the innermost frame.
struct Marks {
    owner: Option<FrameId>,
    caller: Option<FrameId>,
    site: usize,
    innermost_mark: Option<Mark>,
}

impl Marks {
    fn of(ids: &[FrameId], kinds: &FrameKinds) -> Marks {
        let is_user = |&&id: &&FrameId| kinds.get(id).kind == FrameKind::User;
        let owner_at = ids.iter().position(|id| is_user(&id));
        let calls_module = |index: usize| index > 0 && kinds.get(ids[index - 1]).mark == Some(Mark::ModuleCall);
        let is_own = |index: usize| !matches!(kinds.get(ids[index]).kind, FrameKind::Torch | FrameKind::Native);
        let outermost_call = (0..ids.len()).rev().find(|&index| calls_module(index) && is_own(index));
        let user_call =
            (0..ids.len()).rev().find(|&index| calls_module(index) && kinds.get(ids[index]).kind == FrameKind::User);
        let innermost_own = || (0..ids.len()).find(|&index| is_own(index));
        let site = outermost_call.or(owner_at).or_else(innermost_own).unwrap_or(ids.len() - 1);
        let owner = owner_at.map(|index| ids[index]);
        Marks {
            owner,
            caller: user_call.map(|index| ids[index]).or(owner),
            site,
            innermost_mark: ids.iter().find_map(|&id| kinds.get(id).mark),
        }
    }

    /// The innermost mark decides: an optimizer's closure runs a forward pass inside the optimizer.
    fn activity(&self, root: Root, main_root: Option<Root>) -> Option<Activity> {
        let is_main = main_root == Some(root);
        if !is_main && root.is_torch {
            // What autograd's threads call in Python: recomputed checkpoints, custom functions.
            return Some(Activity::Backward);
        }
        match self.innermost_mark {
            Some(Mark::ModuleCall) => Some(Activity::Forward),
            Some(Mark::Backward) => Some(Activity::Backward),
            Some(Mark::Optimizer) => Some(Activity::Optimizer),
            None if is_main => Some(Activity::Other),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_a_recording_made_on_windows_says_the_same() {
        for (below, function, mark) in [
            ("nn/modules/module.py", "_call_impl", Some(Mark::ModuleCall)),
            ("autograd/graph.py", "_engine_run_backward", Some(Mark::Backward)),
            ("optim/adam.py", "step", Some(Mark::Optimizer)),
            ("optim/adam.py", "__init__", None),
        ] {
            let linux = format!("site-packages/torch/{below}");
            let windows = format!(r"site-packages\torch\{}", below.replace('/', r"\"));
            for path in [linux, windows] {
                assert!(mark_of(FrameKind::Torch, &path, function) == mark, "{path} {function}");
            }
        }
    }
}
