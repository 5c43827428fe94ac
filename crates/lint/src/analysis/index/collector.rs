//! Collects what a file declares and calls.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Number, Operator, Stmt};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::{Class, ClassId, ClassKind, Function, FunctionId, Index};
use crate::analysis::names;

/// What is known after the statements visited so far.
#[derive(Default)]
pub(super) struct Collector<'a> {
    pub(super) index: Index<'a>,
    class: Option<ClassId>,
    function: Option<FunctionId>,
    pub(super) numbers: HashMap<String, Option<f64>>,
    has_backward: Vec<(bool, HashSet<&'a str>)>,
    pub(super) identifiers: HashSet<&'a str>,
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
                    // A method is called on what is read: `parts.values()` reads no attribute `values`.
                    self.identifiers.insert(method);
                    self.visit_expr(&attribute.value);
                    return self.visit_arguments(&call.arguments);
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
