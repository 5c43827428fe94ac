//! What to know about an answer: what the model's file does not record, what was guessed, what was not measured on the GPU.

use vramfit_catalogue::{ContextBasis, ContextBytes, TorchRelease};
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Mode;
use vramfit_training::StatePlace;
use vramfit_training::answer::{Answer, CapacityKind, Cause, Device};

use super::{Question, room};
use crate::cudnn::cudnn_notes;
use crate::names::{CountedName, joined};
use crate::ranks;
use crate::size::human;

/// What a desktop with a display takes of a GPU on Linux, at the upper end of what was reported.
const DISPLAY: u64 = 600 << 20;

/// How ranks were measured.
const FAKE_GROUP: &str =
    "ranks were measured one by one, with PyTorch's fake process group, whose collectives only copy";

/// All notes, in the order in which they are shown.
pub fn notes(question: &Question<'_>, answer: &Answer) -> Vec<String> {
    let mut notes = question.bound.model.notes.clone();
    notes.extend(answer.causes.iter().filter_map(|cause| match cause {
        Cause::ModelFile(words) | Cause::Training(words) => Some(words.clone()),
        Cause::RanksNotMeasured => Some(FAKE_GROUP.to_owned()),
        Cause::TorchNotMeasured { version, cudnn } => Some(torch_words(version, *cudnn)),
        Cause::LaterSteps { step } => Some(format!(
            "memory does not repeat within the steps shown: from step {} on it needs up to {}",
            step + 1,
            human(answer.reserved.high())
        )),
        _ => None,
    }));
    let guessed: Vec<CountedName> = answer.guessed().iter().map(CountedName::from).collect();
    if !guessed.is_empty() {
        notes.push(format!("sizes that are not certain: {}", joined(&guessed)));
    }
    notes.extend_from_slice(&question.notes);
    notes.extend(ranks::notes(question.bound, question.training, &answer.expected));
    notes.extend(managed_note(answer));
    notes.extend(host_note(question));
    notes.extend(gpu_notes(&question.device, question.bound, answer));
    notes.extend(display_note(&question.device, answer));
    notes
}

/// What of the optimizer's state is in managed memory.
fn managed_note(answer: &Answer) -> Option<String> {
    let bytes = answer.expected.managed;
    (bytes > 0).then(|| {
        format!(
            "{} of the optimizer's state are in managed memory: neither PyTorch nor nvidia-smi counts them for the process, and the \
             driver moves them to the CPU's memory where the GPU's is full",
            human(bytes)
        )
    })
}

/// What an optimizer on the CPU needs there.
fn host_note(question: &Question<'_>) -> Option<String> {
    let bound = question.bound;
    if question.training.optimizer_state == StatePlace::Gpu || bound.variant.mode != Mode::Train {
        return None;
    }
    let trained = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
    let bytes: u64 = trained.map(|weight| bound.tensor(weight.tensor).bytes).sum();
    Some(format!(
        "the CPU needs {} of pinned memory for copies of the weights and their gradients, and more for the optimizer's state",
        human(2 * bytes)
    ))
}

/// What another PyTorch than the measured one may change.
fn torch_words(version: &str, cudnn: Option<&str>) -> String {
    let measured = TorchRelease::MEASURED;
    let libraries = match (cudnn, measured.cudnn()) {
        (Some(own), Some(measured)) if own != measured => {
            format!(
                ", and its wheels bring cuDNN {own}, not {measured}, so that convolutions may have other workspaces"
            )
        }
        _ => String::new(),
    };
    format!(
        "memory rules are those of torch {measured}, where they were measured; torch {version} may differ{libraries}"
    )
}

/// What the CUDA context rests on.
fn context_words(device: &Device<'_>, answer: &Answer) -> String {
    let ContextBytes { low, high, .. } = answer.context;
    let basis = match device.gpu.estimated_context.basis {
        _ if device.gpu.context.is_some() => return "the CUDA context is measured".to_owned(),
        ContextBasis::PublishedFigures { count: 1 } => "is a published figure".to_owned(),
        ContextBasis::PublishedFigures { count } => format!("is the median of {count} published figures"),
        ContextBasis::Multiprocessors => "follows from the number of multiprocessors".to_owned(),
    };
    format!("the CUDA context {basis} ({}; \"fits\" leaves room for the most)", room(low, high))
}

/// That a display takes memory too, where the whole of a desktop's GPU is asked for.
fn display_note(device: &Device<'_>, answer: &Answer) -> Option<String> {
    let fit = answer.fit.as_ref().filter(|fit| fit.kind == CapacityKind::Gpu && device.gpu.is_consumer())?;
    let beside = device.most_beside(answer.expected.libraries);
    let left = fit.capacity.low.checked_sub(beside + DISPLAY)? >> 20;
    Some(format!(
        "a display on the {} takes memory too, typically 70 to {} on Linux and more than 1 GiB on Windows; `--vram \
         {left}MiB` leaves {1} for it",
        device.gpu.name,
        human(DISPLAY)
    ))
}

/// What was not measured on the GPU, and what to know when using it.
pub fn gpu_notes(device: &Device<'_>, bound: &Bound<'_>, answer: &Answer) -> Vec<String> {
    let (name, compute) = (&device.gpu.name, device.gpu.compute);
    let mut notes: Vec<String> = answer
        .causes
        .iter()
        .filter_map(|cause| match cause {
            Cause::GpuNotMeasured => Some(format!(
                "not measured on this GPU ({name}): {}, cuBLAS's workspaces are from PyTorch's code; `vramfit calibrate` \
                 measures both there",
                context_words(device, answer)
            )),
            Cause::CudnnNotMeasured => {
                Some(format!("cuDNN's workspaces are those of an H200; on the {name} it may choose others"))
            }
            Cause::CudnnTabulated { version } => Some(format!(
                "the workspaces of common convolutions on the {name} are those that cuDNN {version} chooses for compute \
                 capability {compute}; another version may choose others"
            )),
            _ => None,
        })
        .collect();
    notes.extend(cudnn_notes(device));
    if let Some(capacity) = answer.fit.as_ref().map(|fit| fit.capacity).filter(|room| room.low != room.high) {
        notes.push(format!(
            "what CUDA sees of the {name}'s memory is not recorded: from 91 % ({}) to all of it ({}); \"fits\" means in the \
             least of that. PyTorch names it in its out-of-memory error as \"total capacity\"",
            human(capacity.low),
            human(capacity.high)
        ));
    }
    let has_bfloat16 = bound.tensors.iter().any(|tensor| tensor.dtype == Dtype::Bfloat16);
    if has_bfloat16 && !compute.has_bfloat16() {
        notes.push(format!("compute capability {compute} has no bfloat16: PyTorch emulates it, slowly"));
    }
    if !compute.runs_cuda_13() {
        let mut note = format!("torch 2.11's CUDA 13 wheels do not run on compute capability {compute}");
        if let Some(newest) = &device.gpu.newest {
            note += &format!(": use those of CUDA {}", newest.cuda);
            note += &newest.torch.as_ref().map_or_else(String::new, |torch| format!(", which end with torch {torch}"));
        }
        notes.push(note);
    }
    notes
}
