//! The reader of `data/gpus.txt`.

use crate::compute::ComputeCapability;
use crate::gpu::{CudaContext, FlopRates, Gpu, NewestTorch};

/// A malformed row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TableError {
    /// Line number, from 1.
    pub line: usize,
    /// What was found and what was needed.
    pub problem: String,
}

const FIELDS: usize = 20;
const MIB: u64 = 1 << 20;

/// Parses all rows.
pub(crate) fn read(text: &str) -> Result<Vec<Gpu>, TableError> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty())
        .map(|(index, line)| row(line).map_err(|problem| TableError { line: index + 1, problem }))
        .collect()
}

fn row(line: &str) -> Result<Gpu, String> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    if fields.len() != FIELDS {
        return Err(format!("found {} fields, needed {FIELDS}", fields.len()));
    }
    let compute: ComputeCapability = fields[2].parse()?;
    let context = match (mebibytes(fields[13])?, mebibytes(fields[14])?, mebibytes(fields[15])?) {
        (Some(base), Some(blas), Some(dnn)) => Some(CudaContext { base, blas, dnn }),
        _ => None,
    };
    Ok(Gpu {
        name: fields[0].to_owned(),
        architecture: fields[1].to_owned(),
        compute,
        memory: gibibytes(needed(number(fields[3])?, "GB")?),
        multiprocessors: fields[4].parse().map_err(|_| format!("found `{}` SMs, needed a whole number", fields[4]))?,
        bandwidth: Some(needed(number(fields[5])?, "GB/s")?),
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
        newest: text(fields[17]).map(|cuda| NewestTorch {
            torch: Some(fields[16]).filter(|torch| *torch != "any").map(str::to_owned),
            cuda,
        }),
        seen_by_cuda_source: text(fields[18]),
        aliases: fields[19].split(',').map(str::trim).filter(|alias| !alias.is_empty()).map(str::to_owned).collect(),
    })
}

fn text(field: &str) -> Option<String> {
    (field != "-").then(|| field.to_owned())
}

fn number(field: &str) -> Result<Option<f64>, String> {
    match field {
        "-" => Ok(None),
        _ => match field.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(Some(number)),
            _ => Err(format!("found `{field}`, needed a number above 0 or -")),
        },
    }
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
