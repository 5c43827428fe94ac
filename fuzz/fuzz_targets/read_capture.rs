//! Any bytes are a model or an error: no panic, no endless loop, no large allocation; and a model can be bound, or not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vramfit_graph::bind::bind;
use vramfit_graph::select::{SizeFlags, Sizes};
use vramfit_readers::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    match read_bytes(bytes) {
        Ok(model) => {
            let names = model.symbol_names();
            for expression in &model.expressions {
                assert!(!expression.named(&names).to_string().is_empty());
            }
            let flags = SizeFlags { batch: Some(3), ..SizeFlags::default() };
            let chosen = Sizes::select(&model, &flags);
            for sizes in [Sizes::example(&model), chosen].into_iter().flatten() {
                for variant in 0..model.variants.len() {
                    match bind(&model, variant, &sizes) {
                        Ok(bound) => {
                            assert_eq!(bound.steps.len(), model.steps[bound.variant.steps].len());
                            assert!(bound.tensors.iter().all(|tensor| tensor.shape.len() == tensor.strides.len()));
                        }
                        Err(error) => assert!(!error.to_string().is_empty()),
                    }
                }
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = error.hint();
        }
    }
});
