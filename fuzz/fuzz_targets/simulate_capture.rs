//! Any capture that can be read and bound can be simulated: no panic, no endless loop, no large allocation.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vramfit_allocator::Settings;
use vramfit_graph::bind::bind;
use vramfit_graph::select::{SizeFlags, Sizes};
use vramfit_readers::read_bytes;
use vramfit_eager::forward::Choice;
use vramfit_eager::machine::H200;
use vramfit_training::training::{AddedLoss, Loop, train};

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = read_bytes(bytes) else { return };
    let flags = SizeFlags { batch: Some(3), ..SizeFlags::default() };
    let chosen = Sizes::select(&model, &flags);
    for sizes in [Sizes::example(&model), chosen].into_iter().flatten() {
        for variant in 0..model.variants.len() {
            let Ok(bound) = bind(&model, variant, &sizes) else { continue };
            for checkpoint in [Choice::Nothing, Choice::Blocks] {
                let options = Loop { checkpoint, loss: AddedLoss::CrossEntropy, steps: 2, ..Loop::default() };
                if let Ok(run) = train(&bound, &options, Settings::default(), H200, false) {
                    for phase in &run.phases {
                        assert!(phase.peak.allocated >= phase.allocated);
                    }
                }
            }
        }
    }
});
