//! The printed training loop.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, capped, gpu, model, setup};
use vramfit_graph::dtype::Dtype;
use vramfit_plan::tricks::TRICKS;
use vramfit_plan::{Workbench, written};
use vramfit_training::optimizer::Kind;

#[test]
fn a_condition_is_printed_only_if_something_depends_on_it() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let mut setup = setup(&model, 8, Some(64));
    setup.training.accumulate = 4;
    let code = written(&bench, TRICKS, &setup).unwrap().code;
    assert!(code.ends_with("    if number % 4 == 3:\n        optimizer.step()\n"), "{code}");
    setup.training.optimizer.kind = Kind::None;
    let code = written(&bench, TRICKS, &setup).unwrap().code;
    assert!(code.ends_with("    loss.backward()\n") && !code.contains("optimizer = "), "{code}");
}

#[test]
fn several_tricks_write_into_one_step() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let mut setup = setup(&model, 8, Some(64));
    setup.training.accumulate = 2;
    setup.training.releases_outputs = true;
    setup.training.clips_gradients = true;
    setup.variant.amp = Some(Dtype::Float16);
    let code = written(&bench, TRICKS, &setup).unwrap().code;
    let loop_of = code.split("\n\n").last().unwrap();
    assert_eq!(
        loop_of,
        "\
for number, inputs in enumerate(batches):
    if number % 2 == 0:
        optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=torch.float16):
        outputs = model(**inputs)
        loss = outputs.loss / 2
    del outputs
    scaler.scale(loss).backward()
    del loss  # take loss.item() before, for the log
    if number % 2 == 1:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"
    );
}
