//! The reader and the writer of rows of `data/gpus.txt`.

use crate::compute::ComputeCapability;
use crate::context::ContextTable;
use crate::gpu::{CudaContext, FlopRates, Gpu, NewestTorch};
use crate::rows::{Row, TableError, number, rows};

const FIELDS: usize = 20;
const MIB: u64 = 1 << 20;

/// Parses all rows.
pub(crate) fn read(text: &str, contexts: &ContextTable) -> Result<Vec<Gpu>, TableError> {
    rows(text).map(|row| row.parsed(|row| gpu(row, contexts))).collect()
}

fn gpu(row: &Row<'_>, contexts: &ContextTable) -> Result<Gpu, String> {
    let fields = &row.fields;
    if fields.len() != FIELDS {
        return Err(format!("found {} fields, needed {FIELDS}", fields.len()));
    }
    let compute: ComputeCapability = fields[2].parse()?;
    let context = match (mebibytes(fields[13])?, mebibytes(fields[14])?, mebibytes(fields[15])?) {
        (Some(base), Some(blas), Some(dnn)) => Some(CudaContext { base, blas, dnn }),
        _ => None,
    };
    let multiprocessors = fields[4].parse().map_err(|_| format!("found `{}` SMs, needed a whole number", fields[4]))?;
    Ok(Gpu {
        name: fields[0].to_owned(),
        architecture: fields[1].to_owned(),
        compute,
        memory: gibibytes(needed(number(fields[3])?, "GB")?),
        multiprocessors,
        bandwidth: number(fields[5])?,
        cache: number(fields[6])?,
        flop_rates: FlopRates {
            fp64: number(fields[7])?,
            fp32: number(fields[8])?,
            tf32: number(fields[9])?,
            fp16: number(fields[10])?,
            bf16: number(fields[11])?,
        },
        seen_by_cuda: size(fields[12])?,
        // Where the context was measured, so were the workspaces, and they equal PyTorch's defaults.
        measured_workspaces: context.map(|_| compute.workspaces()),
        context,
        estimated_context: contexts.estimate(compute, multiprocessors),
        newest: text(fields[17]).map(|cuda| NewestTorch {
            torch: Some(fields[16]).filter(|torch| *torch != "any").map(str::to_owned),
            cuda,
        }),
        seen_by_cuda_source: text(fields[18]),
        aliases: fields[19].split(',').map(str::trim).filter(|alias| !alias.is_empty()).map(str::to_owned).collect(),
    })
}

/// The row that [`read`] parses into this GPU. What was measured must be whole MiB; more is rounded up.
pub(crate) fn write(gpu: &Gpu) -> String {
    let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let mebibytes = |bytes: u64| bytes.div_ceil(MIB).to_string();
    // A row with a context says that the workspaces are PyTorch's defaults.
    let has_default_workspaces = gpu.measured_workspaces == Some(gpu.compute.workspaces());
    let context = gpu.context.filter(|_| has_default_workspaces);
    let context = context.map(|context| [context.base, context.blas, context.dnn].map(mebibytes));
    let [base, blas, dnn] = context.unwrap_or_else(|| ["-"; 3].map(str::to_owned));
    let newest = gpu.newest.as_ref();
    let last_torch = newest.map_or("any", |newest| newest.torch.as_deref().unwrap_or("any"));
    let rates = gpu.flop_rates;
    let fields: [String; FIELDS] = [
        gpu.name.clone(),
        gpu.architecture.clone(),
        gpu.compute.to_string(),
        gpu.gigabytes().to_string(),
        gpu.multiprocessors.to_string(),
        number(gpu.bandwidth),
        number(gpu.cache),
        number(rates.fp64),
        number(rates.fp32),
        number(rates.tf32),
        number(rates.fp16),
        number(rates.bf16),
        gpu.seen_by_cuda.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes} B")),
        base,
        blas,
        dnn,
        last_torch.to_owned(),
        text(newest.map(|newest| newest.cuda.as_str())),
        text(gpu.seen_by_cuda_source.as_deref()),
        gpu.aliases.join(", "),
    ];
    fields.join(" | ").trim_end().to_owned()
}

fn text(field: &str) -> Option<String> {
    (field != "-").then(|| field.to_owned())
}

fn needed(number: Option<f64>, name: &str) -> Result<f64, String> {
    number.ok_or_else(|| format!("found no {name}, needed a number"))
}

fn mebibytes(field: &str) -> Result<Option<u64>, String> {
    Ok(number(field)?.map(|number| number as u64 * MIB))
}

fn gibibytes(number: f64) -> u64 {
    (number * (1_u64 << 30) as f64) as u64
}

/// Parses a size such as `23.64 GiB` or `150109880320 B`.
fn size(field: &str) -> Result<Option<u64>, String> {
    if field == "-" {
        return Ok(None);
    }
    match field.split_once(' ') {
        Some((number_text, "GiB")) => Ok(number(number_text)?.map(gibibytes)),
        Some((number_text, "B")) => Ok(number(number_text)?.map(|bytes| bytes as u64)),
        _ => Err(format!("found `{field}`, needed a size in GiB or B")),
    }
}
