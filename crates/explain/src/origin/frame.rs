//! Whose code a frame is: the user's, PyTorch's, another library's, or native.

use std::borrow::Cow;

use vramfit_trace::snapshot::{Frame, Strings};

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The program's own Python.
    User,
    /// PyTorch's Python.
    Torch,
    /// Another installed package, the standard library, or generated code.
    Library,
    /// C++ or CUDA, or unknown.
    Native,
}

/// Endings of files that are not Python.
const NATIVE_ENDINGS: [&str; 12] =
    [".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".hh", ".cu", ".cuh", ".so", ".S", ".pyx"];
/// What PyTorch's folder contains; this distinguishes it from a user's folder that is also called `torch`.
const TORCH_FOLDERS: [&str; 14] = [
    "nn/",
    "optim/",
    "autograd/",
    "utils/",
    "cuda/",
    "amp/",
    "distributed/",
    "fx/",
    "functional.py",
    "profiler/",
    "accelerator/",
    "ao/",
    "library.py",
    "_",
];

impl FrameKind {
    /// The kind of `frame`.
    pub fn of(frame: Frame, strings: &Strings) -> FrameKind {
        FrameKind::of_path(strings.get(frame.file), strings.get(frame.function))
    }

    fn of_path(path: &str, function: &str) -> FrameKind {
        if path.is_empty() || path == "??" || path.contains(".so.") {
            return FrameKind::Native;
        }
        // C++'s own headers have no ending at all.
        let is_native = NATIVE_ENDINGS.iter().any(|ending| path.ends_with(ending)) || function.contains("::");
        if is_native || path.contains("/include/c++/") {
            return FrameKind::Native;
        }
        if path.starts_with('<') {
            let is_typed = path.starts_with("<ipython") || path.starts_with("<stdin") || path.starts_with("<console");
            // `python -c` runs a module called <string>; a dataclass's generated methods are called so too.
            let is_command = path == "<string>" && function == "<module>";
            return if is_typed || is_command { FrameKind::User } else { FrameKind::Library };
        }
        of_plain_path(&plain(path))
    }
}

/// A path with the separators of Linux; a recording made on Windows has others.
pub fn plain(path: &str) -> Cow<'_, str> {
    if path.contains('\\') { Cow::Owned(path.replace('\\', "/")) } else { Cow::Borrowed(path) }
}

fn of_plain_path(path: &str) -> FrameKind {
    if torch_path(path).is_some() {
        return FrameKind::Torch;
    }
    let is_installed = path.contains("site-packages/") || path.contains("dist-packages/");
    if is_installed || path.contains("torchinductor_") || is_standard_library(path) {
        return FrameKind::Library;
    }
    FrameKind::User
}

/// The part of a plain path below PyTorch's own folder, for a file of PyTorch.
pub fn torch_path(path: &str) -> Option<&str> {
    for folder in ["site-packages/torch/", "dist-packages/torch/"] {
        if let Some(at) = path.rfind(folder) {
            return Some(&path[at + folder.len()..]);
        }
    }
    let below = match path.strip_prefix("torch/") {
        Some(below) => below,
        None => &path[path.rfind("/torch/")? + "/torch/".len()..],
    };
    TORCH_FOLDERS.iter().any(|folder| below.starts_with(folder)).then_some(below)
}

/// `…/lib/python3.12/contextlib.py`, `…\Python312\Lib\contextlib.py`, or `python3/…` where a recording was stripped of
/// its machine's paths.
fn is_standard_library(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let mut parts = lower.split('/').peekable();
    let mut previous = "";
    let mut is_first = true;
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        if !is_last && is_python_folder(part) && (is_first || previous == "lib" || previous == "lib64") {
            return true;
        }
        if !is_last && part == "lib" && is_python_folder(previous) {
            return true;
        }
        previous = part;
        is_first = false;
    }
    false
}

fn is_python_folder(part: &str) -> bool {
    part.strip_prefix("python")
        .is_some_and(|version| version.starts_with('3') && version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_belongs_to_whoever_wrote_its_file() {
        use FrameKind::{Library, Native, Torch, User};
        for (path, function, kind) in [
            ("train.py", "train", User),
            ("/home/me/project/torch/model.py", "forward", User),
            ("/home/me/my_torch/nn.py", "forward", User),
            ("cases/leak_graph.py", "train", User),
            ("/tmp/ipykernel_123/456.py", "<module>", User),
            ("<ipython-input-3-abc>", "<module>", User),
            ("<string>", "<module>", User),
            ("<string>", "__init__", Library),
            ("<frozen importlib._bootstrap>", "_call", Library),
            ("<eval_with_key>.7", "forward", Library),
            ("x/site-packages/torch/nn/modules/module.py", "_call_impl", Torch),
            ("site-packages/torch/optim/adam.py", "step", Torch),
            ("/home/me/pytorch/torch/nn/functional.py", "linear", Torch),
            ("/home/me/pytorch/torch/_tensor.py", "backward", Torch),
            ("site-packages/transformers/models/gpt2/modeling_gpt2.py", "forward", Library),
            ("/usr/lib/python3/dist-packages/numpy/core.py", "f", Library),
            ("/usr/lib/python3.11/contextlib.py", "inner", Library),
            ("C:\\Python312\\Lib\\contextlib.py", "inner", Library),
            ("C:\\Users\\me\\train.py", "main", User),
            ("C:\\Users\\me\\venv\\Lib\\site-packages\\torch\\optim\\adam.py", "step", Torch),
            ("C:\\Users\\me\\venv\\Lib\\site-packages\\transformers\\trainer.py", "train", Library),
            ("python3/threading.py", "run", Library),
            ("/tmp/torchinductor_me/ab/cab.py", "call", Library),
            ("??", "cudaMalloc", Native),
            ("/pytorch/aten/src/ATen/native/Linear.cpp", "at::linear", Native),
            ("/usr/include/c++/13/functional", "operator()", Native),
            ("elsewhere/functional", "std::function<void ()>::operator()", Native),
            ("", "", Native),
        ] {
            assert_eq!(FrameKind::of_path(path, function), kind, "{path}");
        }
    }
}
