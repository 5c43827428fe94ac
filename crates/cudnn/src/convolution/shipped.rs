//! The tables that are compiled into this crate.

use std::sync::LazyLock;

use super::by_capability::LayersByCapability;
use super::live::CudnnVersion;
use super::problem::ConvolutionProblem;
use super::range::Evidence;
use super::table::ConvolutionTable;
use crate::TableError;
use crate::table::{Table, TableKind};

#[cfg(feature = "tables")]
pub(super) static SERIES: &[u8] = include_bytes!("../../data/cudnn-series.bin");
#[cfg(feature = "tables")]
pub(super) static TREES: &[u8] = include_bytes!("../../data/cudnn-plans.bin");
#[cfg(feature = "tables")]
static VOLUMES: &[u8] = include_bytes!("../../data/cudnn-volumes.bin");
#[cfg(feature = "tables")]
static BY_CAPABILITY: &[u8] = include_bytes!("../../data/cudnn-capabilities.bin");
#[cfg(not(feature = "tables"))]
static BY_CAPABILITY: &[u8] = &[];

static LAYERS: LazyLock<Result<LayersByCapability<'static>, TableError>> =
    LazyLock::new(|| LayersByCapability::read(Table::read(BY_CAPABILITY, TableKind::ByCapability)?.payload));

/// The version of cuDNN whose answers are shipped; `None` without the feature `tables`.
pub fn shipped_version() -> Option<CudnnVersion> {
    Some(CudnnVersion(table().ok()??.source().cudnn as usize))
}

type Shipped = Result<Option<ConvolutionTable<'static>>, TableError>;

#[cfg(feature = "tables")]
static TABLE: LazyLock<Shipped> =
    LazyLock::new(|| ConvolutionTable::read(SERIES, TREES)?.with_volumes(VOLUMES).map(Some));
#[cfg(not(feature = "tables"))]
static TABLE: LazyLock<Shipped> = LazyLock::new(|| Ok(None));

/// The shipped table, `None` without the feature `tables`.
pub(super) fn table() -> Result<Option<&'static ConvolutionTable<'static>>, &'static TableError> {
    TABLE.as_ref().map(Option::as_ref)
}

/// What cuDNN answered for GPUs of a compute capability, if it was asked about this layer.
pub(super) fn by_capability(problem: &ConvolutionProblem, capability: (u8, u8)) -> Option<u64> {
    let table = table().ok().flatten().filter(|table| table.source().gpu.compute_capability == capability);
    match table {
        Some(table) => Some(table.workspace(problem)).filter(|range| range.evidence == Evidence::Recorded),
        None => return LAYERS.as_ref().ok()?.workspace(problem, capability),
    }
    .map(|range| range.expected)
}

#[cfg(test)]
#[cfg(feature = "tables")]
mod tests {
    use vramfit_graph::dims::Dims;
    use vramfit_graph::dtype::Dtype;
    use vramfit_graph::format::Format;

    use super::*;
    use crate::convolution::problem::tests::square;
    use crate::convolution::series::Series;
    use crate::convolution::{ConvolutionPass, ConvolutionProblem};
    use crate::table::{Table, TableKind};

    /// A random sample of shapes that the trees were not grown from; `sample.py` lists the columns.
    static HELD_BACK: &str = include_str!("../../data/cudnn-sample.txt");

    fn shipped() -> &'static ConvolutionTable<'static> {
        table().unwrap().unwrap()
    }

    fn problem(pass: ConvolutionPass, dtype: Dtype, format: Format) -> ConvolutionProblem {
        ConvolutionProblem { pass, dtype, format, ..square([64, 64], 56, 3, 1, 1) }
    }

    #[test]
    fn the_shipped_table_is_of_the_h200_and_cudnn_9_19() {
        let source = shipped().source();
        assert_eq!((source.gpu_name, source.cudnn), ("NVIDIA H200", 91_900));
        assert_eq!((source.gpu.compute_capability, source.gpu.multiprocessors), ((9, 0), 132));
    }

    #[test]
    fn damage_to_either_table_is_reported_when_it_is_read() {
        let cut = &SERIES[..SERIES.len() - 1];
        assert!(matches!(ConvolutionTable::read(cut, TREES), Err(TableError::WrongLength { .. })));
        assert_eq!(ConvolutionTable::read(SERIES, &TREES[..40]).err(), Some(TableError::DamagedHeader));
        assert_eq!(ConvolutionTable::read(TREES, SERIES).err(), Some(TableError::WrongKind));
    }

    #[test]
    fn damaged_payloads_give_answers_without_a_panic() {
        let (mut series, mut trees) = (SERIES.to_vec(), TREES.to_vec());
        // The index of the blocks comes first: damage there is reported.
        for index in (series.len() / 10..series.len()).step_by(997) {
            series[index] ^= 0x55;
        }
        for index in (trees.len() / 10..trees.len()).step_by(499) {
            trees[index] ^= 0x55;
        }
        assert!(!Table::read(&series, TableKind::Series).unwrap().is_intact());
        let damaged = ConvolutionTable::read(&series, &trees).unwrap();
        for (problem, _) in held_back() {
            damaged.workspace(&problem);
        }
    }

    #[test]
    fn a_convolution_that_a_gpu_ran_has_the_workspace_it_took() {
        for (pass, dtype, format, bytes) in RECORDED {
            let range = shipped().workspace(&problem(pass, dtype, format));
            assert_eq!(range.expected, bytes, "{pass:?} {dtype:?} {format:?}");
        }
    }

    #[test]
    fn half_precision_with_channels_first_is_copied_whole() {
        let seen = problem(ConvolutionPass::Forward, Dtype::Bfloat16, Format::Contiguous);
        let image = Dims::from([19, 64, 57, 55]);
        let unseen = ConvolutionProblem { result: image.clone(), image, ..seen };
        let range = shipped().workspace(&unseen);
        assert!(range.lower <= range.expected && range.expected <= range.upper);
        assert!(range.expected >= unseen.plain_copies().unsigned_abs(), "{range:?}");
    }

    #[test]
    fn a_volume_that_was_not_recorded_has_a_range_with_what_a_gpu_took() {
        use crate::convolution::problem::tests::described;
        // Of probes on an H200: fp32, bf16 and a weight's gradient with many partial sums.
        let probed = [
            ("fp32 first 2 16 32 1 16x32x32 3x3x3 1x1x1 1x1x1 1x1x1", ConvolutionPass::Forward, 6_346_768),
            ("bf16 first 2 16 32 1 16x32x32 3x3x3 2x2x2 1x1x1 1x1x1", ConvolutionPass::InputGradient, 1_338_384),
            ("fp32 first 2 4 8 1 5x9x11 3x3x3 1x1x1 1x1x1 1x1x1", ConvolutionPass::WeightGradient, 194_819),
        ];
        for (text, pass, bytes) in probed {
            let range = shipped().workspace(&ConvolutionProblem { pass, ..described(text) });
            assert!(range.lower <= bytes && bytes <= range.upper && !range.is_certain(), "{text}: {range:?}");
        }
    }

    fn numbers(text: &str) -> impl Iterator<Item = i64> {
        text.split('x').map(|number| number.parse().unwrap())
    }

    fn held_back() -> impl Iterator<Item = (ConvolutionProblem, u64)> {
        let shape = |first: [i64; 2], sides: &str| first.into_iter().chain(numbers(sides)).collect::<Dims>();
        HELD_BACK.lines().flat_map(move |line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |index: usize| words[index].parse::<i64>().unwrap();
            let (batch, inputs, outputs, groups) = (number(2), number(3), number(4), number(5));
            let is_last = words[1] == "last" && words[6].contains('x');
            [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient].map(|pass| {
                let mut problem = ConvolutionProblem {
                    pass,
                    dtype: match words[0] {
                        "fp32" => Dtype::Float32,
                        "bf16" => Dtype::Bfloat16,
                        _ => Dtype::Float16,
                    },
                    format: if is_last { Format::ChannelsLast } else { Format::Contiguous },
                    image: shape([batch, inputs], words[6]),
                    result: shape([batch, outputs], words[7]),
                    weight: shape([outputs, inputs / groups], words[8]),
                    stride: numbers(words[9]).collect(),
                    padding: Dims::filled(0, numbers(words[9]).count()),
                    dilation: numbers(words[10]).collect(),
                    groups,
                };
                // The sample has no paddings: take the smallest that gives the sides of the result.
                while !problem.is_consistent() {
                    let dim = (0..problem.stride.len()).find(|&dim| {
                        let kernel = problem.dilation[dim] * (problem.weight[2 + dim] - 1) + 1;
                        let room = problem.image[2 + dim] + 2 * problem.padding[dim] - kernel;
                        room.div_euclid(problem.stride[dim]) + 1 < problem.result[2 + dim]
                    });
                    problem.padding[dim.unwrap()] += 1;
                }
                (problem, words[11 + pass as usize].parse().unwrap())
            })
        })
    }

    #[test]
    fn the_trees_are_right_about_most_held_back_shapes() {
        let series = Series::read(Table::read(SERIES, TableKind::Series).unwrap().payload).unwrap();
        let (mut right, mut certain, mut right_of_these, mut all) = (0, 0, 0, 0);
        for (problem, bytes) in held_back().filter(|(problem, _)| series.workspace(problem).is_none()) {
            let range = shipped().workspace(&problem);
            let is_right = u32::from(range.expected == bytes);
            all += 1;
            right += is_right;
            if range.is_certain() {
                certain += 1;
                right_of_these += is_right;
            }
        }
        let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole);
        assert!(share(right, all) > 0.8, "{right} of {all}");
        assert!(share(certain, all) > 0.65, "{certain} of {all}");
        assert!(share(right_of_these, certain) > 0.94, "{right_of_these} of {certain}");
    }

    const RECORDED: [(ConvolutionPass, Dtype, Format, u64); 4] = [
        (ConvolutionPass::Forward, Dtype::Float32, Format::Contiguous, 12_992_528),
        (ConvolutionPass::WeightGradient, Dtype::Float32, Format::Contiguous, 27_902_631),
        (ConvolutionPass::InputGradient, Dtype::Bfloat16, Format::Contiguous, 12_918_800),
        (ConvolutionPass::WeightGradient, Dtype::Bfloat16, Format::ChannelsLast, 1_917_591),
    ];
}
