//! What a file declares: imports, functions, classes, constants. Collected once, before interpretation.

mod collector;

use ruff_python_ast::visitor::Visitor;
use ruff_python_ast::{Decorator, Expr, Parameters, Stmt};
use ruff_text_size::{TextRange, TextSize};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::device::Device;
use super::names;
use super::usage::Usage;
use collector::Collector;

pub use collector::number;

/// Index of a function in its file.
pub type FunctionId = usize;
/// Index of a class in its file.
pub type ClassId = usize;

/// A function or method.
#[derive(Debug)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// The class it is a method of.
    pub class: Option<ClassId>,
    /// The function it is defined in.
    pub parent: Option<FunctionId>,
    /// Its parameters.
    pub parameters: &'a Parameters,
    /// Its decorators.
    pub decorators: &'a [Decorator],
    /// Its body.
    pub body: &'a [Stmt],
    /// Its source range.
    pub range: TextRange,
    /// Whether it yields.
    pub is_generator: bool,
}

/// The kind of a class, by its bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassKind {
    /// `torch.nn.Module`.
    Module,
    /// A Lightning module.
    Lightning,
    /// A subclass of Hugging Face's Trainer.
    Trainer,
    /// A loss function written as a module.
    Criterion,
    /// A data set.
    Dataset,
    /// Anything else.
    Other,
}

/// A class.
#[derive(Debug)]
pub struct Class<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its bases by their full names.
    pub bases: Vec<String>,
    /// Its kind.
    pub kind: ClassKind,
    /// Its methods.
    pub methods: HashMap<&'a str, FunctionId>,
    /// Its source range.
    pub range: TextRange,
}

/// All that a file declares.
#[derive(Debug, Default)]
pub struct Index<'a> {
    /// Full names of imported modules and objects, by local name.
    pub imports: HashMap<String, String>,
    /// Functions and methods, in the order of the source.
    pub functions: Vec<Function<'a>>,
    /// Functions outside classes, by name.
    pub by_name: HashMap<&'a str, Vec<FunctionId>>,
    /// Classes.
    pub classes: Vec<Class<'a>>,
    /// Classes by name.
    pub class_by_name: HashMap<&'a str, ClassId>,
    /// Names and attributes that are only ever assigned one number.
    pub constants: HashMap<String, f64>,
    /// Last names of everything that is called.
    pub called: HashSet<&'a str>,
    /// Access paths on which a method is called, by method.
    pub methods_called: HashMap<&'a str, HashSet<String>>,
    /// Attributes read in functions that run a backward pass.
    pub read_where_backward: HashSet<String>,
    /// The end of the file itself; what comes after it is from other files of the run.
    pub own_end: TextSize,
    /// How the file uses its variables.
    pub usage: Usage,
    /// Whether the file mentions a GPU.
    pub has_gpu: bool,
    /// The device of a loader's batches, unless more is known.
    pub batches: Device,
    /// Whether the file uses PyTorch at all.
    pub has_torch: bool,
    /// Whether anything in the file can train, evaluate or load.
    pub is_worth_following: bool,
    /// Whether the file uses graph neural networks, which need all data on the GPU.
    pub has_graphs: bool,
}

const FRAMEWORKS: [&str; 14] = [
    "torch",
    "torchvision",
    "torchaudio",
    "torchtext",
    "lightning",
    "pytorch_lightning",
    "transformers",
    "accelerate",
    "timm",
    "fastai",
    "deepspeed",
    "torch_geometric",
    "dgl",
    "lightning_fabric",
];

impl<'a> Index<'a> {
    /// Collects what `body` declares.
    pub fn new(body: &'a [Stmt], source: &str, own_end: TextSize) -> Index<'a> {
        let mut collector = Collector::default();
        collector.visit_body(body);
        let Collector { mut index, numbers, identifiers, .. } = collector;
        index.usage = Usage::new(body);
        index.own_end = own_end;
        // What another file of the run defines is followed there.
        for (name, functions) in &index.by_name {
            if functions.last().is_some_and(|function| index.functions[*function].range.start() >= own_end) {
                index.imports.remove(*name);
            }
        }
        for (name, class) in &index.class_by_name {
            if index.classes[*class].range.start() >= own_end {
                index.imports.remove(*name);
            }
        }
        index.constants = numbers.into_iter().filter_map(|(name, number)| Some((name, number?))).collect();
        let is_framework = |path: &String| FRAMEWORKS.contains(&path.split('.').next().unwrap_or_default());
        index.has_torch = index.imports.values().any(is_framework);
        index.has_graphs = index.imports.values().any(|path| {
            path.starts_with("torch_geometric") || path.starts_with("dgl") || path.starts_with("torch_sparse")
        });
        // Only the file itself says where its tensors are.
        let source = &source[..own_end.into()];
        index.has_gpu = source.contains("cuda")
            || source.contains(".to(device")
            || source.contains("device=device")
            || source.contains(".device)")
            || source.contains("'device'")
            || source.contains("\"device\"")
            || source.contains("ccelerator");
        // A loader yields batches in main memory, unless something is wrapped around it.
        let is_wrapped = ["ccelerator", "abric", "refetch", "device_loader"];
        if !is_wrapped.into_iter().any(|word| source.contains(word)) {
            index.batches = Device::Cpu;
        }
        for class in 0..index.classes.len() {
            index.classes[class].kind = index.kind_of(class, 0);
        }
        index.is_worth_following = index.is_worth_following(&identifiers);
        index
    }

    /// Without a backward pass, a step, an evaluation, a checkpoint, a loader or a data set no rule that needs
    /// interpretation can find anything.
    fn is_worth_following(&self, identifiers: &HashSet<&str>) -> bool {
        const CALLS: [&str; 12] = [
            "backward",
            "manual_backward",
            "step",
            "zero_grad",
            "load_state_dict",
            "eval",
            "train",
            "grad",
            "cuda",
            "register_forward_hook",
            "set_detect_anomaly",
            "empty_cache",
        ];
        let has_hooks =
            || self.classes.iter().any(|class| matches!(class.kind, ClassKind::Lightning | ClassKind::Trainer));
        let has_data = || {
            identifiers.iter().any(|name| {
                let lower = name.to_lowercase();
                ["loader", "dataset", "subset", "random_split"].into_iter().any(|word| lower.contains(word))
                    || names::is_loader(name)
                    || names::is_dataset(name)
            })
        };
        let moves_sets = || {
            ["to", "cuda"].into_iter().any(|name| self.called.contains(name))
                && identifiers
                    .iter()
                    .any(|name| names::words(name).iter().any(|word| names::SETS.contains(&word.as_str())))
        };
        let has_networks = || {
            self.classes.iter().any(|class| class.kind == ClassKind::Module && class.methods.contains_key("forward"))
        };
        let moves = || self.has_gpu && self.called.contains("to");
        self.has_torch
            && (has_networks()
                || moves()
                || CALLS.into_iter().any(|name| self.called.contains(name))
                || has_hooks()
                || has_data()
                || moves_sets())
    }

    /// The value of a number, or of a name that is only ever assigned one.
    pub fn number(&self, expression: &Expr) -> Option<f64> {
        let constant = || names::access_path(expression).and_then(|path| self.constants.get(&path).copied());
        number(expression).or_else(constant)
    }

    /// The full name of a dotted name, by the imports.
    pub fn resolve(&self, dotted: &str) -> Option<String> {
        let (first, rest) = dotted.split_once('.').map_or((dotted, None), |(first, rest)| (first, Some(rest)));
        let path = self.imports.get(first)?;
        Some(rest.map_or_else(|| path.clone(), |rest| format!("{path}.{rest}")))
    }

    /// The method of a class or of its bases in the file.
    pub fn method(&self, class: ClassId, name: &str) -> Option<FunctionId> {
        let mut class = class;
        for _ in 0..8 {
            let declared = &self.classes[class];
            if let Some(method) = declared.methods.get(name) {
                return Some(*method);
            }
            class = *declared.bases.iter().find_map(|base| self.class_by_name.get(base.as_str()))?;
        }
        None
    }

    /// The methods of this name that the networks in the file have.
    pub fn network_methods(&self, name: &str) -> Vec<FunctionId> {
        let is_network = |class: &&Class<'a>| matches!(class.kind, ClassKind::Module | ClassKind::Lightning);
        self.classes.iter().filter(is_network).filter_map(|class| class.methods.get(name).copied()).collect()
    }

    /// What the classes derived from a class in the file have for a method that it leaves to them.
    pub fn methods_below(&self, class: ClassId, name: &str) -> Vec<FunctionId> {
        let derives = |other: &&Class<'a>| {
            let bases = other.bases.iter().filter_map(|base| self.class_by_name.get(base.as_str()));
            bases.into_iter().any(|base| *base == class)
        };
        self.classes.iter().filter(derives).filter_map(|other| other.methods.get(name).copied()).collect()
    }

    fn kind_of(&self, class: ClassId, depth: usize) -> ClassKind {
        let declared = &self.classes[class];
        for base in &declared.bases {
            let last = names::last(base);
            if last.ends_with("LightningModule") || last == "LightningDataModule" || base == "pl.Callback" {
                return ClassKind::Lightning;
            }
            if last.ends_with("Trainer") && (base.starts_with("transformers") || base.starts_with("trl"))
                || last == "Seq2SeqTrainer"
            {
                return ClassKind::Trainer;
            }
            if base.starts_with("torch.nn")
                || last == "Module" && !base.starts_with("flax") && !base.starts_with("haiku")
                || last.ends_with("PreTrainedModel")
                || last == "ModelMixin"
            {
                let is_loss =
                    last.ends_with("Loss") || declared.name.ends_with("Loss") || declared.name.ends_with("Criterion");
                return if is_loss { ClassKind::Criterion } else { ClassKind::Module };
            }
            if last.ends_with("Dataset") {
                return ClassKind::Dataset;
            }
            if let Some(&parent) = self.class_by_name.get(base.as_str())
                && depth < 8
                && parent != class
            {
                let kind = self.kind_of(parent, depth + 1);
                if kind != ClassKind::Other {
                    return kind;
                }
            }
        }
        // A base class in another file: what has a forward pass is a network.
        let has_unknown_base = declared.bases.iter().any(|base| {
            !matches!(names::last(base), "object" | "ABC" | "Protocol" | "Function")
                && !self.class_by_name.contains_key(base.as_str())
        });
        if has_unknown_base && declared.methods.contains_key("forward") {
            return ClassKind::Module;
        }
        ClassKind::Other
    }
}
