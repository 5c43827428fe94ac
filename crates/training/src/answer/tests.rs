//! Ranges and verdicts of runs that are made up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::OutOfMemory;
use vramfit_catalogue::{Catalogue, Gpu};
use vramfit_eager::autograd::{CudnnSources, Libraries};

use super::*;
use crate::report::{Failure, LaterPeaks, Peak, Phase, PhaseReport, Run};

/// A training that leaves nothing open.
const OPEN: OpenQuestions = OpenQuestions {
    is_cudnn_benchmarked: false,
    may_skip_updates: false,
    has_assumed_sizes: false,
    largest_uncertain: 0,
};

/// A run that reserves so much.
fn run(peak_reserved: u64) -> Run {
    Run {
        phases: Vec::new(),
        peak_reserved,
        later: None,
        managed: 0,
        missing: Default::default(),
        guessed: Default::default(),
        cudnn_sources: Default::default(),
        libraries: Default::default(),
        failure: None,
        journal: Vec::new(),
        labels: Vec::new(),
        segments: Vec::new(),
    }
}

fn failing(peak_reserved: u64) -> Run {
    let error = OutOfMemory {
        requested: 1,
        block: 512,
        segment: 2 << 20,
        allocated: 0,
        reserved: peak_reserved,
        in_private_pools: 0,
        cap: None,
    };
    Run { failure: Some(Failure { error, origin: 0 }), ..run(peak_reserved) }
}

fn runs(expected: Run, other_orders: Vec<Run>, alternatives: Vec<Run>) -> Runs {
    let causes = Causes::of([Cause::PythonLifetimes]).unwrap();
    let alternatives = (!alternatives.is_empty()).then_some(AlternativeRuns { runs: alternatives, causes });
    Runs { expected, other_orders, unlikely_orders: Vec::new(), alternatives }
}

fn reserved(runs: &Runs) -> Range {
    Range::of(runs, |run| run.peak_reserved, |later| later.reserved)
}

fn gpu() -> Gpu {
    Catalogue::built_in().unwrap().find("H200").unwrap().clone()
}

fn answer(runs: Runs, gpu: &Gpu, vram: u64) -> Answer {
    let device = Device { gpu, is_asked: false, vram: Some(vram), cudnn: None };
    Answer::new(runs, None, &[], OPEN, &device)
}

#[test]
fn a_range_that_is_spread_names_what_spreads_it() {
    assert_eq!(reserved(&runs(run(5), vec![run(5)], vec![run(5)])), Range::Single(5));
    let causes = |runs: &Runs| reserved(runs).causes().cloned().collect::<Vec<_>>();
    assert_eq!(causes(&runs(run(5), vec![run(6)], vec![])), [Cause::AddressOrder]);
    assert_eq!(causes(&runs(run(5), vec![run(5)], vec![run(7)])), [Cause::PythonLifetimes]);
    assert_eq!(causes(&runs(run(5), vec![run(6)], vec![run(4)])), [Cause::PythonLifetimes, Cause::AddressOrder]);
    // Within what addresses alone make of it, nothing else is to blame.
    assert_eq!(causes(&runs(run(5), vec![run(7)], vec![run(6)])), [Cause::AddressOrder]);
    assert_eq!(Causes::of([]), None);
}

#[test]
fn what_cudnn_answered_without_the_gpu_is_never_exact_and_replaces_another_gpus_workspaces() {
    let catalogue = Catalogue::built_in().unwrap();
    let (measured, other) = (gpu(), catalogue.find("RTX 3060").unwrap());
    let causes = |gpu: &Gpu, cudnn_sources: CudnnSources| {
        let run = Run { libraries: Libraries { dnn: 1, ..Libraries::default() }, cudnn_sources, ..run(5) };
        let device = Device { gpu, is_asked: false, vram: None, cudnn: None };
        device.unmeasured(&run).collect::<Vec<_>>()
    };
    use Cause::{CudnnAsked, CudnnNotMeasured, CudnnTabulated, GpuNotMeasured};
    let none = CudnnSources::default();
    let asked = CudnnSources { is_asked: true, ..none };
    assert_eq!(causes(&measured, CudnnSources { is_assumed: true, is_guessed: true, ..none }), []);
    assert_eq!(causes(&measured, asked), [CudnnAsked]);
    assert_eq!(causes(other, none), [GpuNotMeasured]);
    assert_eq!(causes(other, asked), [GpuNotMeasured, CudnnAsked]);
    let tabulated = causes(other, CudnnSources { is_tabulated: true, ..none });
    assert!(matches!(&tabulated[..], [GpuNotMeasured, CudnnTabulated { version }] if version == "9.19.0"));
    for others in [CudnnSources { is_assumed: true, ..asked }, CudnnSources { is_guessed: true, ..asked }] {
        assert_eq!(causes(other, others), [GpuNotMeasured, CudnnNotMeasured, CudnnAsked]);
    }
}

#[test]
fn an_answer_is_exact_only_where_orders_of_addresses_that_are_merely_possible_allocate_the_same() {
    let allocating = |bytes: u64| {
        let peak = Peak { allocated: bytes, ..Peak::default() };
        let phase = PhaseReport {
            phase: Phase::Forward,
            step: Some(0),
            micro: None,
            allocated: bytes,
            peak,
            reserved: 5,
            peak_reserved: 5,
            end: 1,
        };
        Run { phases: vec![phase], ..run(5) }
    };
    let gpu = gpu();
    let with = |unlikely: Run| {
        let runs = Runs { unlikely_orders: vec![unlikely], ..runs(allocating(3), vec![allocating(3)], vec![]) };
        answer(runs, &gpu, 10)
    };
    let (same, other) = (with(allocating(3)), with(allocating(4)));
    assert!(same.is_exact() && same.allocated == Range::Single(3));
    assert!(!other.is_exact() && other.causes == [Cause::AddressOrder]);
    assert!(other.allocated.low() < 3 && other.allocated.high() > 4);
    // More reserved memory alone leaves an answer exact.
    assert!(with(Run { peak_reserved: 9, ..allocating(3) }).is_exact());
}

#[test]
fn orders_that_were_not_tried_may_lie_beyond_the_others_by_their_mean_distance() {
    let beyond = |others: &[u64]| {
        let runs = runs(run(100), others.iter().map(|&number| run(number)).collect(), vec![]);
        runs.beyond_orders(|run| run.peak_reserved, 10)
    };
    assert_eq!(beyond(&[100, 100]), 0);
    assert_eq!(beyond(&[100, 160, 120]), 20);
    assert_eq!(beyond(&[101]), 10);
}

#[test]
fn a_limit_lowers_the_upper_bound_and_leaves_the_lower_one() {
    let range = reserved(&runs(run(5), vec![run(9)], vec![]));
    assert_eq!((range.clone().at_most(7).low(), range.clone().at_most(7).high()), (5, 7));
    assert_eq!(range.clone().at_most(20), range);
    assert_eq!(range.at_most(3), Range::Single(5));
}

#[test]
fn it_fits_where_every_simulation_fits_and_does_not_where_none_does() {
    let gpu = gpu();
    let verdict = |runs: Runs| answer(runs, &gpu, 10).fit.unwrap().verdict;
    assert_eq!(verdict(runs(run(8), vec![run(9)], vec![run(10)])), Verdict::Fits);
    assert_eq!(verdict(runs(run(8), vec![run(9)], vec![failing(10)])), Verdict::TooClose);
    assert_eq!(verdict(runs(run(8), vec![run(11)], vec![])), Verdict::TooClose);
    assert_eq!(verdict(runs(failing(8), vec![failing(9)], vec![])), Verdict::DoesNotFit);
}

#[test]
fn what_runs_out_of_memory_is_answered_by_what_it_would_need() {
    let gpu = gpu();
    let device = Device { gpu: &gpu, is_asked: false, vram: Some(10), cudnn: None };
    let capped = || runs(failing(7), vec![failing(9)], vec![run(8)]);
    let unlimited = || runs(run(30), vec![run(40)], vec![run(50)]);
    let answer = Answer::new(capped(), Some(unlimited()), &[], OPEN, &device);
    let fit = answer.fit.clone().unwrap();
    assert_eq!((fit.verdict, fit.needed, fit.short), (Verdict::TooClose, 30, Some(20)));
    assert_eq!(fit.shortage.unwrap().error.reserved, 7);
    assert_eq!(answer.expected.peak_reserved, 30);
    let slack = 2 << 20;
    assert_eq!(
        (answer.reserved.low(), answer.reserved.high()),
        (0, 40 + slack),
        "what runs under the cap stays as it is"
    );
    let fitting = Answer::new(runs(run(8), vec![], vec![]), None, &[], OPEN, &device).fit.unwrap();
    assert_eq!((fitting.needed, fitting.short), (8, None));
}

#[test]
fn it_fits_where_it_fits_beside_the_largest_context_and_fails_beside_the_smallest() {
    let catalogue = Catalogue::built_in().unwrap();
    let gpu = catalogue.find("RTX 3060").unwrap();
    let device = Device { gpu, is_asked: true, vram: None, cudnn: None };
    let (capacity, context) = (gpu.capacity().low, device.context_bytes(Libraries::default()));
    let answer = |reserved: u64| Answer::new(runs(run(reserved), vec![], vec![]), None, &[], OPEN, &device);
    let verdict = |reserved: u64| answer(reserved).fit.unwrap().verdict;
    assert_eq!(verdict(capacity - context.high), Verdict::Fits);
    assert_eq!(verdict(capacity - context.high + 1), Verdict::TooClose);
    assert_eq!(device.cap(Libraries::default()), Some(capacity - context.low));
    assert_eq!(answer(5).device_used, 5 + context.expected);
    let spread = Libraries { communicators: 2, ..Libraries::default() };
    assert_eq!(device.context_bytes(spread), context, "NCCL's memory is no part of the context");
    let ranks = |reserved: u64| Run { libraries: spread, ..run(reserved) };
    let fit = |reserved: u64| Answer::new(runs(ranks(reserved), vec![], vec![]), None, &[], OPEN, &device).fit.unwrap();
    assert_eq!(fit(capacity - context.high - 2 * NCCL.1).verdict, Verdict::Fits, "beside the most that NCCL takes");
    assert_eq!(fit(capacity - context.high).verdict, Verdict::TooClose);
}

#[test]
fn a_gpu_that_was_not_measured_has_bounds_for_the_workspaces_of_cublas() {
    let catalogue = Catalogue::built_in().unwrap();
    let libraries = Libraries { blas: 2, ..Libraries::default() };
    let ranges = |name: &str| {
        let device = Device { gpu: catalogue.find(name).unwrap(), is_asked: true, vram: None, cudnn: None };
        let run = Run { libraries, ..run(1 << 30) };
        let answer = Answer::new(runs(run, vec![], vec![]), None, &[], OPEN, &device);
        let bounds = |range: &Range| ((1 << 30) - range.low(), range.high() - (1 << 30));
        (bounds(&answer.reserved), answer.is_exact())
    };
    assert_eq!(ranges("H200"), ((0, 0), true), "a single number is exact");
    let others = 8 << 20;
    let bounds = (2 * (2 << 20) + others, 2 * (32 << 20) + others);
    assert_eq!(ranges("RTX 3060"), (bounds, false), "PyTorch may give it 32 MiB a thread");
    assert_eq!(
        ranges("H100 PCIe"),
        ((2 * (34 << 20) + others, others), false),
        "or 8 MiB, in segments that others share"
    );
}

#[test]
fn an_answer_is_exact_where_nothing_is_unknown() {
    let gpu = gpu();
    assert!(answer(runs(run(8), vec![run(8)], vec![run(8)]), &gpu, 10).is_exact());
    let spread = answer(runs(run(8), vec![run(9)], vec![]), &gpu, 10);
    assert_eq!(spread.causes, [Cause::AddressOrder], "each cause is named once, though both peaks have it");
    let mut unmodelled = run(8);
    unmodelled.missing.insert("custom.foo.default".to_owned(), vec![3, 7]);
    let answer = answer(runs(unmodelled, vec![run(8)], vec![]), &gpu, 10);
    assert!(!answer.is_exact());
    assert_eq!(answer.unmodelled(), [Counted { name: "custom.foo.default".to_owned(), count: 2 }]);
}

#[test]
fn the_second_peak_is_of_another_kind_of_phase_than_the_first() {
    use crate::report::{Peak, Phase, PhaseReport};
    let phase = |phase: Phase, step: u32, allocated: u64| PhaseReport {
        phase,
        step: Some(step),
        micro: None,
        allocated: 0,
        peak: Peak { allocated, ..Peak::default() },
        reserved: 0,
        peak_reserved: 0,
        end: 0,
    };
    let phases = vec![
        phase(Phase::Build, 0, 90),
        phase(Phase::Forward, 0, 30),
        phase(Phase::Backward, 0, 50),
        phase(Phase::Step, 0, 40),
        phase(Phase::Backward, 1, 49),
        phase(Phase::Step, 1, 40),
    ];
    let peaks = TopPeaks::of(&Run { phases, ..run(0) }).unwrap();
    assert_eq!((peaks.first.phase, peaks.first.peak.allocated), (Phase::Backward, 50));
    let second = peaks.second.unwrap();
    assert_eq!((second.phase, second.step, second.peak.allocated), (Phase::Step, Some(0), 40));
}

#[test]
fn a_later_step_that_needs_more_raises_the_upper_bound_and_the_verdict() {
    let later = Some(LaterPeaks { step: 5, allocated: 0, reserved: 30 });
    let growing = Run { later, ..run(20) };
    let gpu = gpu();
    let found = answer(runs(growing.clone(), vec![run(20)], Vec::new()), &gpu, 25);
    assert_eq!((found.reserved.low(), found.reserved.high()), (20, 30));
    assert_eq!(found.causes, [Cause::LaterSteps { step: 5 }]);
    assert!(found.is_exact());
    assert_eq!(found.fit.unwrap().verdict, Verdict::TooClose);
    let found = answer(runs(growing, vec![run(20)], Vec::new()), &gpu, 30);
    assert_eq!(found.fit.unwrap().verdict, Verdict::Fits);
}

#[test]
fn updates_that_may_be_skipped_lower_the_bounds_to_the_peaks_before_them() {
    let phase = |phase: Phase, bytes: u64| PhaseReport {
        phase,
        step: Some(0),
        micro: None,
        allocated: 0,
        peak: Peak { allocated: bytes, ..Peak::default() },
        reserved: 0,
        peak_reserved: 2 * bytes,
        end: 0,
    };
    let phases = vec![phase(Phase::Forward, 30), phase(Phase::Backward, 40), phase(Phase::Step, 90)];
    let training = Run { phases, ..run(180) };
    let gpu = gpu();
    let device = Device { gpu: &gpu, is_asked: false, vram: None, cudnn: None };
    let answer = |may_skip_updates: bool| {
        let open = OpenQuestions { may_skip_updates, ..OPEN };
        Answer::new(runs(training.clone(), vec![], vec![]), None, &[], open, &device)
    };
    let bounds = |range: &Range| (range.low(), range.high());
    assert_eq!((bounds(&answer(false).allocated), bounds(&answer(false).reserved)), ((90, 90), (180, 180)));
    let skipping = answer(true);
    assert!(skipping.allocated.low() <= 40 && skipping.allocated.high() >= 90, "{:?}", skipping.allocated);
    assert!(skipping.reserved.low() <= 80 && skipping.reserved.high() >= 180, "{:?}", skipping.reserved);
    assert!(answer(false).is_exact() && !skipping.is_exact());
}

#[test]
fn assumed_sizes_leave_room_for_three_deviations_of_the_sum_of_unsplit_tails() {
    // 64 tails of 1 MiB: their sum varies by 8 MiB.
    let account = Account { rounding: 64 << 20, squared_rounding: 64 << 22, ..Account::default() };
    let phase = PhaseReport {
        phase: Phase::Forward,
        step: Some(0),
        micro: None,
        allocated: 0,
        peak: Peak { allocated: 500 << 20, account, ..Peak::default() },
        reserved: 0,
        peak_reserved: 500 << 20,
        end: 0,
    };
    let training = Run { phases: vec![phase], ..run(500 << 20) };
    let gpu = gpu();
    let device = Device { gpu: &gpu, is_asked: false, vram: None, cudnn: None };
    let room = |has_assumed_sizes: bool, causes: &[Cause]| {
        let open = OpenQuestions { has_assumed_sizes, ..OPEN };
        let answer = Answer::new(runs(training.clone(), vec![], vec![]), None, causes, open, &device);
        ((500 << 20) - answer.allocated.low(), answer.allocated.high() - (500 << 20))
    };
    let cause = [Cause::ModelFile("a size".to_owned())];
    assert_eq!(room(false, &[]), (0, 0));
    assert_eq!(room(true, &[]), (26 << 20, 26 << 20));
    assert_eq!(room(false, &cause), (2 << 20, 2 << 20));
    assert_eq!(room(true, &cause), (26 << 20, 26 << 20));
}

#[test]
fn a_request_of_uncertain_size_may_need_a_segment_of_its_own_or_none() {
    let above = |certainty: Certainty, largest| certainty.reserved_slack(1 << 30, largest) >> 20;
    assert_eq!(above(Certainty::Nothing, 0), 8);
    assert_eq!(above(Certainty::Nothing, 9 << 20), 8, "it shares a segment");
    assert_eq!(above(Certainty::Nothing, (97 << 20) + 1), 98);
    assert_eq!(above(Certainty::Requests, 97 << 20), 2);
}
