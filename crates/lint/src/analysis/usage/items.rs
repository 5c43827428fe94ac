//! Containers and the variables that stand for their items, within one function.

use ruff_python_ast::Expr;
use rustc_hash::FxHashSet as HashSet;

use crate::analysis::names::{self, access_path};

/// Which variables of a function stand for items of a container, and which are used as networks.
#[derive(Default)]
pub(super) struct Items {
    /// Item and container, by access path.
    of: Vec<(String, String)>,
    networks: HashSet<String>,
}

impl Items {
    /// Notes that a variable is switched to training or evaluation, or that its parameters are read.
    pub(super) fn use_as_network(&mut self, path: &str) {
        self.networks.insert(path.to_string());
        if let Some(container) = names::container(path) {
            self.of.push((path.to_string(), container.to_string()));
        }
    }

    /// `for target in source`: notes what the variables of `target` are items of. Returns the containers.
    pub(super) fn go_through(&mut self, target: &Expr, source: &Expr) -> Vec<String> {
        if let Some(container) = access_path(source) {
            if let Some(name) = access_path(target) {
                self.of.push((name, container.clone()));
            }
            return vec![container];
        }
        let Expr::Call(call) = source else { return Vec::new() };
        let second = match target {
            Expr::Tuple(tuple) => tuple.elts.get(1),
            _ => None,
        };
        match (&*call.func, &call.arguments.args[..], second) {
            (Expr::Attribute(method), [], _) if method.attr.as_str() == "values" => {
                self.go_through(target, &method.value)
            }
            (Expr::Attribute(method), [], Some(item)) if method.attr.as_str() == "items" => {
                self.go_through(item, &method.value)
            }
            (Expr::Name(name), [inner, ..], Some(item)) if name.id.as_str() == "enumerate" => {
                self.go_through(item, inner)
            }
            (Expr::Name(name), inner, _) if name.id.as_str() == "zip" => match target {
                Expr::Tuple(targets) => {
                    let pairs = targets.elts.iter().zip(inner);
                    pairs.flat_map(|(item, inner)| self.go_through(item, inner)).collect()
                }
                _ => Vec::new(),
            },
            // `tqdm(loader)`, `list(nets)`.
            (_, [inner, ..], _) => self.go_through(target, inner),
            _ => Vec::new(),
        }
    }

    /// The items that are networks, each with its container.
    pub(super) fn networks(self) -> Vec<(String, String)> {
        let Items { of, networks } = self;
        of.into_iter().filter(|(item, _)| networks.contains(item)).collect()
    }
}
