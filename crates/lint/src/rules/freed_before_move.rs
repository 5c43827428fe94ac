//! Whether a checkpoint is freed before the model that it was loaded for moves to the GPU.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::{Ranged, TextSize};

use crate::analysis::FileFacts;
use crate::analysis::facts::Event;
use crate::analysis::names;
use crate::analysis::usage::Usage;

/// Whether the model was created on the CPU above and the checkpoint is freed before it moves to the GPU: no variable holds it then. Of
/// what a class makes, the move need not be near: the function may leave it on the CPU. `load` reads the file, `copy` fills the model.
pub fn is_freed_before_move(
    facts: &FileFacts<'_>,
    model: &str,
    load: &Event<'_>,
    copy: &Event<'_>,
    bound_to: Option<&str>,
) -> bool {
    let (start, end) = (usize::from(copy.range.start()), usize::from(copy.range.end()));
    let (before, after) = (&facts.source[..start], &facts.source[end..]);
    // As it is written: the path of `nets["a"]` has other quotes.
    let model = facts.source[copy.range].split_once(".load_state_dict(").map_or(model, |(written, _)| written);
    // A part is where the whole is.
    let wholes = std::iter::successors(Some(model), |path| path.rsplit_once('.').map(|(whole, _)| whole));
    let Some((model, made)) = wholes.into_iter().find_map(|path| Some((path, assigned_at(before, path)?))) else {
        return false;
    };
    let is_function_left = before[made..].contains("\ndef ") || before[made..].contains("\n    def ");
    // What a function holds ends with it.
    let own = facts.function(copy.scope).map(|function| facts.index.functions[function].range.end());
    let rest = own.map_or(after.len(), |own| usize::from(own).saturating_sub(end));
    let below: Vec<&str> = after[..rest.min(after.len())].lines().take(20).collect();
    let of_model = |line: &&str| line.contains(&format!("{model}."));
    // It is used on the CPU.
    if below.iter().any(|line| of_model(line) && (line.contains(".to(\"cpu\"") || line.contains(".to('cpu'"))) {
        return true;
    }
    let moved = below.iter().position(|line| of_model(line) && moves(line));
    let Some(moved) = moved else {
        let is_on_cpu = is_made_on_cpu(facts, before, made, model) && !moves(&before[made..]);
        let is_freed = bound_to.is_none_or(|name| is_left_on_cpu(facts, model, load, copy, name))
            || facts.function(copy.scope).is_none() && is_never_moved(facts, model);
        return is_on_cpu && is_freed && !is_function_left;
    };
    let is_freed = bound_to.is_none_or(|name| {
        below[..moved].iter().any(|line| {
            let line = line.trim();
            line.starts_with("def ") || line == format!("del {name}") || assigned_at(line, name) == Some(0)
        })
    });
    !is_function_left && !moves(&before[made..]) && is_freed
}

/// What puts a network on the CPU leaves it there.
fn moves(text: &str) -> bool {
    let is_away = |at: usize| {
        let given = text[at + ".to(".len()..].trim_start();
        !["\"cpu\"", "'cpu'", "torch.device(\"cpu\")", "torch.device('cpu')"].iter().any(|cpu| given.starts_with(cpu))
    };
    text.contains(".cuda(") || text.match_indices(".to(").any(|(at, _)| is_away(at))
}

/// The text of a statement from where it starts, to the end of its line or of its brackets.
fn statement(text: &str) -> &str {
    let mut depth = 0;
    let end = text.find(|letter: char| {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        letter == '\n' && depth <= 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// Where a variable was last assigned, comments aside.
fn assigned_at(before: &str, name: &str) -> Option<usize> {
    let is_code = |at: &usize| {
        let line = before[..*at].rfind('\n').map_or(0, |end| end + 1);
        before[line..*at].trim().is_empty()
    };
    let is_assigned = |at: &usize| {
        let rest = before[at + name.len()..].trim_start_matches(' ');
        // `net, size = make()`.
        let rest = match rest.strip_prefix(',').and_then(|rest| rest.split_once('=')) {
            Some((others, _)) if others.chars().all(|letter| letter.is_alphanumeric() || " ,_".contains(letter)) => {
                &rest[1 + others.len()..]
            }
            _ => rest,
        };
        rest.starts_with('=') && !rest.starts_with("==")
    };
    before.match_indices(name).map(|(at, _)| at).filter(is_assigned).filter(is_code).last()
}

/// Whether a class, a library, or a function of the file that moves nothing makes the variable, out of nothing that has been moved
/// to a device. A wrapper leaves a network where it is.
fn is_made_on_cpu(facts: &FileFacts<'_>, before: &str, made: usize, model: &str) -> bool {
    let Some((_, value)) = before[made..].split_once('=') else { return false };
    let Some((maker, rest)) = value.trim_start().split_once('(') else { return false };
    let given = rest.split(')').next().unwrap_or_default();
    // Of `conf.model` it is `conf` that counts.
    let mut names = given
        .split(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '.'))
        .map(|path| path.split('.').next().unwrap_or_default())
        .filter(|name| !name.is_empty());
    if names::last(maker).ends_with("Parallel")
        && let Some(inner) = names.next()
        && let Some(made) = assigned_at(&before[..made], inner)
    {
        return !moves(&before[made..]) && is_made_on_cpu(facts, before, made, inner);
    }
    let is_moved =
        |name: &str| name == model || assigned_at(before, name).is_some_and(|at| moves(statement(&before[at..])));
    (is_class(maker)
        || is_of_library(facts, maker)
        || is_own_maker(facts, maker)
        || is_made_elsewhere(facts, maker, given))
        && !names.any(is_moved)
}

/// `Net(…)`, or `Net.from_pretrained(…)`.
fn is_class(maker: &str) -> bool {
    let mut parts = maker.rsplit('.');
    let last = parts.next().unwrap_or_default();
    let owner = parts.next().unwrap_or_default();
    last.starts_with(char::is_uppercase) || maker == "cls" || owner.starts_with(char::is_uppercase)
}

/// Libraries make networks on the CPU.
fn is_of_library(facts: &FileFacts<'_>, maker: &str) -> bool {
    facts.index.resolve(maker).is_some_and(|path| {
        let library = path.split('.').next().unwrap_or_default();
        matches!(
            library,
            "torchvision" | "timm" | "segmentation_models_pytorch" | "monai" | "transformers" | "hydra" | "torch"
        )
    })
}

/// Functions of the file, or that it imports from others of the run, which move nothing.
fn is_own_maker(facts: &FileFacts<'_>, maker: &str) -> bool {
    let name = names::last(maker);
    let is_own = maker == name || maker.starts_with("self.") || maker.starts_with("cls.");
    let mut own = facts.index.functions.iter().filter(|function| function.name == name).peekable();
    is_own && own.peek().is_some() && own.all(|function| !names_a_device(&facts.source[function.range]))
}

/// Functions of other files, which are told nothing of a device: the file that calls them moves the network itself.
fn is_made_elsewhere(facts: &FileFacts<'_>, maker: &str, given: &str) -> bool {
    let is_imported =
        facts.index.resolve(maker).is_some() && !facts.index.functions.iter().any(|own| own.name == maker);
    let given = given.to_lowercase();
    let is_told =
        ["device", "cuda", "gpu", "rank", "cfg", "config", "args", "opt"].iter().any(|word| given.contains(word));
    is_imported && !is_told && moves(facts.source)
}

/// Whether a file uses a network and moves it nowhere, nor passes it to others that may.
fn is_never_moved(facts: &FileFacts<'_>, model: &str) -> bool {
    let usage = &facts.index.usage;
    usage.is_called(model) && !usage.is_moved(model) && !usage.is_handed(model)
}

fn names_a_device(text: &str) -> bool {
    moves(text) || text.contains("device")
}

/// Whether the function ends with the model still on the CPU, and a local variable that has the checkpoint ends with it.
fn is_left_on_cpu(facts: &FileFacts<'_>, model: &str, load: &Event<'_>, copy: &Event<'_>, checkpoint: &str) -> bool {
    let Some(function) = facts.function(copy.scope) else { return false };
    let is_local = facts.function(load.scope) == Some(function) && !checkpoint.contains('.');
    let mut rest = Rest { usage: &facts.index.usage, model, checkpoint, from: copy.range.end(), is_left: true };
    rest.visit_body(facts.index.functions[function].body);
    rest.is_left && is_local
}

/// What follows in a function after a checkpoint was loaded.
struct Rest<'n> {
    usage: &'n Usage,
    model: &'n str,
    checkpoint: &'n str,
    from: TextSize,
    is_left: bool,
}

impl Rest<'_> {
    fn is_model(&self, expression: &Expr) -> bool {
        names::access_path(expression).is_some_and(|path| path == self.model)
    }
}

impl<'a> Visitor<'a> for Rest<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            // The caller gets both.
            Stmt::Return(returned) => {
                if let Some(Expr::Tuple(items)) = returned.value.as_deref() {
                    let is_checkpoint = |item: &Expr| names::access_path(item).as_deref() == Some(self.checkpoint);
                    self.is_left &= !items.iter().any(is_checkpoint);
                }
            }
            // A network takes it as a part.
            Stmt::Assign(assign) if assign.value.is_call_expr() => {
                let mut targets = assign.targets.iter().filter_map(names::access_path);
                if targets.any(|target| target != self.model && self.usage.is_network(&target)) {
                    return;
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression
            && call.start() > self.from
        {
            let given = call.arguments.args.iter().chain(call.arguments.keywords.iter().map(|keyword| &keyword.value));
            let is_given = given.into_iter().any(|argument| self.is_model(argument));
            let is_used = match &*call.func {
                Expr::Attribute(method) => {
                    let is_harmless = matches!(
                        method.attr.as_str(),
                        "eval" | "train" | "load_state_dict" | "parameters" | "state_dict"
                    );
                    self.is_model(&method.value) && !is_harmless
                }
                other => self.is_model(other),
            };
            self.is_left &= !is_used && !is_given;
        }
        visitor::walk_expr(self, expression);
    }
}
