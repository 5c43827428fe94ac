//! What a file declares: imports, functions, classes, constants. Collected once, before interpretation.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Decorator, Expr, Number, Operator, Parameters, Stmt};
use ruff_text_size::{TextRange, TextSize};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::device::Device;
use super::names;
use super::usage::Usage;

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
        let mut collector = Collector {
            index: Index::default(),
            class: None,
            function: None,
            numbers: HashMap::default(),
            has_backward: Vec::new(),
            identifiers: HashSet::default(),
        };
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
        const CALLS: [&str; 11] = [
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

struct Collector<'a> {
    index: Index<'a>,
    class: Option<ClassId>,
    function: Option<FunctionId>,
    numbers: HashMap<String, Option<f64>>,
    has_backward: Vec<(bool, HashSet<&'a str>)>,
    identifiers: HashSet<&'a str>,
}

impl<'a> Collector<'a> {
    fn import(&mut self, local: &str, path: String) {
        self.index.imports.insert(local.to_string(), path);
    }

    fn number(&mut self, name: String, value: Option<f64>) {
        self.numbers
            .entry(name)
            .and_modify(|known| {
                if *known != value {
                    *known = None
                }
            })
            .or_insert(value);
    }

    /// Visits an expression whose reads put nothing into a loss.
    fn visit_apart(&mut self, expression: &'a Expr) {
        self.has_backward.push((false, HashSet::default()));
        visitor::walk_expr(self, expression);
        if let Some((true, _)) = self.has_backward.pop()
            && let Some((has_backward, _)) = self.has_backward.last_mut()
        {
            *has_backward = true;
        }
    }

    /// Whether an expression names an imported module.
    fn is_module(&self, expression: &Expr) -> bool {
        names::dotted(expression).is_some_and(|name| self.index.resolve(&name).is_some())
    }

    fn argument_default(&mut self, arguments: &ruff_python_ast::Arguments) {
        let Some(Expr::StringLiteral(flag)) =
            arguments.args.iter().rev().find(
                |argument| matches!(argument, Expr::StringLiteral(text) if text.value.to_str().starts_with("--")),
            )
        else {
            return;
        };
        let default = arguments.find_keyword("default").and_then(|keyword| number(&keyword.value));
        let name = flag.value.to_str().trim_start_matches('-').replace('-', "_");
        self.number(format!("args.{name}"), default);
    }
}

/// Whether a method shows or stores what it is given.
fn is_observer(method: &str) -> bool {
    matches!(
        method,
        "item"
            | "info"
            | "debug"
            | "warning"
            | "write"
            | "add_scalar"
            | "add_scalars"
            | "log"
            | "save"
            | "dump"
            | "plot"
            | "set_postfix"
            | "set_description"
            | "format"
            | "cpu"
            | "numpy"
            | "tolist"
            | "detach"
    )
}

/// The value of an expression of literals.
pub fn number(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::NumberLiteral(literal) => match &literal.value {
            Number::Int(value) => value.as_i64().map(|value| value as f64),
            Number::Float(value) => Some(*value),
            Number::Complex { .. } => None,
        },
        Expr::BinOp(operation) => {
            let (left, right) = (number(&operation.left)?, number(&operation.right)?);
            match operation.op {
                Operator::Add => Some(left + right),
                Operator::Sub => Some(left - right),
                Operator::Mult => Some(left * right),
                Operator::Pow => Some(left.powf(right)),
                _ => None,
            }
        }
        _ => None,
    }
}

impl<'a> Visitor<'a> for Collector<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let path = alias.name.as_str();
                    match &alias.asname {
                        Some(local) => self.import(local.as_str(), path.to_string()),
                        None => {
                            let first = path.split('.').next().unwrap_or(path);
                            self.import(first, first.to_string());
                        }
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                let dots = ".".repeat(import.level as usize);
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                for alias in &import.names {
                    let local = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.import(local.as_str(), format!("{dots}{module}.{}", alias.name));
                }
            }
            Stmt::FunctionDef(function) => {
                let id = self.index.functions.len();
                self.index.functions.push(Function {
                    name: function.name.as_str(),
                    class: self.class,
                    parent: self.function,
                    parameters: &function.parameters,
                    decorators: &function.decorator_list,
                    body: &function.body,
                    range: function.range,
                    is_generator: false,
                });
                match self.class {
                    Some(class) => {
                        self.index.classes[class].methods.insert(function.name.as_str(), id);
                    }
                    None => self.index.by_name.entry(function.name.as_str()).or_default().push(id),
                }
                let (class, outer) = (self.class.take(), self.function.replace(id));
                self.has_backward.push((false, HashSet::default()));
                visitor::walk_stmt(self, statement);
                if let Some((has_backward, read)) = self.has_backward.pop() {
                    if has_backward {
                        self.index.read_where_backward.extend(read.iter().map(ToString::to_string));
                    }
                    if let Some((outer_has, outer_read)) = self.has_backward.last_mut() {
                        *outer_has |= has_backward;
                        outer_read.extend(read);
                    }
                }
                self.class = class;
                self.function = outer;
                return;
            }
            Stmt::ClassDef(class) => {
                let id = self.index.classes.len();
                let arguments = class.arguments.as_deref();
                let bases = arguments.iter().flat_map(|arguments| arguments.args.iter()).filter_map(names::dotted);
                let bases = bases.map(|base| self.index.resolve(&base).unwrap_or(base)).collect();
                self.index.classes.push(Class {
                    name: class.name.as_str(),
                    bases,
                    kind: ClassKind::Other,
                    methods: HashMap::default(),
                    range: class.range,
                });
                self.index.class_by_name.insert(class.name.as_str(), id);
                let (outer, function) = (self.class.replace(id), self.function.take());
                visitor::walk_stmt(self, statement);
                self.class = outer;
                self.function = function;
                return;
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    if let Some(path) = names::access_path(target) {
                        self.number(path, number(&assign.value));
                    }
                }
            }
            Stmt::AnnAssign(assign) => {
                if let (Some(path), Some(value)) = (names::access_path(&assign.target), &assign.value) {
                    self.number(path, number(value));
                }
            }
            Stmt::AugAssign(assign) => {
                if let Some(path) = names::access_path(&assign.target) {
                    self.number(path, None);
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => {
                if let Expr::Attribute(attribute) = &*call.func {
                    let method = attribute.attr.as_str();
                    self.index.called.insert(method);
                    if let Some(path) = names::access_path(&attribute.value) {
                        self.index.methods_called.entry(method).or_default().insert(path);
                    }
                    if method == "add_argument" {
                        self.argument_default(&call.arguments);
                    }
                    if matches!(method, "backward" | "manual_backward")
                        && let Some((has_backward, _)) = self.has_backward.last_mut()
                    {
                        *has_backward = true;
                    }
                    // Adding to a container or emptying it does not read it.
                    if matches!(method, "append" | "extend" | "clear" | "add" | "insert") {
                        for argument in call.arguments.args.iter() {
                            self.visit_expr(argument);
                        }
                        if let Expr::Attribute(owner) = &*attribute.value {
                            self.visit_expr(&owner.value);
                        }
                        return;
                    }
                    // A replay buffer may yield the same graph twice, which backward() would reject: so it holds none.
                    if matches!(method, "sample" | "choices" | "choice") && self.is_module(&attribute.value) {
                        self.visit_expr(&attribute.value);
                        for argument in call.arguments.args.iter().filter(|argument| !argument.is_attribute_expr()) {
                            self.visit_expr(argument);
                        }
                        return;
                    }
                    // Showing or storing a value does not put it into a loss.
                    if is_observer(method) {
                        return self.visit_apart(expression);
                    }
                } else if let Expr::Name(name) = &*call.func {
                    self.index.called.insert(name.id.as_str());
                    if matches!(name.id.as_str(), "len" | "print" | "float" | "int" | "str" | "round") {
                        return self.visit_apart(expression);
                    }
                }
            }
            Expr::Attribute(attribute) => {
                self.identifiers.insert(attribute.attr.as_str());
                if attribute.ctx.is_load()
                    && let Some((_, read)) = self.has_backward.last_mut()
                {
                    read.insert(attribute.attr.as_str());
                }
            }
            Expr::Name(name) => {
                self.identifiers.insert(name.id.as_str());
            }
            Expr::Yield(_) | Expr::YieldFrom(_) => {
                if let Some(function) = self.function {
                    self.index.functions[function].is_generator = true;
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expression);
    }
}
