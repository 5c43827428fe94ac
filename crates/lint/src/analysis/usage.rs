//! How a file uses its variables, wherever they come from: what is called, moved, switched to evaluation, emptied, counted,
//! registered as a hook. A network is recognised by this, whatever made it.

mod items;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, Expr, ExprCall, Stmt};
use rustc_hash::FxHashSet as HashSet;

use super::names::{self, access_path};
use items::Items;

/// How variables are used, by access path.
#[derive(Debug, Default)]
pub struct Usage {
    called: HashSet<String>,
    moved: HashSet<String>,
    switched: HashSet<String>,
    /// Set to training or evaluation mode.
    with_mode: HashSet<String>,
    parameters_read: HashSet<String>,
    /// Those whose parameters are read otherwise than in pairs with another network's, as an average of both is made.
    parameters_given: HashSet<String>,
    /// Passed to a call or put into a list or tuple.
    handed: HashSet<String>,
    /// Last names of containers that are emptied, or replaced by an empty one, outside constructors.
    emptied: HashSet<String>,
    counted: HashSet<String>,
    /// Variables that loops go through.
    drawn: HashSet<String>,
    /// Last names of functions that are registered as forward hooks, or that make such a function.
    hooks: HashSet<String>,
    /// Lists and dictionaries whose items are used as networks.
    holders: HashSet<String>,
    /// Variables that a loop or a comprehension goes through, perhaps within `enumerate` or a progress bar.
    iterated: HashSet<String>,
}

impl Usage {
    /// Collects the usage in `body`.
    pub fn new(body: &[Stmt]) -> Usage {
        let mut collector =
            Collector { usage: Usage::default(), is_constructor: true, in_pairs: false, items: Items::default() };
        collector.visit_body(body);
        collector.leave_items();
        collector.usage
    }

    /// Whether the file treats a variable as a network: it is called, and it is moved to a device, switched between training and
    /// evaluation, or has parameters.
    pub fn is_network(&self, path: &str) -> bool {
        let proven = self.switched.contains(path) || self.has_parameters_read(path);
        (proven || self.moved.contains(path) && !is_pipeline(path)) && self.called.contains(path)
    }

    /// Whether the items of a list or dictionary are networks: a loop over them, or a subscript, switches them to training or
    /// evaluation or reads their parameters.
    pub fn holds_networks(&self, path: &str) -> bool {
        self.holders.contains(path)
    }

    /// Whether a loop goes through a variable.
    pub fn is_iterated(&self, path: &str) -> bool {
        self.iterated.contains(path)
    }

    /// Whether a variable is called.
    pub fn is_called(&self, path: &str) -> bool {
        self.called.contains(path)
    }

    /// Whether a variable is moved to a device, or changed in its type.
    pub fn is_moved(&self, path: &str) -> bool {
        self.moved.contains(path)
    }

    /// All variables that are moved to a device, or changed in their type.
    pub fn moved(&self) -> impl Iterator<Item = &str> {
        self.moved.iter().map(String::as_str)
    }

    /// Whether a variable is set to training or evaluation mode, as no tensor is.
    pub fn has_mode(&self, path: &str) -> bool {
        self.with_mode.contains(path)
    }

    /// Whether something asks for a variable's parameters.
    pub fn has_parameters_read(&self, path: &str) -> bool {
        self.parameters_read.contains(path)
    }

    /// Whether an optimizer may have a variable's parameters.
    pub fn has_parameters_given(&self, path: &str) -> bool {
        self.parameters_given.contains(path)
    }

    /// Whether a variable is passed on, so that code elsewhere may train it.
    pub fn is_handed(&self, path: &str) -> bool {
        self.handed.contains(path)
    }

    /// Whether a container is emptied somewhere.
    pub fn is_emptied(&self, path: &str) -> bool {
        self.emptied.contains(names::last(path))
    }

    /// Whether a variable is a counter.
    pub fn is_counted(&self, path: &str) -> bool {
        self.counted.contains(path)
    }

    /// Whether a loop draws a variable from what it goes through.
    pub fn is_drawn(&self, name: &str) -> bool {
        self.drawn.contains(name)
    }

    /// Whether a function of this name is a forward hook, or makes one.
    pub fn is_hook(&self, name: &str) -> bool {
        self.hooks.contains(name)
    }
}

/// A pipeline of diffusers or transformers is moved and called, and runs without gradients.
fn is_pipeline(path: &str) -> bool {
    names::last(path).to_lowercase().contains("pipe")
}

/// Methods that return the network itself.
pub fn is_fluent(method: &str) -> bool {
    matches!(
        method,
        "to" | "cuda"
            | "cpu"
            | "half"
            | "float"
            | "double"
            | "bfloat16"
            | "eval"
            | "train"
            | "requires_grad_"
            | "share_memory"
            | "type"
    )
}

struct Collector {
    usage: Usage,
    is_constructor: bool,
    /// Within `zip(…)`.
    in_pairs: bool,
    items: Items,
}

impl Collector {
    fn method_called(&mut self, path: &str, method: &str, call: &ExprCall) {
        let is_plain = call.arguments.is_empty();
        let is_of_network = is_plain && matches!(method, "eval" | "train" | "parameters" | "named_parameters");
        if is_of_network && !path.to_lowercase().contains("trainer") {
            self.items.use_as_network(path);
        }
        if is_plain && matches!(method, "eval" | "train") && !path.to_lowercase().contains("trainer") {
            self.usage.with_mode.insert(path.to_string());
        }
        if matches!(method, "parameters" | "named_parameters" | "trainable_parameters") && !self.in_pairs {
            self.usage.parameters_given.insert(path.to_string());
        }
        let set = match method {
            "cuda" | "to" | "half" | "bfloat16" => &mut self.usage.moved,
            "eval" if is_plain => &mut self.usage.switched,
            "train" if call.arguments.len() <= 1 => &mut self.usage.switched,
            "parameters" | "named_parameters" | "trainable_parameters" => &mut self.usage.parameters_read,
            "state_dict" | "load_state_dict" | "requires_grad_" | "named_modules" => &mut self.usage.switched,
            "clear" | "popleft" | "popitem" | "pop" => {
                self.usage.emptied.insert(names::last(path).to_string());
                return;
            }
            "register_forward_hook" | "register_forward_pre_hook" => {
                match call.arguments.args.first() {
                    Some(Expr::Call(factory)) => self.hook(&factory.func),
                    Some(function) => self.hook(function),
                    None => {}
                }
                return;
            }
            _ => return,
        };
        // A trainer, a tree or a data frame has such methods too.
        if !(method == "train" && path.to_lowercase().contains("trainer")) {
            set.insert(path.to_string());
        }
    }

    fn hook(&mut self, function: &Expr) {
        if let Some(path) = access_path(function) {
            self.usage.hooks.insert(names::last(&path).to_string());
        }
    }

    /// `net = Net(3).cuda().eval()` moves and switches `net`.
    fn assigned(&mut self, target: &Expr, value: &Expr) {
        let Some(path) = access_path(target) else { return };
        let mut value = value;
        while let Expr::Call(call) = value
            && let Expr::Attribute(method) = &*call.func
            && is_fluent(method.attr.as_str())
        {
            self.method_called(&path, method.attr.as_str(), call);
            value = &method.value;
        }
        let is_empty = match value {
            Expr::List(list) => list.elts.is_empty(),
            Expr::Dict(dict) => dict.items.is_empty(),
            Expr::NoneLiteral(_) => true,
            Expr::Call(call) => {
                call.arguments.is_empty()
                    && matches!(&*call.func, Expr::Name(name) if matches!(name.id.as_str(), "list" | "dict" | "deque" | "set"))
            }
            _ => false,
        };
        if is_empty && !self.is_constructor && path.contains('.') {
            self.usage.emptied.insert(names::last(&path).to_string());
        }
    }

    /// At the end of a function: what its variables showed of the containers they are items of.
    fn leave_items(&mut self) {
        for (item, container) in std::mem::take(&mut self.items).networks() {
            for set in [&mut self.usage.parameters_given, &mut self.usage.parameters_read, &mut self.usage.handed] {
                if set.contains(&item) {
                    set.insert(container.clone());
                }
            }
            self.usage.holders.insert(container);
        }
    }

    fn draw(&mut self, target: &Expr) {
        match target {
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|part| self.draw(part)),
            Expr::Name(name) => {
                self.usage.drawn.insert(name.id.to_string());
            }
            _ => {}
        }
    }

    fn hand(&mut self, expression: &Expr) {
        match expression {
            Expr::Starred(starred) => self.hand(&starred.value),
            other => self.usage.handed.extend(access_path(other)),
        }
    }
}

impl<'a> Visitor<'a> for Collector {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => {
                let outer = std::mem::replace(&mut self.is_constructor, function.name.as_str() == "__init__");
                let items = std::mem::take(&mut self.items);
                visitor::walk_stmt(self, statement);
                self.leave_items();
                self.items = items;
                self.is_constructor = outer;
                return;
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    match (target, &*assign.value) {
                        (Expr::Tuple(targets), Expr::Tuple(values)) if targets.elts.len() == values.elts.len() => {
                            for (target, value) in targets.elts.iter().zip(&values.elts) {
                                self.assigned(target, value);
                            }
                        }
                        (target, value) => self.assigned(target, value),
                    }
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assigned(&assign.target, value);
                }
            }
            Stmt::For(loop_) => {
                self.draw(&loop_.target);
                self.usage.iterated.extend(self.items.go_through(&loop_.target, &loop_.iter));
            }
            Stmt::AugAssign(assign) => {
                self.usage.counted.extend(access_path(&assign.target));
            }
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    if let Expr::Subscript(subscript) = target
                        && let Some(path) = access_path(&subscript.value)
                    {
                        self.usage.emptied.insert(names::last(&path).to_string());
                    }
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.usage.iterated.extend(self.items.go_through(&comprehension.target, &comprehension.iter));
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => {
                if let Some(path) = access_path(&call.func) {
                    self.usage.called.insert(path);
                }
                if let Expr::Attribute(method) = &*call.func
                    && let Some(path) = access_path(&method.value)
                {
                    self.method_called(&path, method.attr.as_str(), call);
                }
                for argument in call.arguments.args.iter() {
                    self.hand(argument);
                }
                for keyword in call.arguments.keywords.iter() {
                    self.hand(&keyword.value);
                }
            }
            Expr::List(list) => list.elts.iter().for_each(|item| self.hand(item)),
            Expr::Tuple(tuple) if tuple.ctx.is_load() => tuple.elts.iter().for_each(|item| self.hand(item)),
            Expr::Dict(dict) => dict.items.iter().for_each(|item| self.hand(&item.value)),
            _ => {}
        }
        let is_zip = matches!(expression, Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "zip"));
        let outer = self.in_pairs;
        self.in_pairs |= is_zip;
        visitor::walk_expr(self, expression);
        self.in_pairs = outer;
    }
}
