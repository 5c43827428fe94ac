//! Names: access paths, and what programmers call losses, models and loaders.

mod data;

use ruff_python_ast::{Expr, Number, UnaryOp};

pub use data::{Role, SETS, is_dataset, is_loader, role};

/// `a.b.c` for a chain of attributes, and nothing else.
pub fn dotted(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(attribute) => {
            let mut text = dotted(&attribute.value)?;
            text.push('.');
            text.push_str(attribute.attr.as_str());
            Some(text)
        }
        _ => None,
    }
}

/// The access path of a variable: names, attributes, and subscripts by literals or names, such as `self.losses['total']`.
pub fn access_path(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(attribute) => Some(format!("{}.{}", access_path(&attribute.value)?, attribute.attr)),
        Expr::Subscript(subscript) => Some(format!("{}[{}]", access_path(&subscript.value)?, index(&subscript.slice))),
        _ => None,
    }
}

fn index(expression: &Expr) -> String {
    match expression {
        Expr::StringLiteral(text) => format!("'{}'", text.value.to_str()),
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(value) => value.to_string(),
            _ => "*".into(),
        },
        Expr::Name(name) => name.id.to_string(),
        Expr::UnaryOp(operation) if operation.op == UnaryOp::USub => format!("-{}", index(&operation.operand)),
        _ => "*".into(),
    }
}

/// Libraries whose functions neither take nor make tensors with a graph.
pub fn is_without_tensors(library: &str) -> bool {
    matches!(
        library,
        "torchmetrics" | "evaluate" | "wandb" | "numpy" | "os" | "random" | "math" | "time" | "json" | "logging" | "re"
    )
}

/// What an access path is an item of: `nets` for `nets['a']`.
pub fn container(path: &str) -> Option<&str> {
    path.strip_suffix(']').and_then(|path| path.rsplit_once('[')).map(|(container, _)| container)
}

/// The last name of an access path, without subscripts.
pub fn last(path: &str) -> &str {
    let path = path.split('[').next().unwrap_or(path);
    path.rsplit('.').next().unwrap_or(path)
}

/// The words of a name: `valLoader_2` has `val`, `loader` and `2`.
pub fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() {
            is_lower = false;
            words.push(String::new());
            continue;
        }
        if words.is_empty() || (letter.is_uppercase() && is_lower) {
            words.push(String::new());
        }
        is_lower = letter.is_lowercase();
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn has_word(name: &str, wanted: &[&str]) -> bool {
    words(name).iter().any(|word| wanted.contains(&word.trim_end_matches(|letter: char| letter.is_ascii_digit())))
}

/// Whether a variable of this name holds a loss.
pub fn is_loss(name: &str) -> bool {
    let name = last(name);
    let lower = name.to_lowercase();
    lower.contains("loss")
        || has_word(name, &["cost", "objective", "nll", "elbo", "ce", "bce", "mse"])
        || matches!(name, "err" | "errD" | "errG" | "errD_real" | "errD_fake" | "l")
}

/// Whether a callable of this name computes a loss.
pub fn is_loss_function(name: &str) -> bool {
    let lower = last(name).to_lowercase();
    if matches!(
        lower.as_str(),
        "loss_scale" | "scale_loss" | "log_loss" | "print_loss" | "plot_loss" | "average_losses"
    ) {
        return false;
    }
    lower.contains("loss") && !lower.starts_with("log") && !lower.starts_with("plot")
        || lower.contains("criterion")
        || matches!(
            lower.as_str(),
            "cross_entropy" | "kl_div" | "binary_cross_entropy" | "nll" | "bce" | "mse" | "objective"
        )
}

/// Whether a variable of this name holds a model. Only used where it is called or trained.
pub fn is_model(name: &str) -> bool {
    let name = last(name);
    let lower = name.to_lowercase();
    if has_word(
        name,
        &[
            "name",
            "names",
            "path",
            "dir",
            "args",
            "config",
            "cfg",
            "type",
            "id",
            "file",
            "fn",
            "cls",
            "class",
            "loss",
            "parameters",
            "params",
            "size",
            "factory",
        ],
    ) {
        return false;
    }
    has_word(
        name,
        &[
            "model",
            "net",
            "network",
            "encoder",
            "decoder",
            "generator",
            "discriminator",
            "policy",
            "actor",
            "critic",
            "backbone",
            "classifier",
            "teacher",
            "student",
            "module",
            "resnet",
            "unet",
            "vae",
            "gan",
            "transformer",
            "lstm",
            "gru",
            "rnn",
            "cnn",
            "mlp",
            "bert",
            "vgg",
            "detector",
            "segmentor",
            "autoencoder",
            "gnn",
            "gcn",
            "llm",
            "lm",
            "ema",
            "predictor",
        ],
    ) || matches!(
        name,
        "G" | "D" | "netG" | "netD" | "net_g" | "net_d" | "actor_critic" | "dqn" | "qnet" | "q_net" | "F_net"
    ) || lower.ends_with("model")
        || lower.ends_with("net")
}

/// Whether a callable of this name does something with what it is named after: `test_policy(policy)`.
pub fn is_action(name: &str) -> bool {
    let words = words(last(name));
    words.len() > 1
        && matches!(
            words[0].as_str(),
            "test"
                | "eval"
                | "evaluate"
                | "validate"
                | "train"
                | "run"
                | "build"
                | "make"
                | "create"
                | "get"
                | "load"
                | "save"
                | "update"
                | "init"
                | "reset"
                | "compute"
        )
}

/// Whether a variable of this name holds an optimizer.
pub fn is_optimizer(name: &str) -> bool {
    let name = last(name);
    let lower = name.to_lowercase();
    !lower.contains("sched")
        && !lower.contains("option")
        && !lower.contains("optimal")
        && (lower.contains("optimizer")
            || lower.contains("optimiser")
            || has_word(name, &["opt", "optim", "sgd", "adam", "adamw"]))
}

/// Whether a function of this name evaluates.
pub fn is_evaluation(name: &str) -> bool {
    let words = words(name);
    let is_of = |word: &String| {
        matches!(
            word.as_str(),
            "eval"
                | "evaluate"
                | "evaluation"
                | "evaluator"
                | "validate"
                | "validation"
                | "val"
                | "valid"
                | "test"
                | "testing"
                | "infer"
                | "inference"
                | "predict"
                | "predictions"
                | "prediction"
        )
    };
    // `evaluate_on_train_set` evaluates; `train_and_evaluate` does not only that, and a test may test a training.
    let is_first = words.first().is_some_and(|word| is_of(word) && !word.starts_with("test"));
    is_first
        || words.iter().any(is_of)
            && !words.iter().any(|word| matches!(word.as_str(), "train" | "fit" | "training" | "loss" | "backward"))
        || name.ends_with("check_accuracy")
        || name.ends_with("compute_accuracy")
        || name.ends_with("get_accuracy")
        || name.ends_with("calculate_accuracy")
        || name.ends_with("extract_features")
}

/// Whether a name means cross-validation folds or separate runs.
pub fn is_fold(name: &str) -> bool {
    has_word(
        name,
        &[
            "fold",
            "folds",
            "kfold",
            "skf",
            "kf",
            "seed",
            "seeds",
            "run",
            "runs",
            "trial",
            "trials",
            "repeat",
            "repeats",
            "experiment",
            "experiments",
            "config",
            "configs",
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_splits_into_words() {
        assert_eq!(words("valLoader_2"), ["val", "loader", "2"]);
        assert_eq!(words("self.train_dl"), ["self", "train", "dl"]);
    }

    #[test]
    fn losses_models_optimizers_and_roles_are_recognised_by_name() {
        assert!(is_loss("self.running_loss") && is_loss("losses['total']") && !is_loss("accuracy"));
        assert!(is_model("self.model") && is_model("netG") && !is_model("model_name"));
        assert!(is_optimizer("opt_g") && !is_optimizer("scheduler") && !is_optimizer("options"));
        assert_eq!(role("val_loader"), Role::Evaluation);
        assert_eq!(role("trainloader"), Role::Train);
        assert_eq!(role("loader"), Role::Unknown);
        assert!(is_evaluation("evaluate_model") && !is_evaluation("train_and_evaluate") && !is_evaluation("forward"));
    }
}
