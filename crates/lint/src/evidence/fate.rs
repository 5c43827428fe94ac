//! What becomes of a container after the loop that fills it.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::{Ranged, TextSize};

use crate::analysis::FileFacts;
use crate::analysis::facts::ScopeId;
use crate::analysis::names;
use crate::analysis::usage::Usage;

/// Whether what a local container holds is wanted as it is: the function returns it, or hands it to a call together with a network,
/// without bringing it to main memory. `after` is the statement that fills it.
pub fn stays_on_gpu(facts: &FileFacts<'_>, scope: ScopeId, container: &str, after: TextSize) -> bool {
    let body = facts.function(scope).map_or(facts.body, |function| facts.index.functions[function].body);
    let container = container.split('[').next().unwrap_or(container);
    let mut reader = Reader {
        usage: &facts.index.usage,
        aliases: vec![container.to_string()],
        after,
        is_returned: false,
        is_used: false,
        leaves: false,
    };
    reader.visit_body(body);
    reader.is_used || reader.is_returned && !reader.leaves
}

struct Reader<'u> {
    usage: &'u Usage,
    /// The container, and what is made of it on the GPU.
    aliases: Vec<String>,
    after: TextSize,
    is_returned: bool,
    is_used: bool,
    /// Whether something brings it to main memory.
    leaves: bool,
}

impl Reader<'_> {
    fn mentions(&self, expression: &Expr) -> bool {
        let mut finder = Finder { aliases: &self.aliases, is_found: false, leaves: false };
        finder.visit_expr(expression);
        finder.is_found && !finder.leaves
    }

    fn leaves(&self, expression: &Expr) -> bool {
        let mut finder = Finder { aliases: &self.aliases, is_found: false, leaves: false };
        finder.visit_expr(expression);
        finder.is_found && finder.leaves
    }
}

impl<'a> Visitor<'a> for Reader<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if statement.start() > self.after {
            match statement {
                Stmt::Return(returned) => {
                    if let Some(value) = &returned.value {
                        self.is_returned |= self.mentions(value);
                        self.leaves |= self.leaves(value);
                    }
                }
                Stmt::Assign(assign) => {
                    self.leaves |= self.leaves(&assign.value);
                    if self.mentions(&assign.value) {
                        self.aliases.extend(assign.targets.iter().filter_map(names::access_path));
                    }
                }
                Stmt::Expr(expression) => self.leaves |= self.leaves(&expression.value),
                _ => {}
            }
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression
            && call.start() > self.after
        {
            let is_network = |path: &str| self.usage.is_network(path) || self.usage.has_mode(path);
            let given =
                || call.arguments.args.iter().chain(call.arguments.keywords.iter().map(|keyword| &keyword.value));
            let with_network = names::access_path(&call.func).is_some_and(|path| is_network(&path))
                || given().any(|argument| names::access_path(argument).is_some_and(|path| is_network(&path)));
            self.is_used |= with_network && given().any(|argument| self.mentions(argument));
        }
        visitor::walk_expr(self, expression);
    }
}

/// Looks for a container in an expression, and for what brings it to main memory there.
struct Finder<'n> {
    aliases: &'n [String],
    is_found: bool,
    leaves: bool,
}

impl<'a> Visitor<'a> for Finder<'_> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        self.is_found |= names::access_path(expression).is_some_and(|path| self.aliases.contains(&path));
        if let Expr::Call(call) = expression {
            self.leaves |= match &*call.func {
                Expr::Attribute(method) => {
                    matches!(method.attr.as_str(), "cpu" | "numpy" | "tolist" | "item")
                        || names::dotted(&method.value)
                            .is_some_and(|owner| matches!(owner.as_str(), "np" | "numpy" | "metrics"))
                }
                Expr::Name(name) => {
                    let name = name.id.as_str();
                    matches!(name, "len" | "float" | "print") || name.ends_with("_score") || name.ends_with("_matrix")
                }
                _ => false,
            };
        }
        visitor::walk_expr(self, expression);
    }
}
