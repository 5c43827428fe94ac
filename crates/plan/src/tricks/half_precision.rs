//! Setups in bf16 and fp16, for the tricks that change precision.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::select::select_variant;
use vramfit_training::script::{Parallel, Sharded};

use crate::setup::Setup;
use crate::workbench::Workbench;

/// `fully_shard` that casts for each module is not simulated together with a change of precision.
pub(super) fn refuse_mixed(start: &Setup) -> Result<(), String> {
    match &start.training.parallel {
        Parallel::Sharded(Sharded { param_dtype: Some(dtype), .. }) => {
            Err(format!("MixedPrecisionPolicy has sharded modules compute in {} already", dtype.short_name()))
        }
        _ => Ok(()),
    }
}

/// Applies `set` for bf16 and fp16, if the GPU supports the type and the model file has another variant for it.
pub(super) fn setups(
    bench: &Workbench<'_>,
    start: &Setup,
    set: impl Fn(&mut Setup, Dtype),
) -> Result<Vec<Setup>, String> {
    let given = select_variant(bench.model, start.variant).map_err(|error| error.to_string())?;
    let has_bfloat16 = bench.device.gpu.compute.has_bfloat16();
    let mut reason = "the model is in half precision already".to_owned();
    let mut setups = Vec::new();
    for dtype in [Dtype::Bfloat16, Dtype::Float16] {
        if dtype == Dtype::Bfloat16 && !has_bfloat16 {
            continue;
        }
        let mut setup = start.clone();
        set(&mut setup, dtype);
        match select_variant(bench.model, setup.variant) {
            Ok(found) if found != given => setups.push(setup),
            Ok(_) => {}
            Err(error) => reason = error.to_string(),
        }
    }
    if setups.is_empty() { Err(reason) } else { Ok(setups) }
}
