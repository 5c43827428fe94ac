//! Source locations, as people read them: `train.py:12 in train`.

use vramfit_explain::origin::{Activity, FrameKind};
use vramfit_explain::roles::Role;
use vramfit_trace::snapshot::{FrameId, Snapshot, StackId};

/// `file.py:12 in train`.
pub fn location(snapshot: &Snapshot, frame: FrameId) -> String {
    let frame = snapshot.stacks.frame(frame);
    let file = printable(snapshot.strings.get(frame.file));
    let function = printable(snapshot.strings.get(frame.function));
    format!("{file}:{} in {function}", frame.line)
}

/// The frames of a stack, innermost first.
pub fn stack(snapshot: &Snapshot, stack: StackId) -> Vec<String> {
    snapshot.stacks.frame_ids(stack).iter().map(|&id| location(snapshot, id)).collect()
}

/// The innermost frame of a stack that is neither PyTorch's nor native: the library's line, where no line is the
/// user's own.
pub fn library_location(snapshot: &Snapshot, stack: StackId) -> Option<String> {
    let is_library =
        |&&id: &&FrameId| FrameKind::of(snapshot.stacks.frame(id), &snapshot.strings) == FrameKind::Library;
    snapshot.stacks.frame_ids(stack).iter().find(is_library).map(|&id| location(snapshot, id))
}

/// `text` without anything that would steer a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// `text` cut at its beginning to at most `width` characters, at a folder where there is one.
pub fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width || width == 0 {
        return text.to_string();
    }
    let tail: String = text.chars().skip(length - width + 1).collect();
    let tail = tail.find('/').filter(|&at| at < tail.len() / 2).map_or(tail.as_str(), |at| &tail[at..]);
    format!("…{tail}")
}

/// What a program was doing, in a word.
pub fn activity(activity: Activity) -> &'static str {
    match activity {
        Activity::Forward => "forward",
        Activity::Backward => "backward",
        Activity::Optimizer => "optimizer",
        Activity::Other => "other",
        Activity::Unknown => "unknown",
    }
}

/// What an allocation was for, in a few words.
pub fn role(role: Role) -> &'static str {
    match role {
        Role::Earlier => "before the recording",
        Role::Setup => "setup",
        Role::OptimizerState => "optimizer state",
        Role::Gradient => "gradients",
        Role::Activation => "activations",
        Role::Data => "data and loss",
        Role::Kept => "kept over steps",
        Role::BetweenSteps => "between steps",
        Role::Temporary => "temporary",
        Role::BackwardTemporary => "backward temporary",
        Role::OptimizerTemporary => "optimizer temporary",
        Role::Library => "library workspace",
        Role::InStep => "within a step",
        Role::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_location_loses_its_first_folders() {
        assert_eq!(shorten("/home/me/project/train.py:12 in train", 32), "…/project/train.py:12 in train");
        assert_eq!(shorten("/home/me/project/train.py:12 in train", 26), "…/train.py:12 in train");
        assert_eq!(shorten("train.py:12 in train", 40), "train.py:12 in train");
        assert_eq!(shorten("abcdefghij", 5), "…ghij");
    }

    #[test]
    fn control_letters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\nc"), "a\u{fffd}[31mb\u{fffd}c");
    }
}
