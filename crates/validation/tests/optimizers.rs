//! Every probe of an optimizer, of clipping and of GradScaler, replayed event by event.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::rc::Rc;

use flate2::read::GzDecoder;
use serde_json::Value;
use vramfit_eager::autograd::Context;
use vramfit_eager::autograd::Tensor;
use vramfit_eager::machine::H200;
use vramfit_eager::memory::{Entry, Memory};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_training::optimizer::clip::clip_grad_norm;
use vramfit_training::optimizer::scaler::GradScaler;
use vramfit_training::optimizer::{Implementation, Kind, Optimizer, Parameter, Recipe};
use vramfit_validation::measured::folder;

type Events = Vec<String>;

/// A simulated process with the weights of a probe.
struct Probe {
    context: Context,
    parameters: Vec<Parameter>,
    names: HashMap<u32, String>,
    seen: usize,
    parts: BTreeMap<String, Events>,
}

fn shapes(list: &str) -> Vec<Vec<i64>> {
    match list {
        "three" => vec![vec![1000, 771], vec![771], vec![33, 5]],
        "forty small" => (0..40).map(|number| vec![17 + number]).collect(),
        "twelve large" => vec![vec![771, 515]; 12],
        "two kinds" => vec![vec![129, 77]; 4],
        "scalar and empty grad" => vec![vec![], vec![7, 9]],
        "matrices" => vec![vec![1000, 771], vec![771, 1000], vec![64, 64], vec![33, 5], vec![5, 4100]],
        "around 4096" => vec![vec![4095], vec![4096], vec![64, 65], vec![3, 3, 5, 500]],
        "around 100000" => vec![vec![99_999], vec![100_000], vec![331, 777]],
        other => panic!("no list {other}"),
    }
}

impl Probe {
    fn new(list: &str, dtype: Dtype) -> Probe {
        let memory = Memory::new();
        let mut context = Context::new(Rc::new(RefCell::new(memory)), H200);
        // The probes ran in a process that had used cuBLAS before.
        context.use_blas_lt();
        let dtypes = |index: usize| if list == "two kinds" && index % 2 == 1 { Dtype::Bfloat16 } else { dtype };
        let layouts: Vec<Layout> =
            shapes(list).iter().enumerate().map(|(index, shape)| Layout::contiguous(dtypes(index), shape)).collect();
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut names = HashMap::new();
        for layout in &layouts {
            let tensor = context.empty(layout.clone());
            parameters.push(Parameter { tensor, gradient: Rc::new(RefCell::new(None)) });
        }
        for (index, (parameter, layout)) in parameters.iter().zip(&layouts).enumerate() {
            let gradient: Tensor = context.empty(layout.clone());
            *parameter.gradient.borrow_mut() = Some(gradient);
            let memory = context.memory().borrow();
            if let Some(Entry::Allocate { id, .. }) = memory.journal().last() {
                names.insert(*id, format!("g{index}"));
            }
        }
        let seen = context.memory().borrow().journal().len();
        Probe { context, parameters, names, seen, parts: BTreeMap::new() }
    }

    fn mark(&mut self, name: &str) {
        let memory = self.context.memory().borrow();
        let mut events = Events::new();
        for entry in &memory.journal()[self.seen..] {
            match entry {
                Entry::Allocate { id, bytes, .. } => {
                    let next = self.names.values().filter(|name| !name.starts_with('g')).count();
                    self.names.insert(*id, next.to_string());
                    events.push(format!("+{bytes}#{next}"));
                }
                Entry::Free { id } => events.push(format!("-#{}", self.names[id])),
            }
        }
        self.seen = memory.journal().len();
        drop(memory);
        self.parts.insert(name.to_owned(), events);
    }
}

fn recorded(part: &Value) -> Events {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let event = |event: &Value| match event[0].as_str() {
        Some("+") => format!("+{}#{}", event[1], event[2]),
        _ => format!("-#{}", text(&event[1])),
    };
    part.as_array().into_iter().flatten().map(event).collect()
}

fn probes() -> serde_json::Map<String, Value> {
    let mut all = probes_in("probe.json.gz");
    all.append(&mut probes_in("probe-optimizers.json.gz"));
    all
}

fn probes_in(name: &str) -> serde_json::Map<String, Value> {
    let file = File::open(folder().join("measured").join(name)).expect("the probes are in the repository");
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).expect("the probes are readable");
    let mut all: Value = serde_json::from_str(&text).expect("the probes are JSON");
    match all["probes"].take() {
        Value::Object(probes) => probes,
        _ => panic!("the probes are an object"),
    }
}

fn recipe(name: &str, implementation: &str) -> Option<Recipe> {
    let (base, adds_decay) = match name.strip_suffix(" decay") {
        Some("AdamW no") => ("AdamW", false),
        Some(base) => (base, true),
        None => (name, false),
    };
    let kind = match base {
        "SGD" => Kind::Sgd,
        "SGD momentum" => Kind::Momentum,
        "SGD nesterov" => Kind::Nesterov,
        "Adam amsgrad" | "AdamW amsgrad" => Kind::Amsgrad,
        "RMSprop" => Kind::RmsProp,
        other => Kind::named(&other.to_lowercase())?,
    };
    Some(Recipe { kind, implementation: Implementation::named(implementation)?, adds_decay })
}

/// The simulated parts of a probe, if it is of something that is simulated.
fn simulate(words: &[&str]) -> Option<BTreeMap<String, Events>> {
    let dtype = |name: &str| match name {
        "bfloat16" => Dtype::Bfloat16,
        "float16" => Dtype::Float16,
        _ => Dtype::Float32,
    };
    let probe = match *words {
        ["clip", "foreach None" | "foreach True", list, name] => {
            let mut probe = Probe::new(list, dtype(name));
            clip_grad_norm(&mut probe.context, &probe.parameters, false);
            probe.mark("clip, result dropped");
            probe
        }
        ["clip", ..] => return None,
        ["scaler", implementation, list, how] => {
            let mut probe = Probe::new(list, Dtype::Float32);
            let recipe = Recipe::new(Kind::AdamW, Implementation::named(implementation)?);
            let mut optimizer = Optimizer::new(&mut probe.context, recipe, &probe.parameters);
            let mut scaler = GradScaler::default();
            let mut scaled = None;
            for step in 1..=2 {
                drop(scaler.scale(&mut probe.context));
                let new = probe.context.empty_contiguous(Dtype::Float32, &[]);
                drop(scaled.replace(new));
                probe.mark(&format!("scale {step}"));
                if how == "unscale" {
                    scaler.unscale(&mut probe.context, 0, &optimizer, &probe.parameters);
                    probe.mark(&format!("unscale {step}"));
                }
                scaler.step(&mut probe.context, 0, &mut optimizer, &probe.parameters);
                probe.mark(&format!("step {step}"));
                scaler.update();
                probe.mark(&format!("update {step}"));
            }
            probe
        }
        [name, implementation, list, kind] => {
            let recipe = recipe(name, implementation)?;
            let mut probe = Probe::new(list, dtype(kind));
            let mut optimizer = Optimizer::new(&mut probe.context, recipe, &probe.parameters);
            probe.mark("constructor");
            for step in 1..=3 {
                optimizer.step(&mut probe.context, &probe.parameters);
                probe.mark(&format!("step {step}"));
            }
            optimizer.zero_grad(&probe.parameters, false);
            probe.mark("zero_grad to zeros");
            optimizer.zero_grad(&probe.parameters, true);
            probe.mark("zero_grad to none");
            probe
        }
        _ => return None,
    };
    Some(probe.parts)
}

#[test]
fn every_optimizer_does_on_the_gpu_what_was_recorded() {
    let mut wrong = Vec::new();
    let (mut same, mut left_out) = (0, 0);
    for (key, found) in &probes() {
        let Some(rest) = key.strip_prefix("optimizer|") else { continue };
        let words: Vec<&str> = rest.split('|').collect();
        if found.get("error").is_some() {
            if let [name, implementation, _, _] = *words {
                let recipe = recipe(name, implementation);
                // Muon takes matrices only.
                let is_refused = |recipe: Recipe| !recipe.exists() || recipe.kind == Kind::Muon;
                assert!(recipe.is_none_or(is_refused), "{key} is refused by PyTorch");
            }
            continue;
        }
        let Some(parts) = simulate(&words) else {
            left_out += 1;
            continue;
        };
        for (name, events) in parts {
            let recorded = recorded(&found[&name]);
            if events == recorded {
                same += 1;
            } else {
                wrong.push(format!("{key} {name}\n   {}\n   {}", recorded.join(" "), events.join(" ")));
            }
        }
    }
    println!("{same} parts agree, {left_out} probes are of what is not simulated");
    assert!(wrong.is_empty(), "{} parts differ:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
}
