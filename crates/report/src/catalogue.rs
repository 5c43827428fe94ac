//! What `vramfit catalogue` and `vramfit calibrate` show.

use serde::Serialize;
use serde_json::{Value, json};
use vramfit_catalogue::{Calibration, Gpu};

use crate::size::human;

/// Letters of the column of names.
const NAME: usize = 23;

/// The GPUs.
#[derive(Debug, Serialize)]
pub struct CatalogueReport {
    gpus: Vec<Value>,
    #[serde(skip)]
    rows: Vec<Gpu>,
}

impl CatalogueReport {
    /// Of these GPUs.
    pub fn new(gpus: &[Gpu]) -> CatalogueReport {
        CatalogueReport { gpus: gpus.iter().map(row).collect(), rows: gpus.to_vec() }
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
            let context = gpu.context.map(|context| (context.bytes(2, 2) >> 20) as f64);
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
                number(context),
            );
        }
        text + "\nCC: compute capability. GB: as sold; CUDA: GiB that CUDA sees. fp32, fp16, bf16:\n\
                dense TFLOP/s. context: MiB of a training's CUDA context. -: not known or not\n\
                measured; `vramfit calibrate` measures the GPU of this machine.\n"
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

fn row(gpu: &Gpu) -> Value {
    let workspaces = gpu.workspaces();
    let (rates, compute) = (gpu.flop_rates, gpu.compute);
    let capacity = gpu.capacity();
    json!({
        "name": gpu.name,
        "aliases": gpu.aliases,
        "architecture": gpu.architecture,
        "compute_capability": compute.to_string(),
        "memory": gpu.memory,
        "capacity": { "low": capacity.low, "high": capacity.high, "source": gpu.seen_by_cuda_source },
        "multiprocessors": gpu.multiprocessors,
        "bandwidth_gb_s": gpu.bandwidth,
        "l2_cache_mb": gpu.cache,
        "tflops": { "fp64": rates.fp64, "fp32": rates.fp32, "tf32": rates.tf32, "fp16": rates.fp16, "bf16": rates.bf16 },
        "context": match gpu.context {
            Some(context) => json!({ "base": context.base, "blas": context.blas, "dnn": context.dnn }),
            None => json!("not measured"),
        },
        "workspaces": {
            "blas": workspaces.blas,
            "blas_lt": workspaces.blas_lt,
            "source": if gpu.measured_workspaces.is_some() { "measured" } else { "PyTorch 2.11's code" },
        },
        "attention": {
            "cudnn": compute.prefers_cudnn_attention(),
            "flash": compute.has_flash_attention(),
            "efficient": compute.has_efficient_attention(),
        },
        "bfloat16": compute.has_bfloat16(),
        "newest": gpu.newest.as_ref().map(|newest| json!({ "torch": newest.torch, "cuda": newest.cuda })),
    })
}

/// What a calibration found, and where it was written.
pub fn calibration_text(calibration: &Calibration, path: &str) -> String {
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
        text += "\nnvidia-smi could not tell what this process uses; estimates take the context of an H200.\n";
    }
    text + &format!("\nwritten to {path}; `vramfit estimate --gpu` uses it from there\n")
}
