//! One rank of trainings on several GPUs: the page `docs/parallel-accuracy.md`.

use std::fmt::Write as _;

use vramfit_allocator::Settings;
use vramfit_catalogue::Catalogue;
use vramfit_cudnn::convolution::LiveAnswers;
use vramfit_eager::machine::{H200, Machine};
use vramfit_training::Run;
use vramfit_training::answer::{Device, Scenarios};

use crate::estimate::overview_on;
use crate::measured::measured;
use crate::recorded_answers::{RecordedAnswers, machine, recorded};
use crate::recordings::Result;
use crate::simulation::{simulate_on, with_bound};

/// The part of the cases that the rules were written with.
const LISTED: u32 = 5;
/// The part of those that were drawn at random after the rules stood.
const DRAWN: u32 = 6;
/// The part of those that were drawn later, of models that no other list has.
const UNSEEN: u32 = 7;

/// The peaks of a run: allocated, reserved.
fn peaks(run: &Run) -> (u64, u64) {
    (run.phases.iter().skip(1).map(|phase| phase.peak.allocated).max().unwrap_or(0), run.peak_reserved)
}

/// A thread remembers answers, and does not ask again. A new one shows whether a case asks.
fn in_new_thread<T: Send>(simulation: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| scope.spawn(simulation).join().map_err(|_| "the simulation panicked")?)
}

/// The cases for which cuDNN's recorded answers give other peaks than the tables of vramfit.
fn differences(answers: &RecordedAnswers) -> Result<String> {
    let mut text = String::from(
        "| case | with the tables: allocated | reserved | with the answers: allocated | reserved |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    let (mut asked, mut others) = (0, 0);
    for (name, case) in measured()?.cases.iter().filter(|(_, case)| case.is_rank()) {
        let before = answers.questions().0;
        let of = |machine: Machine| simulate_on(case, machine, |_, run| peaks(run));
        let with_answers = in_new_thread(|| of(machine()?))?;
        if answers.questions().0 == before {
            continue;
        }
        asked += 1;
        let with_tables = of(H200)?;
        if with_tables != with_answers {
            others += 1;
            let percent = |predicted: u64, truth: u64| (predicted as f64 / truth as f64 - 1.0) * 100.0;
            let cells = |(allocated, reserved): (u64, u64)| {
                let (allocated, reserved) =
                    (percent(allocated, case.peak_allocated), percent(reserved, case.peak_reserved));
                format!("{allocated:+.4} % | {reserved:+.2} %")
            };
            let _ = writeln!(text, "| `{name}` | {} | {} |", cells(with_tables), cells(with_answers));
        }
    }
    match answers.questions().1 {
        0 => Ok(format!(
            "{asked} cases ask it about a layer. In {others} of them the peaks differ from those by the tables:\n\n{text}"
        )),
        missing => {
            Err(format!("{missing} layers have no recorded answer: `vramfit-validate record-cudnn` asks a library"))
        }
    }
}

/// How many truths are inside the ranges: allocated, reserved, and of how many cases.
fn inside(part: u32) -> Result<(usize, usize, usize)> {
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let device = Device { gpu, is_asked: false, vram: None, cudnn: Some(recorded()?) };
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
        let text = overview_on(part, machine()?)?;
        Ok(format!("```\n{text}  inside the range: {allocated} allocated, {reserved} reserved, of {count}\n```\n"))
    };
    let answers = recorded()?;
    let (listed, drawn, unseen, differ) = (table(LISTED)?, table(DRAWN)?, table(UNSEEN)?, differences(answers)?);
    let version = answers.version().map(|version| version.to_string()).unwrap_or_default();
    let date = &answers.recording.date;
    Ok(format!(
        "# How exact the estimate of a rank is\n\nMade by `cargo run --release -p vramfit-validation -- parallel --write`: the first rank of \
         trainings on 2 to 64 GPUs, measured on one H200 (torch 2.11.0+cu130, two runs and a trace per case). The real code of \
         `DistributedDataParallel`, `ZeroRedundancyOptimizer`, `fully_shard`, `parallelize_module` and DeepSpeed 0.19.8 ran; PyTorch's fake process group stood for the other \
         ranks. Its collectives only copy, so NCCL's own memory is not measured, nor what a real collective may hold of its tensors \
         until it is waited for. [several-gpus.md](several-gpus.md) says how the numbers are found; the columns are those of \
         [estimate-accuracy.md](estimate-accuracy.md).\n\n## cuDNN\n\nWhat a convolution's workspace takes, the product asks the cuDNN of torch's wheel, where it is installed. These tables do what it does, with answers that \
         cuDNN {version} gave on {date} without a GPU about the layers of all these cases: `vramfit-validate record-cudnn LIBRARY DATE` writes them to \
         `validation/measured/cudnn-answers.jsonl.gz`, and no library is needed to read them. Without a library (`--cudnn off`) the built-in tables are used. {differ}\n\
         ## The list that the rules were written with\n\n{listed}\n## A list drawn at random\n\nDrawn after \
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
         (seed 26). As it came out: 38 of 40 peaks to the byte, the worst -0.54 %, reserved memory within 2 % in 38, the worst -3.3 %. With all of this mended:\n\n{drawn}\nFar off in reserved memory \
         are two kinds. In fp16 a new model's gradients overflow, and the range covers that. In ZeRO 3 with `overlap_comm` it depends on how far the GPU is behind: the two runs of `drawn-ds3-00` \
         reserved 16,700 and 16,598 MiB, those of `drawn-ds3-27` 956 and 928, of which the second is the predicted one. That of `drawn-ds3-00` is 3.3 % too low, more than its runs differ by; \
         it is not explained.\n\n## Models that no other list has\n\nThe fifth list \
         (`validation/cases/ranks_unseen.py`, seed 27) has 47 cases of 25 models that are in no other list, with all ways of spreading. The program was frozen (the state of commit ed62adb9, without a cuDNN), and its answers were \
         written down; then the cases were measured once. Three of them PyTorch itself refuses: a batch norm under `param_dtype` (`drawn-new-36`), heads that a model's code counts \
         itself (`drawn-new-28`), and blocks within blocks on which `fully_shard` was called from the outside in (`drawn-new-24`). Three the program refused: tensor parallelism of Cohere and Helium, whose rotary \
         embedding stacks two halves. Two (`drawn-new-14` and `-40`) had no capture then, because the script for captures gave a model inputs of another type; they were predicted by the same frozen program \
         afterwards, before their figures were looked at. As it came out: **41 of 41 predicted peaks to the byte, allocated and reserved.** Then stacked tensors were followed, and a batch norm under `param_dtype` has a \
         note. With the program as it is now:\n\n{unseen}"
    ))
}
