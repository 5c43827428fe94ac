//! The models that are compiled in, and models from files.

use std::path::Path;

use vramfit_graph::model::Model;
use vramfit_graph::read::{read_bytes, read_file};

use crate::failure::Failure;

/// A model that is compiled in.
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    capture: &'static [u8],
}

macro_rules! capture {
    ($name:literal) => {
        include_bytes!(concat!("../../../validation/captures/", $name, ".vramfit"))
    };
}

/// All of them.
pub const BUILT_IN: [BuiltIn; 5] = [
    BuiltIn { name: "bert-base", description: "BERT base, sequence classification", capture: capture!("bert-base") },
    BuiltIn { name: "gpt2", description: "GPT-2 small, language modelling", capture: capture!("gpt2") },
    BuiltIn { name: "llama-1b", description: "Llama of one billion parameters", capture: capture!("llama-1b") },
    BuiltIn { name: "resnet50", description: "ResNet-50, image classification", capture: capture!("resnet50") },
    BuiltIn { name: "vit-b-16", description: "ViT-B/16, image classification", capture: capture!("vit-b-16") },
];

impl BuiltIn {
    /// Reads it.
    pub fn model(&self) -> Result<Model, Failure> {
        read_bytes(self.capture).map_err(|error| Failure::new(format!("{}: {error}", self.name)))
    }
}

/// The model of a file, or the built-in one of that name.
pub fn load(name: &str) -> Result<Model, Failure> {
    if Path::new(name).exists() {
        return read_file(name).map_err(|error| Failure::new(format!("{name}: {error}")).with_hint(error.hint()));
    }
    match BUILT_IN.iter().find(|model| model.name == name) {
        Some(model) => model.model(),
        None => Err(Failure::new(format!(
            "{name}: found neither a file nor a built-in model of that name, needed a capture or one of {}",
            BUILT_IN.map(|model| model.name).join(", ")
        ))
        .with_hint(Some("make a capture in Python: vramfit.capture(model, inputs, \"model.vramfit\")"))),
    }
}
