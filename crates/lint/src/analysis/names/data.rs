//! What programmers call data: loaders, data sets, and what each is for.

use super::{has_word, last};

/// What data is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Training.
    Train,
    /// Validation, test, prediction.
    Evaluation,
    /// The name does not say.
    Unknown,
}

/// Words in the names of whole data sets.
pub const SETS: [&str; 8] = ["train", "test", "val", "valid", "all", "full", "dataset", "whole"];

/// What data of this name is used for.
pub fn role(name: &str) -> Role {
    if has_word(
        name,
        &[
            "val",
            "valid",
            "validation",
            "test",
            "eval",
            "evaluation",
            "dev",
            "holdout",
            "valloader",
            "testloader",
            "validloader",
            "inference",
            "predict",
            "testset",
            "valset",
            "validset",
        ],
    ) {
        Role::Evaluation
    } else if has_word(name, &["train", "training", "trainloader", "trn", "trainset"]) {
        Role::Train
    } else {
        Role::Unknown
    }
}

/// Whether a variable of this name yields batches.
pub fn is_loader(name: &str) -> bool {
    let name = last(name);
    let lower = name.to_lowercase();
    lower.contains("loader")
        || has_word(name, &["dl", "batches", "minibatches"])
        || matches!(
            lower.as_str(),
            "train_iter"
                | "test_iter"
                | "val_iter"
                | "valid_iter"
                | "data_iter"
                | "train_iterator"
                | "test_iterator"
                | "valid_iterator"
                | "val_iterator"
                | "train_generator"
                | "val_generator"
                | "batch_iterator"
                | "train_data"
                | "test_data"
                | "val_data"
                | "valid_data"
                | "prefetcher"
                | "train_prefetcher"
                | "val_prefetcher"
                | "dataset_iterator"
        )
}

/// Whether a variable of this name is a data set.
pub fn is_dataset(name: &str) -> bool {
    let name = last(name);
    has_word(name, &["dataset", "datasets", "ds", "trainset", "testset", "valset", "validset"])
        || matches!(
            name,
            "train_set"
                | "test_set"
                | "val_set"
                | "valid_set"
                | "eval_set"
                | "dev_set"
                | "train_data"
                | "test_data"
                | "val_data"
                | "training_set"
                | "validation_set"
                | "training_data"
                | "data_set"
        )
}
