//! VF011: a retry inside the handler of an out-of-memory error.

use std::collections::HashSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{ExceptHandler, ExceptHandlerExceptHandler, Expr, ExprCall, Stmt, StmtTry};
use ruff_text_size::{Ranged, TextRange};

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::names;
use crate::finding::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    code: "VF011",
    summary: "a retry inside the handler of an out-of-memory error",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF011.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    if !facts.index.has_torch {
        return;
    }
    let mut search = Search { facts, function: Vec::new(), findings };
    search.visit_body(facts.body);
}

struct Search<'f, 'a, 'o> {
    facts: &'f FileFacts<'a>,
    function: Vec<&'a str>,
    findings: &'o mut Vec<Finding>,
}

impl<'a> Visitor<'a> for Search<'_, 'a, '_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => {
                self.function.push(function.name.as_str());
                visitor::walk_stmt(self, statement);
                self.function.pop();
            }
            Stmt::Try(attempt) => {
                self.attempt(attempt);
                visitor::walk_stmt(self, statement);
            }
            _ => visitor::walk_stmt(self, statement),
        }
    }
}

impl<'a> Search<'_, 'a, '_> {
    fn attempt(&mut self, attempt: &'a StmtTry) {
        let mut tried = Calls::default();
        tried.visit_body(&attempt.body);
        let tried: HashSet<String> = tried.calls.iter().filter_map(|call| names::access_path(&call.func)).collect();
        for handler in &attempt.handlers {
            let ExceptHandler::ExceptHandler(handler) = handler;
            if !self.is_out_of_memory(handler) {
                continue;
            }
            let mut handled = Calls::default();
            handled.visit_body(&handler.body);
            let text = &self.facts.source[handler.range];
            // A retry on the CPU needs no GPU memory.
            if text.contains(".cpu()") || text.contains("\"cpu\"") || text.contains("'cpu'") {
                continue;
            }
            let retried = handled.calls.iter().find(|call| self.is_retry(call, &tried));
            if let Some(call) = retried {
                let range: TextRange = call.range();
                self.findings.push(
                    Finding::new(RULE.code, range, format!("`{}` is tried again inside the `except` block", self.facts.text(&*call.func)))
                        .costs("the exception's traceback holds the failed call's frames and all their tensors: the retry has that much less memory")
                        .advises("note the failure, leave the `except` block, then free and retry")
                        .rated(Severity::Error),
                );
            }
        }
    }

    fn is_out_of_memory(&self, handler: &ExceptHandlerExceptHandler) -> bool {
        let caught = handler.type_.as_deref().map_or("", |caught| self.facts.text(caught));
        if caught.contains("OutOfMemory") {
            return true;
        }
        let body = &self.facts.source[handler.range].to_lowercase();
        (caught.contains("RuntimeError") || caught.contains("Exception") || caught.is_empty())
            && (body.contains("out of memory") || body.contains("is_oom") || body.contains("should_reduce_batch_size"))
    }

    fn is_retry(&self, call: &ExprCall, tried: &HashSet<String>) -> bool {
        let Some(path) = names::access_path(&call.func) else { return false };
        let last = names::last(&path);
        let is_housekeeping = matches!(
            last,
            "zero_grad"
                | "empty_cache"
                | "collect"
                | "print"
                | "str"
                | "len"
                | "int"
                | "max"
                | "min"
                | "range"
                | "getattr"
                | "isinstance"
                | "synchronize"
                | "item"
                | "cpu"
                | "to"
                | "cuda"
                | "append"
                | "size"
                | "float"
                | "detach"
                | "format"
                | "step"
                | "update"
                | "join"
                | "get"
                | "ipc_collect"
                | "reset_peak_memory_stats"
                | "memory_allocated"
                | "memory_reserved"
                | "memory_summary"
                | "chunk"
                | "split"
                | "clear"
                | "sleep"
                | "time"
                | "type"
                | "tensor"
                | "zeros"
                | "enumerate"
                | "tqdm"
                | "list"
                | "dict"
                | "tuple"
                | "sum"
                | "eval"
                | "train"
                | "set_description"
                | "parameters"
                | "close"
                | "exit"
                | "unscale_"
                | "numel"
                | "hasattr"
                | "repr"
                | "round"
                | "any"
                | "all"
                | "zip"
                | "map"
                | "set"
                | "sorted"
                | "abs"
                | "no_grad"
                | "autocast"
                | "device"
                | "keys"
                | "items"
                | "values"
                | "pop"
                | "copy"
                | "is_available"
                | "lower"
                | "strip"
                | "startswith"
        ) || last.starts_with("log")
            || last.starts_with("warn")
            || matches!(last, "info" | "error" | "debug" | "warning" | "exception");
        // `optimizer.step()` is housekeeping, a function called `step` is not.
        let is_housekeeping = is_housekeeping
            && (path.contains('.') || !matches!(last, "step" | "update" | "train" | "eval" | "copy" | "get"));
        if is_housekeeping {
            return false;
        }
        let prepares = names::words(last).first().is_some_and(|word| {
            matches!(
                word.as_str(),
                "adjust"
                    | "reset"
                    | "get"
                    | "set"
                    | "save"
                    | "restore"
                    | "free"
                    | "cleanup"
                    | "clear"
                    | "release"
                    | "garbage"
                    | "check"
                    | "is"
                    | "num"
            )
        });
        let is_plain = self.facts.index.resolve(&path).is_some_and(|full| {
            let library = full.split('.').next().unwrap_or_default();
            names::is_without_tensors(library)
        });
        let is_recursion = self.function.last().is_some_and(|function| *function == last);
        !prepares && !is_plain && (tried.contains(&path) || is_recursion)
    }
}

/// The calls of a block in source order, without those inside nested functions and lambdas.
#[derive(Default)]
struct Calls<'a> {
    calls: Vec<&'a ExprCall>,
}

impl<'a> Visitor<'a> for Calls<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if !matches!(statement, Stmt::FunctionDef(_) | Stmt::ClassDef(_)) {
            visitor::walk_stmt(self, statement);
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Lambda(_) = expression {
            return;
        }
        visitor::walk_expr(self, expression);
        if let Expr::Call(call) = expression {
            self.calls.push(call);
        }
    }
}
