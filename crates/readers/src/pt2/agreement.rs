//! Whether a graph, its signature and its ranges agree with each other.

use hashbrown::HashSet;

use super::document::{InputSpec, Program};
use super::error::ArchiveError;
use super::graph::RawArgument;
use super::node::argument_tensors;
use super::scope::Scope;
use crate::check::error::CheckError;
use crate::error::ReadError;

/// Checks what can be checked before the graph is walked: as many meanings as inputs and outputs, each input once, and
/// ranges that hold something.
pub(super) fn check_signature(program: &Program<'_>) -> Result<(), ReadError> {
    let counts = [
        ("signature.input_specs", program.inputs.len(), "graph.inputs", program.graph.inputs.len()),
        ("signature.output_specs", program.outputs.len(), "graph.outputs", program.graph.outputs.len()),
    ];
    let mut named: HashSet<&str> = HashSet::new();
    for spec in &program.inputs {
        let name = match spec {
            InputSpec::Parameter { tensor, .. } | InputSpec::Buffer { tensor, .. } | InputSpec::Constant { tensor } => {
                tensor
            }
            InputSpec::Given(RawArgument::Tensor(tensor)) => tensor,
            _ => continue,
        };
        if !named.insert(name) {
            let (table, what) = ("signature.input_specs", "input");
            return Err(CheckError::DuplicateName { table, what, name: name.clone().into_owned() }.into());
        }
    }
    for (field, found, other, needed) in counts {
        if found != needed {
            return Err(ArchiveError::WrongSpecCount { field, found, other, needed }.into());
        }
    }
    for (symbol, range) in &program.ranges {
        if let (Some(least), Some(most)) = (range.least, range.most)
            && least > most
        {
            return Err(ArchiveError::EmptyRange { symbol: symbol.clone().into_owned(), least, most }.into());
        }
    }
    Ok(())
}

/// Checks that what the graph returns is there.
pub(super) fn check_outputs(program: &Program<'_>, scope: &Scope<'_>) -> Result<(), ReadError> {
    for (at, output) in program.graph.outputs.iter().enumerate() {
        let mut names: Vec<&str> = Vec::new();
        argument_tensors(output, &mut |name| names.push(name));
        for name in names {
            scope.tensor(name, || format!("graph.outputs[{at}]"))?;
        }
    }
    Ok(())
}
