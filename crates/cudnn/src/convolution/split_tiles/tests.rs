use super::parts::sums;
use super::*;
use crate::convolution::problem::tests::described;

const H200: GpuIdentity =
    GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };

fn engine([tile, depth, never_splits, rows, columns]: [u64; 5]) -> LiveEngine {
    let knobs = vec![(2, tile), (13, depth), (18, 0), (25, never_splits), (27, rows), (28, columns)];
    LiveEngine { number: 65, knobs }
}

fn layer(text: &str, pass: usize) -> ConvolutionProblem {
    let passes = [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient];
    ConvolutionProblem { pass: passes[pass], ..described(text) }
}

#[test]
fn workspaces_are_those_that_were_recorded_on_the_gpu() {
    for (text, pass, knobs, library, recorded) in RECORDED {
        let kernel = Kernel::of(&engine(knobs)).unwrap();
        let bytes = kernel.bytes(library, &layer(text, pass), H200).unwrap();
        assert_eq!(bytes.expected, recorded, "{text}, pass {pass}");
        assert!(bytes.lower <= recorded && recorded <= bytes.upper, "{text}, pass {pass}");
    }
}

#[test]
fn other_gpus_have_a_range_for_any_number_of_parts() {
    let smaller = GpuIdentity { multiprocessors: 114, ..H200 };
    for (text, pass, knobs, library, recorded) in RECORDED {
        let kernel = Kernel::of(&engine(knobs)).unwrap();
        let problem = layer(text, pass);
        let other = kernel.bytes(library, &problem, smaller).unwrap();
        assert!(other.lower <= recorded.min(other.expected) && other.expected < other.upper, "{text}: {other:?}");
    }
}

#[test]
fn settings_of_other_kernels_are_left_alone() {
    let known = [0, 1, 0, 2, 4];
    assert!(Kernel::of(&engine(known)).is_some());
    for (index, value) in [(0, 10), (0, 99), (1, 2), (3, 0), (4, 17)] {
        let mut settings = known;
        settings[index] = value;
        assert!(Kernel::of(&engine(settings)).is_none(), "{settings:?}");
    }
    assert!(Kernel::of(&LiveEngine { number: 62, knobs: vec![(25, 2)] }).is_none());
}

#[test]
fn a_workspace_that_parts_do_not_explain_is_not_taken_apart() {
    let (text, pass, knobs, library, _) = RECORDED[0];
    assert_eq!(Kernel::of(&engine(knobs)).unwrap().bytes(library + 1, &layer(text, pass), H200), None);
}

#[test]
fn parts_are_added_up_two_at_a_time() {
    assert_eq!([1, 2, 3, 4, 5, 11, 16].map(sums), [0, 1, 3, 3, 6, 12, 15]);
}

/// A layer, its pass, the kernel's tile, depth, whether it never splits, and its cluster; bytes that the library says without a GPU, and on an
/// H200. Drawn from `plans-blind.jsonl.xz` where the two differ.
#[rustfmt::skip]
const RECORDED: [(&str, usize, [u64; 5], u64, u64); 36] = [
    ("bf16 first 128 384 96 1 24x24 3x3 1x1 2x2 2x2", 0, [3, 0, 0, 4, 1], 71_442_579, 84_025_715),
    ("bf16 last 894 1024 1024 1 1x1 3x3 1x1 1x1 1x1", 0, [7, 1, 0, 7, 1], 131, 917_747),
    ("bf16 first 7 192 96 8 36x36 2x2 2x2 0x0 1x1", 0, [5, 1, 1, 8, 1], 5_871_763, 5_871_632),
    ("bf16 first 56 128 256 2 64x64 4x4 4x4 0x0 1x1", 0, [0, 1, 0, 1, 1], 126_877_907, 125_829_136),
    ("fp16 last 30 512 512 1 8x8 3x3 1x1 4x4 4x4", 0, [4, 0, 1, 1, 5], 131, 0),
    ("fp16 last 16 1024 1024 1 14x14 3x3 1x1 1x1 1x1", 0, [6, 1, 0, 1, 2], 131, 0),
    ("fp16 last 32 2304 768 8 80x80 5x5 5x5 0x0 1x1", 0, [0, 1, 1, 8, 1], 956_302_592, 956_301_440),
    ("fp16 last 76 1056 1056 4 24x24 3x3 1x1 1x1 1x1", 0, [0, 1, 0, 4, 2], 184_910_464, 214_271_616),
    ("fp32 first 4 512 128 1 70x70 5x5 5x5 0x0 1x1", 0, [0, 0, 0, 8, 1], 48_144_591, 53_387_823),
    ("fp32 first 11 256 256 1 128x128 3x3 1x1 1x1 1x1", 0, [3, 0, 0, 1, 2], 373_555_427, 371_458_195),
    ("fp32 last 1 1232 1232 11 16x16 3x3 1x1 1x1 1x1", 0, [7, 0, 1, 8, 1], 9_371_795, 9_371_664),
    ("fp32 first 1 1600 192 2 112x112 3x3 1x1 1x1 1x1", 0, [0, 0, 0, 8, 1], 97_542_592, 95_445_024),
    ("bf16 last 4 144 144 1 210x210 4x4 1x1 1x1 1x1", 1, [4, 1, 0, 1, 2], 786_619, 131),
    ("bf16 first 10 2 128 1 48x48 3x3 1x1 1x1 1x1", 1, [4, 0, 1, 7, 1], 6_285_459, 6_285_328),
    ("bf16 last 293 440 440 55 3x3 3x3 1x1 1x1 1x1", 1, [1, 1, 1, 4, 1], 131, 0),
    ("bf16 first 3 1536 1536 2 48x320 3x3 1x1 1x1 1x1", 1, [3, 1, 0, 1, 2], 304_349_504, 329_515_968),
    ("fp16 first 14 32 64 1 293x293 3x3 1x1 1x1 1x1", 1, [16, 0, 0, 8, 1], 231_323_475, 231_847_795),
    ("fp16 last 48 256 512 1 8x8 3x3 1x1 1x1 1x1", 1, [1, 1, 0, 1, 4], 131, 0),
    ("fp16 last 20 3840 2560 4 112x112 3x3 1x1 1x1 1x1", 1, [3, 1, 0, 1, 2], 3_211_264_640, 3_265_791_552),
    ("fp16 first 8 1024 1024 32 3x3 3x3 1x1 1x1 1x1", 1, [5, 1, 1, 8, 1], 884_883, 884_752),
    ("fp32 first 6 1344 1344 1 8x8 1x1 1x1 0x0 1x1", 1, [1, 0, 0, 1, 3], 4_718_807, 4_128_784),
    ("fp32 first 40 32 64 1 20x20 3x3 1x1 1x1 1x1", 1, [1, 0, 0, 5, 1], 6_545_607, 7_201_003),
    ("fp32 first 64 448 448 4 28x28 3x3 1x1 1x1 1x1", 1, [0, 0, 0, 4, 1], 207_880_339, 209_977_619),
    ("fp32 last 256 320 320 20 4x4 3x3 1x1 1x1 1x1", 1, [16, 0, 1, 2, 1], 131, 0),
    ("bf16 first 36 128 128 1 28x28 3x3 1x1 1x1 1x1", 2, [1, 1, 0, 1, 3], 14_745_616, 17_105_287),
    ("bf16 last 369 32 48 1 48x48 1x1 2x2 0x0 1x1", 2, [7, 1, 0, 1, 1], 590_063, 4_194_971),
    ("bf16 last 122 1232 1232 11 12x12 3x3 1x1 1x1 1x1", 2, [0, 1, 0, 1, 3], 103_366_871, 102_187_024),
    ("bf16 first 85 528 528 2 112x112 3x3 2x2 1x1 1x1", 2, [3, 1, 0, 1, 2], 1_414_664_992, 1_439_306_784),
    ("fp16 first 89 320 784 1 14x14 1x1 1x1 0x0 1x1", 2, [5, 1, 0, 1, 6], 38_811_515, 38_516_368),
    ("fp16 first 48 1536 1024 1 28x28 3x3 1x1 1x1 1x1", 2, [4, 1, 0, 1, 4], 220_987_539, 228_852_467),
    ("fp16 last 40 192 192 2 90x90 3x3 2x2 1x1 1x1", 2, [0, 1, 0, 1, 3], 207_949_840, 215_028_319),
    ("fp16 first 389 128 64 2 128x128 2x2 2x2 0x0 1x1", 2, [5, 1, 0, 1, 5], 2_039_545_872, 2_041_348_751),
    ("fp32 first 64 208 208 1 4x7x7 3x1x1 1x1x1 1x0x0 1x1x1", 2, [0, 0, 0, 1, 2], 21_392_400, 30_043_887),
    ("fp32 first 32 256 256 1 12x12 3x3 2x2 1x1 1x1", 2, [1, 0, 0, 1, 2], 8_257_683, 8_257_552),
    ("fp32 first 12 96 96 2 48x48 3x3 1x1 1x1 1x1", 2, [5, 0, 0, 1, 1], 28_606_480, 30_671_527),
    ("fp32 last 1 1232 1232 11 28x28 3x3 2x2 1x1 1x1", 2, [0, 0, 1, 1, 1], 12_007_571, 12_007_440),
];
