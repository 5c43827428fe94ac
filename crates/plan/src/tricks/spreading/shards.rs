//! `fully_shard` in words and in code.

use vramfit_graph::bind::Bound;
use vramfit_training::script::{AfterForward, Sharded};
use vramfit_training::sharded_modules;

use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(super) fn described(settings: &Sharded) -> String {
    let over = match settings.replicas {
        1 => format!("sharded over {} GPUs (FSDP2)", settings.shards),
        replicas => format!("{replicas} replicas, each sharded over {} GPUs (HSDP)", settings.shards),
    };
    let kept = match settings.after_forward {
        AfterForward::Kept => ", gathered weights kept until the backward pass",
        AfterForward::Freed | AfterForward::FreedButRoot => "",
        AfterForward::Split(_) => ", gathered weights split again",
    };
    let offload = if settings.offloads { ", weights and optimizer state on the CPU" } else { "" };
    over + kept + offload
}

/// The lists whose members these modules are, if they are all members of their lists.
fn lists_of(names: &[String]) -> Option<Vec<String>> {
    let mut lists: Vec<(String, usize)> = Vec::new();
    for name in names {
        let (list, number) = name.rsplit_once('.')?;
        let number: usize = number.parse().ok()?;
        match lists.iter_mut().find(|(known, _)| known == list) {
            Some((_, next)) if *next == number => *next += 1,
            None if number == 0 => lists.push((list.to_owned(), 1)),
            _ => return None,
        }
    }
    Some(lists.into_iter().map(|(list, _)| list).collect())
}

/// The modules beside the root in the order in which `fully_shard` is called on them: it refuses a module around one that it was not
/// called on yet.
fn sharded_names(bound: &Bound<'_>, settings: &Sharded) -> Vec<String> {
    let chosen = sharded_modules(bound, settings).unwrap_or_default();
    chosen
        .into_iter()
        .filter(|module| *module != 0)
        .filter_map(|module| bound.model.modules[module].path.clone())
        .collect()
}

/// The arguments of `MixedPrecisionPolicy`; none without one.
pub(crate) fn policy(settings: &Sharded) -> Vec<String> {
    [("param_dtype", settings.param_dtype), ("reduce_dtype", settings.reduce_dtype)]
        .into_iter()
        .filter_map(|(name, dtype)| Some(format!("{name}=torch.{}", dtype?.name())))
        .collect()
}

pub(super) fn write_shards(bench: &Workbench<'_>, setup: &Setup, settings: &Sharded, code: &mut PrintedLoop) {
    code.imports.once("from torch.distributed.device_mesh import init_device_mesh");
    let mut needed = vec!["fully_shard"];
    let mut arguments = vec!["mesh=mesh".to_owned()];
    match settings.after_forward {
        AfterForward::FreedButRoot => {}
        AfterForward::Freed => arguments.push("reshard_after_forward=True".to_owned()),
        AfterForward::Kept => arguments.push("reshard_after_forward=False".to_owned()),
        AfterForward::Split(ranks) => arguments.push(format!("reshard_after_forward={ranks}")),
    }
    let types = policy(settings);
    if !types.is_empty() {
        needed.push("MixedPrecisionPolicy");
        arguments.push(format!("mp_policy=MixedPrecisionPolicy({})", types.join(", ")));
    }
    if settings.offloads {
        needed.push("CPUOffloadPolicy");
        arguments.push("offload_policy=CPUOffloadPolicy()".to_owned());
    }
    needed.sort_unstable();
    code.imports.once(&format!("from torch.distributed.fsdp import {}", needed.join(", ")));
    let lines = &mut code.before_move;
    match settings.replicas {
        1 => lines.line(0, "mesh = init_device_mesh(\"cuda\", (dist.get_world_size(),))"),
        replicas => lines.call(
            0,
            "mesh = init_device_mesh",
            &[
                "\"cuda\"".to_owned(),
                format!("({replicas}, {})", settings.shards),
                "mesh_dim_names=(\"replicate\", \"shard\")".to_owned(),
            ],
            "",
        ),
    }
    let names = bench.bind(setup).map_or_else(Vec::new, |bound| sharded_names(&bound, settings));
    let each =
        |module: &str| -> Vec<String> { std::iter::once(module.to_owned()).chain(arguments.iter().cloned()).collect() };
    match lists_of(&names).as_deref() {
        Some([list]) => {
            lines.line(0, &format!("for block in model.get_submodule(\"{list}\"):"));
            lines.call(1, "fully_shard", &each("block"), "");
        }
        Some(lists @ [_, _, ..]) => {
            lines.list("lists", lists);
            lines.line(0, "for block in [block for name in lists for block in model.get_submodule(name)]:");
            lines.call(1, "fully_shard", &each("block"), "");
        }
        _ if names.is_empty() => {}
        _ => {
            lines.list("blocks", &names);
            lines.line(0, "for name in blocks:");
            lines.call(1, "fully_shard", &each("model.get_submodule(name)"), "");
        }
    }
    let mut root = vec!["model".to_owned()];
    root.extend(arguments);
    lines.call(0, "fully_shard", &root, "");
    code.is_moved = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_lists_are_named_by_their_lists() {
        let named = |names: &[&str]| lists_of(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(named(&["h.0", "h.1"]), Some(vec!["h".to_owned()]));
        assert_eq!(named(&["a.b.0", "c.0", "c.1"]), Some(vec!["a.b".to_owned(), "c".to_owned()]));
        assert_eq!(named(&["h.1", "h.2"]), None);
        assert_eq!(named(&["encoder"]), None);
    }
}
