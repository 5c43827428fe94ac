//! Recordings of scripts, which are read like models and are none.

use vramfit_graph::model::{Model, Origin, RecordedScript};
use vramfit_report::failure::Failure;

/// The script whose recording a model is; `None` where it is a model.
pub fn script(model: &Model) -> Option<&RecordedScript> {
    model.script.as_ref().filter(|_| model.origin == Origin::Script)
}

/// Refuses the recording of a script where a command needs a model.
pub fn refuse(name: &str, model: &Model) -> Result<(), Failure> {
    let hint = format!(
        "`vramfit run --recording {name} --gpu NAME` answers for any GPU, and `vramfit explain {name}` says what holds the memory, \
         `vramfit plan {name} --gpu NAME` what to change in the script; to change the model or the batch, change the script and run it again"
    );
    let needed = "found the recording of a script, needed a model: what a script does is not changed by flags";
    match script(model) {
        Some(_) => Err(Failure::new(format!("{name}: {needed}")).with_hint(Some(hint))),
        None => Ok(()),
    }
}
