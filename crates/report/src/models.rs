//! What `vramfit models` shows.

use serde::Serialize;
use vramfit_graph::model::Model;

use crate::size::grouped;

/// The built-in models.
#[derive(Debug, Default, Serialize)]
pub struct ModelsReport {
    models: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    description: String,
    parameters: u64,
    sizes: serde_json::Map<String, serde_json::Value>,
}

impl ModelsReport {
    /// Adds a row.
    pub fn add(&mut self, name: &str, description: &str, model: &Model) {
        self.models.push(Row {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: model.parameter_count().unwrap_or(u64::MAX),
            sizes: model.symbols.iter().map(|symbol| (symbol.name.clone(), symbol.example.into())).collect(),
        });
    }

    /// The table for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{:12}{:>15}  {:22}{}\n", "model", "parameters", "sizes", "what it is");
        for row in &self.models {
            let sizes: Vec<String> = row.sizes.iter().map(|(name, value)| format!("{name} {value}")).collect();
            text += &format!(
                "{:12}{:>15}  {:22}{}\n",
                row.name,
                grouped(row.parameters),
                sizes.join(", "),
                row.description
            );
        }
        text
    }
}
