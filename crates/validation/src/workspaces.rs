//! What an installed cuDNN says about workspaces without a GPU, next to what the same library said on an H200.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use vramfit_cudnn::GpuIdentity;
use vramfit_cudnn::convolution::{
    ConvolutionPass, ConvolutionProblem, CudnnVersion, Evidence, LiveAnswers, LivePlan, LiveReport, WorkspaceRange,
    workspace,
};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use crate::statistics::median;

pub mod ask;

const H200: GpuIdentity =
    GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };
const PASSES: [(ConvolutionPass, &str); 3] = [
    (ConvolutionPass::Forward, "forward"),
    (ConvolutionPass::InputGradient, "input gradient"),
    (ConvolutionPass::WeightGradient, "weight gradient"),
];
const KINDS: [&str; 4] = ["two dimensions", "three dimensions", "pointwise", "groups"];
/// The allocator gives out blocks of so many bytes.
const BLOCK: u64 = 512;

/// Type, layout, batch, sides, inputs, outputs, kernel, stride, padding, dilation, groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Layer(String, String, i64, Vec<i64>, i64, i64, Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>, i64);

/// A layer, the workspaces of its passes on the H200, and what the library says of the plans without a GPU: workspace, engine, then each knob
/// with its value.
#[derive(Debug, Serialize, Deserialize)]
struct Row(Layer, [u64; 3], [Vec<u64>; 3]);

impl Layer {
    fn problem(&self, pass: ConvolutionPass) -> Option<ConvolutionProblem> {
        let Layer(dtype, layout, batch, sides, inputs, outputs, kernel, stride, padding, dilation, groups) = self;
        // PyTorch runs one dimension as two.
        let with_height = |sizes: &[i64], height: i64| match sizes {
            [width] => vec![height, *width],
            sizes => sizes.to_vec(),
        };
        let sides_of = with_height(sides, 1);
        let [kernel, stride, dilation] = [kernel, stride, dilation].map(|sizes| with_height(sizes, 1));
        let padding = with_height(padding, 0);
        let after = (0..sides_of.len())
            .map(|dim| {
                let reach = dilation.get(dim)? * (kernel.get(dim)? - 1) + 1;
                Some((sides_of[dim] + 2 * padding.get(dim)? - reach) / stride.get(dim)? + 1)
            })
            .collect::<Option<Vec<i64>>>()?;
        let shape = |first: [i64; 2], sides: &[i64]| first.into_iter().chain(sides.iter().copied()).collect::<Dims>();
        Some(ConvolutionProblem {
            pass,
            dtype: match dtype.as_str() {
                "fp16" => Dtype::Float16,
                "bf16" => Dtype::Bfloat16,
                _ => Dtype::Float32,
            },
            format: if layout == "last" && sides.len() > 1 { Format::ChannelsLast } else { Format::Contiguous },
            image: shape([*batch, *inputs], &sides_of),
            result: shape([*batch, *outputs], &after),
            weight: shape([*outputs, inputs / groups], &kernel),
            stride: stride.into(),
            padding: padding.into(),
            dilation: dilation.into(),
            groups: *groups,
        })
    }
}

fn lines(path: &Path) -> Result<Vec<String>, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let reader: Box<dyn BufRead> = match path.extension().is_some_and(|end| end == "gz") {
        true => Box::new(BufReader::new(GzDecoder::new(file))),
        false => Box::new(BufReader::new(file)),
    };
    reader.lines().collect::<Result<_, _>>().map_err(|error| format!("{}: {error}", path.display()))
}

/// The answers of a file, as those of a library.
#[derive(Debug)]
struct Written(HashMap<String, LivePlan>);

impl Written {
    fn key(problem: &ConvolutionProblem) -> String {
        format!("{problem:?}")
    }
}

impl LiveAnswers for Written {
    fn plan(&self, problem: &ConvolutionProblem) -> Option<LivePlan> {
        self.0.get(&Written::key(problem)).cloned()
    }

    fn workspaces(&self, _problem: &ConvolutionProblem) -> Vec<u64> {
        Vec::new()
    }

    fn version(&self) -> Option<CudnnVersion> {
        None
    }

    fn report(&self) -> LiveReport {
        LiveReport { library: PathBuf::new(), version: None, asked: 0, unanswered: 0, failure: None }
    }
}

/// One pass of one layer.
struct Compared {
    kind: &'static str,
    pass: &'static str,
    truth: u64,
    library: u64,
    range: WorkspaceRange,
    line: String,
}

impl Compared {
    fn is_right(&self) -> bool {
        blocks(self.range.expected) == blocks(self.truth)
    }

    fn is_inside(&self) -> bool {
        (blocks(self.range.lower)..=blocks(self.range.upper)).contains(&blocks(self.truth))
    }
}

fn compared(path: &Path) -> Result<Vec<Compared>, String> {
    let rows = lines(path)?;
    let rows = rows.iter().map(|line| serde_json::from_str::<Row>(line).map_err(|error| format!("{error}: {line}")));
    let rows = rows.collect::<Result<Vec<Row>, String>>()?;
    let cases = || {
        rows.iter().flat_map(|row| {
            let passes = PASSES.into_iter().zip(row.1).zip(&row.2);
            passes.filter_map(move |(((pass, name), truth), reply)| {
                let plan = LivePlan::from_numbers(reply)?;
                Some((row, row.0.problem(pass)?, name, truth, plan))
            })
        })
    };
    let written = Written(cases().map(|(_, problem, _, _, plan)| (Written::key(&problem), plan)).collect());
    let compared = cases().map(|(row, problem, pass, truth, plan)| {
        let is_pointwise = problem.weight[2..].iter().chain(&problem.stride).all(|&size| size == 1)
            && problem.padding.iter().all(|&padding| padding == 0);
        Compared {
            kind: KINDS[match () {
                () if problem.groups > 1 => 3,
                () if is_pointwise => 2,
                () if problem.stride.len() == 3 => 1,
                () => 0,
            }],
            pass,
            truth,
            library: plan.workspace,
            range: workspace(&problem, H200, Some(&written)),
            line: serde_json::to_string(&(&row.0, pass, truth, plan.workspace)).unwrap_or_default(),
        }
    });
    // What a table has was recorded, and the library is not asked about it.
    Ok(compared.filter(|case| case.range.evidence != Evidence::Recorded).collect())
}

fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK)
}

const HEAD: &str = "# cuDNN's workspaces without a GPU

Made by `vramfit-validate workspaces`; do not edit. cuDNN 9.19 was asked on an H200 about layers drawn at random, 12,000 with two dimensions and 2,000 with
three (`validation/workspace_grid/heuristic.py --draw 61001` and `--draw 61002 --volumes`), when the rules of [cudnn-workspaces.md](cudnn-workspaces.md#without-a-gpu)
stood. (A trace of a script then showed which parts a library may count for small volumes, which changed a few answers of the table.) The same library was asked about them without a GPU, with only the description of an H200 (`vramfit-validate ask-workspaces`). Layers whose workspace
is in a table of vramfit are left out: the library is not asked about these.

\"Library alone\" is what cuDNN says, \"vramfit\" what is made of it. A workspace is right if it fills the same blocks of 512 bytes. \"One size, wrong\" counts layers for
which vramfit names one size instead of a range, and it is another one.

";

/// The page with the table of the recorded layers.
///
/// # Errors
/// The recording cannot be read.
pub fn page() -> Result<String, String> {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/measured/workspaces-asked.jsonl.gz");
    Ok(format!("{HEAD}{}", table(&recorded)?))
}

/// The table of a file of [`ask::ask`].
///
/// # Errors
/// The file cannot be read.
pub fn table(path: &Path) -> Result<String, String> {
    let cases = compared(path)?;
    let mut text = String::from(
        "| layers | pass | number | library alone | vramfit | inside its range | one size, wrong | median width |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for kind in KINDS {
        for (_, pass) in PASSES {
            let those: Vec<&Compared> = cases.iter().filter(|case| case.kind == kind && case.pass == pass).collect();
            if !those.is_empty() {
                text += &line(&those);
            }
        }
    }
    Ok(text)
}

/// The line of the table about layers of one kind in one pass.
fn line(cases: &[&Compared]) -> String {
    let count = |is: fn(&Compared) -> bool| cases.iter().filter(|case| is(case)).count();
    let share = |is: fn(&Compared) -> bool| 100.0 * count(is) as f64 / cases.len() as f64;
    let widths = cases.iter().map(|case| (case.range.upper - case.range.lower) as f64).collect();
    format!(
        "| {} | {} | {} | {:.1} % | {:.1} % | {:.1} % | {} | {} KiB |\n",
        cases[0].kind,
        cases[0].pass,
        cases.len(),
        share(|case| blocks(case.library) == blocks(case.truth)),
        share(Compared::is_right),
        share(Compared::is_inside),
        count(|case| case.range.is_certain() && !case.is_inside()),
        (median(widths) / 1024.0).round(),
    )
}

/// The layers of a file of [`ask::ask`] that are answered wrongly: layer, pass, bytes on the H200, expected, lower and upper bytes, the library's plan.
///
/// # Errors
/// The file cannot be read.
pub fn misses(path: &Path) -> Result<String, String> {
    let wrong = compared(path)?.into_iter().filter(|case| !case.is_right());
    Ok(wrong.fold(String::new(), |mut text, case| {
        let WorkspaceRange { expected, lower, upper, .. } = case.range;
        let _ = writeln!(text, "{} {} expected {expected} in {lower} to {upper}", case.kind, case.line);
        text
    }))
}
