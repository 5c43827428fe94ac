//! Finds the habits that waste or leak GPU memory in PyTorch training scripts.
//!
//! A [`Document`] is parsed once; `analysis` follows the program through its functions and loops and writes down what
//! happens to its tensors; each of the [`rules`] looks at that. Nothing here prints: `vramfit-report` does.

mod analysis;
pub mod check;
pub mod document;
pub mod files;
pub mod finding;
pub mod fix;
mod nesting;
pub mod rules;
pub mod selection;
pub mod settings;
mod suppress;

pub use check::{Checked, check};
pub use document::{Document, Position};
pub use finding::{Edit, Finding, Fix, Severity};
pub use selection::Selection;

use ruff_python_ast::Stmt;

/// Goes through all statements, those of inner blocks too.
pub(crate) fn walk_statements<'a>(body: &'a [Stmt], visit: &mut impl FnMut(&'a Stmt)) {
    struct Walk<'v, V>(&'v mut V);
    impl<'a, V: FnMut(&'a Stmt)> ruff_python_ast::visitor::Visitor<'a> for Walk<'_, V> {
        fn visit_stmt(&mut self, statement: &'a Stmt) {
            (self.0)(statement);
            ruff_python_ast::visitor::walk_stmt(self, statement);
        }

        fn visit_expr(&mut self, _: &'a ruff_python_ast::Expr) {}
    }
    ruff_python_ast::visitor::Visitor::visit_body(&mut Walk(visit), body);
}
