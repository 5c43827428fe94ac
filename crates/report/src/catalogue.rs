//! What `vramfit catalogue` and `vramfit calibrate` show.

use serde::Serialize;
use vramfit_catalogue::compute::Workspaces;
use vramfit_catalogue::{Calibration, ContextBasis, ContextBytes, EstimatedContext, Gpu};

use crate::size::human;

/// Columns for a name.
const NAME: usize = 23;

/// The answer of `vramfit catalogue --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CatalogueReport {
    /// The known GPUs.
    gpus: Vec<GpuRow>,
    #[serde(skip)]
    rows: Vec<Gpu>,
}

/// A GPU. What is not known is null.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GpuRow {
    /// Its name, without "NVIDIA" and "GeForce".
    name: String,
    /// Other names that `--gpu` takes.
    aliases: Vec<String>,
    /// Its generation.
    architecture: String,
    /// Its CUDA compute capability, such as `8.6`.
    compute_capability: String,
    /// Bytes of memory as sold.
    memory: u64,
    /// What a process may use of that.
    capacity: CapacityRow,
    /// Streaming multiprocessors.
    multiprocessors: u32,
    /// Memory bandwidth in GB/s.
    bandwidth_gb_s: Option<f64>,
    /// Megabytes of its L2 cache.
    l2_cache_mb: Option<f64>,
    /// Dense TFLOP/s by element type.
    tflops: FlopRow,
    /// What a process takes beside what PyTorch reserves.
    context: ContextRow,
    /// What is used instead of `context` where that was not measured; null where it was.
    context_estimate: Option<ContextEstimateRow>,
    /// cuBLAS's workspaces.
    workspaces: WorkspaceRow,
    /// Which kernels of scaled_dot_product_attention run on it.
    attention: AttentionRow,
    /// Whether it computes in bfloat16.
    bfloat16: bool,
    /// The newest PyTorch whose wheels run on it.
    newest: Option<NewestRow>,
}

/// Bytes that CUDA sees.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CapacityRow {
    /// The lower bound.
    low: u64,
    /// The upper bound.
    high: u64,
    /// Where it is known from; null where it is not, and the bounds differ.
    source: Option<String>,
}

/// Dense TFLOP/s by element type; null where the GPU has no such arithmetic.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlopRow {
    /// float64.
    fp64: Option<f64>,
    /// float32 outside tensor cores.
    fp32: Option<f64>,
    /// float32 in tensor cores.
    tf32: Option<f64>,
    /// float16.
    fp16: Option<f64>,
    /// bfloat16.
    bf16: Option<f64>,
}

/// The CUDA context.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum ContextRow {
    /// Bytes.
    Measured {
        /// CUDA's own, with PyTorch's kernels.
        base: u64,
        /// What cuBLAS adds for each thread that uses it.
        blas: u64,
        /// What cuDNN adds for each thread that uses it.
        dnn: u64,
    },
    /// `not measured`.
    NotMeasured(NotMeasured),
}

/// A fixed word.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum NotMeasured {
    /// Nobody has measured it on this GPU.
    #[serde(rename = "not measured")]
    NotMeasured,
}

/// Bytes of the CUDA context of a training, libraries included.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ContextEstimateRow {
    /// The lower bound.
    low: u64,
    /// What is expected.
    expected: u64,
    /// The upper bound.
    high: u64,
    /// What they rest on.
    source: ContextSource,
}

/// What an estimated context rests on.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum ContextSource {
    /// Published figures of GPUs with the same compute capability and number of multiprocessors.
    #[serde(rename = "published figures")]
    PublishedFigures,
    /// The number of multiprocessors, by a rule fitted to all published figures.
    #[serde(rename = "multiprocessors")]
    Multiprocessors,
}

/// Bytes of cuBLAS's workspaces.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WorkspaceRow {
    /// Of cuBLAS, for each thread that uses it.
    blas: u64,
    /// Of cuBLASLt.
    blas_lt: u64,
    /// Where they are known from.
    source: WorkspaceSource,
}

/// Where cuBLAS's workspaces are known from.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum WorkspaceSource {
    /// Measured on such a GPU.
    #[serde(rename = "measured")]
    Measured,
    /// Read in PyTorch's code.
    #[serde(rename = "PyTorch 2.11's code")]
    Code,
}

/// Kernels of scaled_dot_product_attention.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AttentionRow {
    /// cuDNN's, preferred to the others.
    cudnn: bool,
    /// FlashAttention.
    flash: bool,
    /// The memory-efficient one.
    efficient: bool,
}

/// The newest PyTorch for a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NewestRow {
    /// The last release; null where none has dropped the GPU yet.
    torch: Option<String>,
    /// The CUDA of the newest wheels with kernels for it.
    cuda: String,
}

impl CatalogueReport {
    /// Of these GPUs.
    pub fn new(gpus: &[Gpu]) -> CatalogueReport {
        CatalogueReport { gpus: gpus.iter().map(GpuRow::from).collect(), rows: gpus.to_vec() }
    }

    /// The table for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:NAME$}{:>4} {:>5} {:>6} {:>4} {:>5} {:>6} {:>6} {:>6} {:>7}\n",
            "GPU", "CC", "GB", "CUDA", "SMs", "GB/s", "fp32", "fp16", "bf16", "context"
        );
        let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), short);
        for gpu in &self.rows {
            let seen = gpu.seen_by_cuda.map(|bytes| bytes as f64 / (1_u64 << 30) as f64);
            let context = gpu.context_bytes(2, 2).expected >> 20;
            let context = match (gpu.context, gpu.estimated_context.basis) {
                (None, ContextBasis::Multiprocessors) => format!("~{context}"),
                _ => context.to_string(),
            };
            // A long name has a line of its own.
            let name = match gpu.name.chars().count() < NAME {
                true => gpu.name.clone(),
                false => {
                    text += &format!("{}\n", gpu.name);
                    String::new()
                }
            };
            text += &format!(
                "{name:NAME$}{:>4} {:>5} {:>6} {:>4} {:>5} {:>6} {:>6} {:>6} {:>7}\n",
                gpu.compute.to_string(),
                short(gpu.gigabytes()),
                seen.map_or_else(|| "-".to_owned(), |gib| format!("{gib:.2}")),
                gpu.multiprocessors,
                number(gpu.bandwidth),
                number(gpu.flop_rates.fp32),
                number(gpu.flop_rates.fp16),
                number(gpu.flop_rates.bf16),
                context,
            );
        }
        text + "\nCC: compute capability. GB: as sold; CUDA: GiB that CUDA sees. fp32, fp16, bf16:\n\
                dense TFLOP/s. context: MiB of a training's CUDA context, measured or published;\n\
                ~: from the number of SMs. -: not known. `vramfit calibrate` measures the GPU\n\
                of this machine.\n"
    }
}

/// At most four digits.
fn short(number: f64) -> String {
    match number {
        0.0..1.0 => format!("{number:.2}"),
        1.0..100.0 => format!("{:.1}", number).trim_end_matches(".0").to_owned(),
        _ => format!("{number:.0}"),
    }
}

impl From<&Gpu> for GpuRow {
    fn from(gpu: &Gpu) -> GpuRow {
        let Workspaces { blas, blas_lt, .. } = gpu.workspaces();
        let (rates, compute, capacity) = (gpu.flop_rates, gpu.compute, gpu.capacity());
        GpuRow {
            name: gpu.name.clone(),
            aliases: gpu.aliases.clone(),
            architecture: gpu.architecture.clone(),
            compute_capability: compute.to_string(),
            memory: gpu.memory,
            capacity: CapacityRow { low: capacity.low, high: capacity.high, source: gpu.seen_by_cuda_source.clone() },
            multiprocessors: gpu.multiprocessors,
            bandwidth_gb_s: gpu.bandwidth,
            l2_cache_mb: gpu.cache,
            tflops: FlopRow {
                fp64: rates.fp64,
                fp32: rates.fp32,
                tf32: rates.tf32,
                fp16: rates.fp16,
                bf16: rates.bf16,
            },
            context: match gpu.context {
                Some(context) => ContextRow::Measured { base: context.base, blas: context.blas, dnn: context.dnn },
                None => ContextRow::NotMeasured(NotMeasured::NotMeasured),
            },
            context_estimate: gpu.context.is_none().then(|| gpu.estimated_context.into()),
            workspaces: WorkspaceRow {
                blas,
                blas_lt,
                source: match gpu.measured_workspaces {
                    Some(_) => WorkspaceSource::Measured,
                    None => WorkspaceSource::Code,
                },
            },
            attention: AttentionRow {
                cudnn: compute.prefers_cudnn_attention(),
                flash: compute.has_flash_attention(),
                efficient: compute.has_efficient_attention(),
            },
            bfloat16: compute.has_bfloat16(),
            newest: gpu
                .newest
                .as_ref()
                .map(|newest| NewestRow { torch: newest.torch.clone(), cuda: newest.cuda.clone() }),
        }
    }
}

impl From<EstimatedContext> for ContextEstimateRow {
    fn from(estimate: EstimatedContext) -> ContextEstimateRow {
        let ContextBytes { low, expected, high } = estimate.bytes;
        let source = match estimate.basis {
            ContextBasis::PublishedFigures { .. } => ContextSource::PublishedFigures,
            ContextBasis::Multiprocessors => ContextSource::Multiprocessors,
        };
        ContextEstimateRow { low, expected, high, source }
    }
}

/// What a calibration found, where it was written, and its row for the catalogue.
pub fn calibration_text(calibration: &Calibration, path: &str, row: &str) -> String {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "not read".to_owned(), human);
    let mut text = format!("{}, compute capability {}\n\n", calibration.name, calibration.compute_capability);
    for (name, value) in [
        ("memory that CUDA sees", Some(calibration.capacity)),
        ("CUDA context", calibration.context),
        ("cuBLAS adds", calibration.blas_context),
        ("cuBLAS in backward adds", calibration.blas_backward_context),
        ("cuDNN adds", calibration.dnn_context),
        ("cuDNN in backward adds", calibration.dnn_backward_context),
        ("cuBLAS workspace", Some(calibration.blas_workspace)),
        ("cuBLASLt workspace", Some(calibration.blas_lt_workspace)),
    ] {
        text += &format!("  {name:26}{:>10}\n", size(value));
    }
    if calibration.context.is_none() {
        text += "\nnvidia-smi does not show what this process uses; estimates keep the catalogue's context.\n";
    }
    text + &format!(
        "\nwritten to {path}; `vramfit estimate --gpu` uses it from there\n\n\
         To share it, replace or add this row of crates/catalogue/data/gpus.txt in a pull request:\n{row}\n"
    )
}
