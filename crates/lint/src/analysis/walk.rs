//! A walk over statements alone, for rules that need no events.

use ruff_python_ast::visitor::{Visitor, walk_stmt};
use ruff_python_ast::{Expr, Stmt};

/// Visits all statements, including those of inner blocks.
pub fn walk_statements<'a>(body: &'a [Stmt], visit: &mut impl FnMut(&'a Stmt)) {
    struct Walk<'v, V>(&'v mut V);
    impl<'a, V: FnMut(&'a Stmt)> Visitor<'a> for Walk<'_, V> {
        fn visit_stmt(&mut self, statement: &'a Stmt) {
            (self.0)(statement);
            walk_stmt(self, statement);
        }

        fn visit_expr(&mut self, _: &'a Expr) {}
    }
    Walk(visit).visit_body(body);
}
