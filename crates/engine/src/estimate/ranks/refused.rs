//! Flags that have no effect on a way of spreading, and what is not simulated with it.

use vramfit_training::optimizer::{Kind, Library};
use vramfit_training::script::ZeroStage;

use crate::arguments::{AutocastDtype, ModeKind, ParallelWay, RunSettings, StateLocation};
use vramfit_report::failure::Failure;

/// Refuses flags that have no effect on this way of spreading, and what is not simulated with it.
pub fn refuse(options: &RunSettings) -> Result<(), Failure> {
    let flags = &options.ranks;
    let way = flags.parallel;
    let has_shard_flags = [
        ("--shard", flags.shard.is_some()),
        ("--reshard-after-forward", flags.reshard_after_forward.is_some()),
        ("--param-dtype", flags.param_dtype.is_some()),
        ("--reduce-dtype", flags.reduce_dtype.is_some()),
        ("--cpu-offload", flags.cpu_offload),
    ];
    let needs =
        |flag: &str, needed: &str| Err(Failure::new(format!("{flag}: found --parallel {way}, needed {needed}")));
    if let Some((flag, _)) = has_shard_flags.iter().find(|(_, is_given)| *is_given && !way.is_sharded()) {
        return needs(flag, "fsdp2 or hsdp:RxS");
    }
    let has_replica_flags =
        [("--gradient-as-bucket-view", flags.gradient_as_bucket_view), ("--static-graph", flags.static_graph)];
    let is_replica = matches!(way, ParallelWay::Ddp | ParallelWay::Zero1);
    if let Some((flag, _)) = has_replica_flags.iter().find(|(_, is_given)| *is_given && !is_replica) {
        return needs(flag, "ddp or zero1");
    }
    let is_deepspeed = matches!(way, ParallelWay::DeepSpeed(_));
    let is_partitioned = way == ParallelWay::DeepSpeed(ZeroStage::Three);
    let has_engine_flags = [
        ("--reduce-bucket-size", flags.reduce_bucket_size.is_some()),
        ("--overlap-comm", flags.overlap_comm.is_some()),
        ("--gradient-clipping", flags.gradient_clipping.is_some()),
    ];
    if let Some((flag, _)) = has_engine_flags.iter().find(|(_, is_given)| *is_given && !is_deepspeed) {
        return needs(flag, "deepspeed:STAGE");
    }
    let has_gathering_flags = [
        ("--stage3-prefetch-bucket-size", flags.stage3_prefetch_bucket_size.is_some()),
        ("--stage3-max-live-parameters", flags.stage3_max_live_parameters.is_some()),
        ("--stage3-max-reuse-distance", flags.stage3_max_reuse_distance.is_some()),
        ("--stage3-param-persistence-threshold", flags.stage3_param_persistence_threshold.is_some()),
        ("--offload-param", flags.offload_param),
    ];
    if let Some((flag, _)) = has_gathering_flags.iter().find(|(_, is_given)| *is_given && !is_partitioned) {
        return needs(flag, "deepspeed:3");
    }
    if flags.static_graph && options.accumulate > 1 && flags.no_sync.unwrap_or(true) {
        let why = "found --accumulate, in whose first micro-batch PyTorch stops with an internal error under no_sync";
        return Err(Failure::new(format!("--static-graph: {why}; needed --no-sync false")));
    }
    if flags.no_sync.is_some() && matches!(way, ParallelWay::None | ParallelWay::Tp | ParallelWay::DeepSpeed(_)) {
        return needs("--no-sync", "ddp, zero1, fsdp2 or hsdp:RxS");
    }
    if way == ParallelWay::None {
        return match flags.world {
            Some(world @ 2..) => {
                needs(&format!("--world {world}"), "ddp, zero1, fsdp2, hsdp:RxS, tp or deepspeed:STAGE")
            }
            _ => Ok(()),
        };
    }
    let kind = options.optimizer.0;
    if kind == Kind::None && is_deepspeed {
        return Err(Failure::new(format!("--optimizer none: found --parallel {way}, which needed an optimizer")));
    }
    match not_simulated(options) {
        Some(flag) => Err(Failure::new(format!("--parallel {way}: found {flag}, which {NOT_SIMULATED} with it"))),
        None => Ok(()),
    }
}

/// How each of these refusals ends.
const NOT_SIMULATED: &str = "is not simulated";

/// What the flags ask for that is not simulated with their way of spreading.
fn not_simulated(options: &RunSettings) -> Option<String> {
    let flags = &options.ranks;
    let way = flags.parallel;
    let is_deepspeed = matches!(way, ParallelWay::DeepSpeed(_));
    let is_partitioned = way == ParallelWay::DeepSpeed(ZeroStage::Three);
    let kind = options.optimizer.0;
    let is_elementwise =
        kind.library() == Library::Torch && !matches!(kind, Kind::Muon | Kind::Adafactor | Kind::AdafactorHf);
    let optimizer = format!("--optimizer {}", kind.name());
    let asked = [
        ("--quantize", options.at.fine_tuning.quantize.is_some()),
        ("--step-in-backward", options.step_in_backward),
        ("--optimizer-state cpu", options.optimizer_state == StateLocation::Cpu && !is_deepspeed),
        ("--offload-activations", options.offload_activations.memory().is_some()),
        ("--ema", options.ema),
        ("--optimizer-groups", options.optimizer_groups.is_some()),
        (optimizer.as_str(), kind != Kind::None && !is_elementwise && way != ParallelWay::Ddp),
        ("--amp with --param-dtype", options.at.amp.is_some() && flags.param_dtype.is_some()),
        // One call of a foreach kernel takes either weights that are split or others.
        ("--clip-grad", options.clip_grad && way == ParallelWay::Tp),
        ("--amp fp16", options.at.amp == Some(AutocastDtype::Fp16) && way == ParallelWay::Tp),
        ("--amp", options.at.amp.is_some() && is_deepspeed),
        ("--mode eval", options.at.mode == ModeKind::Eval && is_deepspeed),
        // Weights are gathered for the model's modules, not for a loss that multiplies with one.
        ("--chunked-loss", options.chunked_loss.is_some() && is_partitioned),
        ("--fused-linear-loss", options.fused_linear_loss.is_some() && is_partitioned),
    ];
    asked.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::{Arg, ArgAction, Args, Command, FromArgMatches};

    use super::*;
    use crate::arguments::EstimateArguments;
    use crate::estimate::ranks::parallel;

    /// The ways of spreading, those of one column of the documents together.
    const WAYS: [(&str, &[&str]); 8] = [
        ("ddp", &["--parallel=ddp", "--world=8"]),
        ("zero1", &["--parallel=zero1", "--world=8"]),
        ("fsdp2", &["--parallel=fsdp2", "--world=8"]),
        ("hsdp", &["--parallel=hsdp:2x4"]),
        ("tp", &["--parallel=tp", "--world=8"]),
        ("deepspeed:1", &["--parallel=deepspeed:1", "--world=8"]),
        ("deepspeed:2", &["--parallel=deepspeed:2", "--world=8"]),
        ("deepspeed:3", &["--parallel=deepspeed:3", "--world=8"]),
    ];

    /// Values for flags whose values are no list.
    const SAMPLES: [(&str, &str); 19] = [
        ("batch", "2"),
        ("seq", "8"),
        ("size", "n=2"),
        ("lora", "8"),
        ("lora-targets", "q_proj"),
        ("lora-dropout", "0.1"),
        ("optimizer-groups", "decay:*"),
        ("checkpoint", "blocks"),
        ("checkpoint-save", "none"),
        ("chunked-loss", "4"),
        ("freeze", "embed"),
        ("accumulate", "2"),
        ("steps", "3"),
        ("gpu", "H200"),
        ("vram", "8GiB"),
        ("alloc-conf", "expandable_segments:True"),
        ("torch", "2.11"),
        ("cudnn", "off"),
        ("html", "page.html"),
    ];

    fn definition() -> Command {
        EstimateArguments::augment_args(Command::new("estimate")).no_binary_name(true)
    }

    /// A flag as words, once for each value that is tried.
    fn words(flag: &Arg) -> Vec<String> {
        let name = flag.get_long().unwrap();
        if matches!(flag.get_action(), ArgAction::SetTrue) {
            return vec![format!("--{name}")];
        }
        let listed: Vec<String> =
            flag.get_possible_values().iter().map(|value| format!("--{name}={}", value.get_name())).collect();
        let sample = SAMPLES.iter().find(|(known, _)| *known == name);
        match (listed.is_empty(), sample) {
            (false, _) => listed,
            (true, Some((_, value))) => vec![format!("--{name}={value}")],
            (true, None) => panic!("--{name} needs a value to be tried with"),
        }
    }

    fn refusal(words: &[&str]) -> Option<String> {
        let matches = definition().try_get_matches_from([words, &["model"]].concat()).unwrap();
        let given = EstimateArguments::from_arg_matches(&matches).unwrap();
        let found = parallel(&given.run).err()?.to_string();
        found.contains(NOT_SIMULATED).then_some(found)
    }

    /// The columns of ways in a few words.
    fn together(refused: &BTreeSet<&str>, all: &str) -> String {
        let is_all = |names: &[&str]| names.iter().all(|name| refused.contains(name));
        if is_all(&WAYS.map(|(name, _)| name)) {
            return all.to_owned();
        }
        let stages = ["deepspeed:1", "deepspeed:2", "deepspeed:3"];
        let are_all_stages = is_all(&stages);
        let mut names: Vec<String> = WAYS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| refused.contains(name) && !(are_all_stages && stages.contains(name)))
            .map(|name| format!("`{name}`"))
            .collect();
        if are_all_stages {
            names.push("`deepspeed`".to_owned());
        }
        names.join(", ")
    }

    /// The rows of the documents' table.
    fn rows(all: &str) -> String {
        let definition = definition();
        let flags: Vec<&Arg> = definition
            .get_arguments()
            .filter(|flag| flag.get_long().is_some() && flag.get_help_heading() != Some("Several GPUs"))
            .collect();
        // By flag, in the order of its help: what is refused of its values, by the ways that refuse it.
        let mut text = String::new();
        for flag in flags {
            let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
            let mut is_always = true;
            for word in words(flag) {
                let ways: BTreeSet<&str> = WAYS
                    .iter()
                    .filter(|(_, way)| refusal(&[*way, &[word.as_str()][..]].concat()).is_some())
                    .map(|(name, _)| *name)
                    .collect();
                match ways.is_empty() {
                    true => is_always = false,
                    false => refused.entry(together(&ways, all)).or_default().push(word.replace('=', " ")),
                }
            }
            let name = format!("--{}", flag.get_long().unwrap());
            let has_list = !flag.get_possible_values().is_empty() && !matches!(flag.get_action(), ArgAction::SetTrue);
            if !has_list || (is_always && refused.len() == 1) {
                refused.values_mut().for_each(|words| *words = vec![name.clone()]);
            }
            for (ways, words) in refused {
                let values: Vec<&str> =
                    words.iter().filter_map(|word| word.split_once(' ')).map(|(_, value)| value).collect();
                let what = match values.is_empty() {
                    true => format!("`{name}`"),
                    false => format!(
                        "`{name}` {}",
                        values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
                    ),
                };
                text += &format!("| {what} | {ways} |\n");
            }
        }
        text + "| `--amp` + `--param-dtype` | `fsdp2`, `hsdp` |\n"
    }

    #[test]
    fn documents_list_what_is_not_simulated() {
        for (file, all) in [("several-gpus.md", "all"), ("several-gpus.zh-CN.md", "全部")] {
            let path = format!("{}/../../docs/{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).unwrap();
            let (before, rest) = text.split_once("<!-- not simulated -->\n").unwrap();
            let (table, after) = rest.split_once("<!-- end of not simulated -->").unwrap();
            let head: String = table.split_inclusive('\n').take(3).collect();
            let expected = format!("{head}{}\n", rows(all));
            if std::env::var_os("VRAMFIT_UPDATE_GUIDE").is_some() {
                std::fs::write(
                    &path,
                    format!("{before}<!-- not simulated -->\n{expected}<!-- end of not simulated -->{after}"),
                )
                .unwrap();
            } else {
                assert_eq!(table, expected, "docs/{file}: VRAMFIT_UPDATE_GUIDE=1 writes the table anew");
            }
        }
    }

    #[test]
    fn autocast_is_not_simulated_where_modules_compute_in_another_type() {
        for (_, way) in &WAYS[2..4] {
            let found = refusal(&[*way, &["--amp=bf16", "--param-dtype=bf16"][..]].concat()).unwrap();
            assert!(found.contains("found --amp with --param-dtype, which is not simulated with it"), "{found}");
        }
    }
}
