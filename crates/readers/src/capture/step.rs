//! Steps: what happened, in order.

use serde::de::{self, SeqAccess};

use super::argument::unknown_word;
use crate::json::{List, ParseState, Read, out_of_range};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Call, Cast, Step};

impl<'de> Read<'de> for Step {
    const NEEDED: &'static str = "a step";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Ok(match list.required("the name of a step")? {
            Kind::Call => {
                let operator = list.required("an operator")?;
                let arguments = list.required("arguments")?;
                let results = list.required("results")?;
                let SourceNumber(source) = list.required("a source")?;
                let cast = list.next()?.unwrap_or(Cast::No);
                Step::Call(Call { operator, arguments, results, source, cast })
            }
            Kind::Free => Step::Free(list.required("tensors")?),
            Kind::Enter => Step::Enter(list.required("a module")?, list.required("tensors")?),
            Kind::Exit => Step::Exit(list.required("a module")?, list.required("tensors")?),
            Kind::Grad => Step::Grad(list.required("a grad mode")?),
            Kind::Autocast => {
                let device: String = list.required("a device")?;
                let is_enabled = list.required("whether it is on")?;
                let dtype: Option<Dtype> = list.required("a dtype")?;
                let has_cache = list.required("whether casts are kept")?;
                Step::Autocast { is_gpu: device == "cuda", dtype, is_enabled, has_cache }
            }
            Kind::Checkpoint => Step::Checkpoint {
                is_reentrant: list.required("whether it is reentrant")?,
                preserves_rng: list.required("whether it keeps random states")?,
                arguments: list.required("tensors")?,
            },
            Kind::Function => Step::Function { name: list.required("a name")?, arguments: list.required("tensors")? },
            Kind::Loss => Step::Loss,
            Kind::End => match list.required("the name of a region")? {
                Region::Autocast => Step::EndAutocast,
                Region::Checkpoint => Step::EndCheckpoint(list.next()?.unwrap_or_default()),
                Region::Function => {
                    Step::EndFunction { results: list.required("results")?, saved: list.required("saved tensors")? }
                }
                Region::Loss => Step::EndLoss,
            },
        })
    }
}

enum Kind {
    Call,
    Free,
    Enter,
    Exit,
    Grad,
    Autocast,
    Checkpoint,
    Function,
    Loss,
    End,
}

impl<'de> Read<'de> for Kind {
    const NEEDED: &'static str = "the name of a step";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        Ok(match text {
            "call" => Kind::Call,
            "free" => Kind::Free,
            "enter" => Kind::Enter,
            "exit" => Kind::Exit,
            "grad" => Kind::Grad,
            "autocast" => Kind::Autocast,
            "checkpoint" => Kind::Checkpoint,
            "function" => Kind::Function,
            "loss" => Kind::Loss,
            "end" => Kind::End,
            _ => {
                let needed =
                    "`call`, `free`, `enter`, `exit`, `grad`, `autocast`, `checkpoint`, `function`, `loss` or `end`";
                return Err(unknown_word(state, text, needed));
            }
        })
    }
}

enum Region {
    Autocast,
    Checkpoint,
    Function,
    Loss,
}

impl<'de> Read<'de> for Region {
    const NEEDED: &'static str = "the name of a region";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        Ok(match text {
            "autocast" => Region::Autocast,
            "checkpoint" => Region::Checkpoint,
            "function" => Region::Function,
            "loss" => Region::Loss,
            _ => return Err(unknown_word(state, text, "`autocast`, `checkpoint`, `function` or `loss`")),
        })
    }
}

/// The index of a source; -1 means none.
struct SourceNumber(Option<u32>);

impl<'de> Read<'de> for SourceNumber {
    const NEEDED: &'static str = "an integer";

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
        match u32::try_from(value) {
            Ok(number) => Ok(SourceNumber(Some(number))),
            Err(_) if value == -1 => Ok(SourceNumber(None)),
            Err(_) => Err(out_of_range(state, value.into(), "the number of a source, or -1")),
        }
    }
}

impl<'de> Read<'de> for Cast {
    const NEEDED: &'static str = "an integer";

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
        match value {
            0 => Ok(Cast::No),
            1 => Ok(Cast::ForCall),
            2 => Ok(Cast::Kept),
            _ => Err(out_of_range(state, value.into(), "0, 1 or 2")),
        }
    }
}
