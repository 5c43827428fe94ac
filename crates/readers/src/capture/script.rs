//! What a recording of a script has beside its steps.

use serde::de::{self, MapAccess, SeqAccess};

use super::argument::unknown_word;
use crate::json::{List, Object, ParseState, Read, fields};
use vramfit_graph::model::{Caller, Calls, RecordedFile, RecordedScript};

impl<'de> Read<'de> for RecordedScript {
    const NEEDED: &'static str = "an object";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "parameters" => parameters, "steps" => steps, "cudnn_benchmark" => is_cudnn_benchmarked, "callers" => callers
        }, optional { "files" => files, "grad_scaler" => has_grad_scaler, "assumed_sizes" => has_assumed_sizes });
        let parameters: i64 = parameters;
        let files: Option<Vec<RecordedFile>> = files;
        let files = files.unwrap_or_default();
        let has_grad_scaler: Option<bool> = has_grad_scaler;
        let has_grad_scaler = has_grad_scaler.unwrap_or(false);
        let has_assumed_sizes: Option<bool> = has_assumed_sizes;
        Ok(RecordedScript {
            parameters: parameters.unsigned_abs(),
            steps,
            is_cudnn_benchmarked,
            has_grad_scaler,
            has_assumed_sizes: has_assumed_sizes.unwrap_or(false),
            callers,
            files,
        })
    }
}

impl<'de> Read<'de> for RecordedFile {
    const NEEDED: &'static str = "a file's name and the checksum of its bytes";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Ok(RecordedFile { name: list.required("a file's name")?, checksum: list.required("a checksum")? })
    }
}

impl<'de> Read<'de> for Caller {
    const NEEDED: &'static str = "a calling line, whether it called a module, and what the line itself calls";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Ok(Caller {
            source: list.required("a calling line")?,
            is_in_module: list.required("whether it called a module")?,
            calls: list.required("what the line calls")?,
        })
    }
}

impl<'de> Read<'de> for Calls {
    const NEEDED: &'static str = "\"operator\", \"module\", \"optimizer\" or \"replica\"";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        match text {
            "operator" => Ok(Calls::Operator),
            "module" => Ok(Calls::Module),
            "optimizer" => Ok(Calls::Optimizer),
            "replica" => Ok(Calls::Replica),
            _ => Err(unknown_word(state, text, "`operator`, `module`, `optimizer` or `replica`")),
        }
    }
}
