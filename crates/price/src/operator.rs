//! An operator with its measurements.

use vramfit_eager::operators::{Extent, Facts, Work};

use crate::tables::{Kernel, PerPass, TABLES, Tables};

/// An operator of the model with its measurements.
#[derive(Clone, Debug)]
pub(crate) struct PricedOperator {
    pub facts: &'static Facts,
    /// The operator's kernel, then the variants that a call may use instead.
    kernels: [Option<&'static Kernel>; 3],
    names: [&'static str; 3],
    /// CPU time of a call, without and with a bias.
    pub dispatch: [PerPass<f64>; 2],
    /// CPU time of a call that launches no kernel.
    pub view_dispatch: PerPass<f64>,
}

impl PricedOperator {
    pub fn new(facts: &'static Facts) -> PricedOperator {
        let tables: &'static Tables = &TABLES;
        let kernel = measured_kernel(facts.time.work).0;
        let variants: [&str; 2] = match kernel {
            "add" => ["add_row", "mul_scalar"],
            "mul" | "div" => ["mul_row", "mul_scalar"],
            "to_half" => ["to_single", "contiguous"],
            "gelu" => ["gelu_tanh", ""],
            "cross_entropy" => ["cross_entropy_wide", ""],
            "batch_norm" => ["batch_norm_last", ""],
            "max_pool" => ["max_pool_last", ""],
            _ => ["", ""],
        };
        PricedOperator {
            facts,
            kernels: [kernel, variants[0], variants[1]].map(|name| tables.kernel(name)),
            names: [kernel, variants[0], variants[1]],
            dispatch: match facts.time.dispatch {
                "linear" => ["linear_no_bias", "linear"],
                "conv2d" => ["conv2d", "conv2d_bias"],
                other => [other; 2],
            }
            .map(|name| tables.dispatch(name).unwrap_or_default()),
            view_dispatch: tables.dispatch(facts.view_dispatch).unwrap_or_default(),
        }
    }

    /// The name of the kernel variant.
    pub fn kernel_name(&self, variant: usize) -> &'static str {
        if self.kernels[variant].is_some() { self.names[variant] } else { self.names[0] }
    }

    /// The kernel variant, or the operator's own kernel if that variant was not measured.
    pub fn kernel(&self, variant: usize) -> Option<&'static Kernel> {
        self.kernels[variant].or(self.kernels[0])
    }
}

/// The measured kernel for an operator, and the number of elements it processes. An operator without measurements is
/// priced as an addition. Compute-bound operators have tables of their own and do not use this kernel.
pub(crate) fn measured_kernel(work: Work) -> (&'static str, Extent) {
    match work {
        Work::Moves(kernel, extent) => (kernel, extent),
        _ => ("add", Extent::Larger),
    }
}

/// Whether an operator is priced as memory-bound.
pub(crate) fn moves_memory(work: Work) -> bool {
    matches!(work, Work::Moves(..) | Work::Assumed)
}

#[cfg(test)]
mod tests {
    use vramfit_eager::operators;

    use super::*;

    #[test]
    fn every_measurement_that_an_operator_names_exists() {
        for facts in operators::all() {
            let time = facts.time;
            let exists = match time.work {
                // Plain RNN layers were not measured: their kernels cost nothing.
                Work::Recurrent("recurrent_RNN") => true,
                Work::Recurrent(family) => TABLES.points(family, true).is_some(),
                work => TABLES.kernel(measured_kernel(work).0).is_some(),
            };
            assert!(exists, "{time:?}");
            assert!(TABLES.dispatch(time.dispatch).is_some(), "{time:?}");
            assert!(TABLES.dispatch(facts.view_dispatch).is_some(), "{}", facts.view_dispatch);
        }
    }

    #[test]
    fn an_operator_without_measurements_is_priced_as_an_addition() {
        assert_eq!(measured_kernel(Work::Assumed), ("add", Extent::Larger));
        assert!(moves_memory(Work::Assumed));
    }
}
