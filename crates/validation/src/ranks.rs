//! One rank of trainings on several GPUs: the page `docs/parallel-accuracy.md`.

use vramfit_allocator::Settings;
use vramfit_catalogue::Catalogue;
use vramfit_training::answer::{Device, Scenarios};

use crate::estimate::overview;
use crate::measured::measured;
use crate::recordings::Result;
use crate::simulation::with_bound;

/// The part of the cases that the rules were written with.
const LISTED: u32 = 5;
/// The part of those that were drawn at random after the rules stood.
const DRAWN: u32 = 6;

/// How many truths are inside the ranges: allocated, reserved, and of how many cases.
fn inside(part: u32) -> Result<(usize, usize, usize)> {
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let device = Device { gpu, is_asked: false, vram: None, cudnn: None };
    let (mut allocated, mut reserved, mut count) = (0, 0, 0);
    for case in measured()?.cases.values().filter(|case| case.part == part && !case.phases.is_empty()) {
        let answer = with_bound(case, |bound, settings| {
            let scenarios = Scenarios::record(bound, settings, device.machine()).map_err(|error| error.to_string())?;
            scenarios.answer(&device, &device.settings(Settings::default()), false).map_err(|error| error.to_string())
        })??;
        count += 1;
        allocated += usize::from((answer.allocated.low()..=answer.allocated.high()).contains(&case.peak_allocated));
        reserved += usize::from((answer.reserved.low()..=answer.reserved.high()).contains(&case.peak_reserved));
    }
    Ok((allocated, reserved, count))
}

/// The page `docs/parallel-accuracy.md`.
///
/// # Errors
/// The measurements cannot be read.
pub fn page() -> Result<String> {
    let table = |part: u32| -> Result<String> {
        let (allocated, reserved, count) = inside(part)?;
        let text = overview(part)?;
        Ok(format!("```\n{text}  inside the range: {allocated} allocated, {reserved} reserved, of {count}\n```\n"))
    };
    let (listed, drawn) = (table(LISTED)?, table(DRAWN)?);
    Ok(format!(
        "# How exact the estimate of a rank is\n\nMade by `cargo run --release -p vramfit-validation -- parallel --write`: the first rank of \
         trainings on 2 to 64 GPUs, measured on one H200 (torch 2.11.0+cu130, two runs and a trace per case). The real code of \
         `DistributedDataParallel`, `ZeroRedundancyOptimizer`, `fully_shard`, `parallelize_module` and DeepSpeed 0.19.8 ran; PyTorch's fake process group stood for the other \
         ranks. Its collectives only copy, so NCCL's own memory is not measured, nor what a real collective may hold of its tensors \
         until it is waited for. [several-gpus.md](several-gpus.md) says how the numbers are found; the columns are those of \
         [estimate-accuracy.md](estimate-accuracy.md).\n\n## The list that the rules were written with\n\n{listed}\nThe worst reserved memory is that of `ddp-resnet50-amp`: here the \
         workspaces of its layers are guessed by the built-in tables. Where the cuDNN of torch's wheel is there to be asked, `vramfit estimate` \
         has both figures of this case to the byte: `vramfit estimate validation/captures/resnet50.vramfit --batch 12 --amp fp16 --optimizer momentum \
         --parallel ddp --world 8 --gpu H200 --cudnn libcudnn.so.9` says 739,345,920 and 763,363,328 bytes with cuDNN 9.19.0, as measured.\n\n## A list drawn at random\n\nDrawn after \
         the rules stood (`validation/cases/parallel.py`) and measured once.\n\nThe first list has 80 cases (seed 23). Three cases PyTorch itself refuses \
         (batch norm and losses whose types do not match). As it came out: 69 of 77 peaks to the byte, 75 within 1 %, the worst -14.6 \
         %, reserved memory within 2 % in 73. That showed a mistake in the rules (with several copies of the model, what is reduced over \
         them is held until that is done) and one in the list (a case asked for the optimizer's state on the CPU, which \
         `ZeroRedundancyOptimizer` does not do).\n\nThe second list has 40 cases of tensor parallelism (seed 24). Six PyTorch itself refuses \
         (heads that the GPUs do not divide). As it came out: 22 of 34 peaks to the byte, all within 0.32 %, reserved memory within 2 % in all. \
         That showed when a rank computes its share of a bias, and that the whole weight in the CPU's memory is freed.\n\nThe third list has 50 \
         cases of ZeRO 1 and 2 of DeepSpeed (seed 25). As it came out: 43 of 50 peaks to the byte, 48 within 1 %, the worst +10.7 %, reserved memory within \
         2 % in 45. The two above 1 % are in fp16, where the gradients of a new model overflow and DeepSpeed skips the update: the range covers it now. The others \
         showed that recurrent weights that are not one block are copied for cuDNN, and when Adagrad makes its state.\n\nThe fourth list has 40 cases of ZeRO 3 \
         (seed 26). As it came out: 38 of 40 peaks to the byte, the worst -0.54 %, reserved memory within 2 % in 38, the worst -3.3 %. With all of this mended:\n\n{drawn}"
    ))
}
