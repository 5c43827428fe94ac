//! What `vramfit models` shows.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::size::grouped;

/// A model that needs no file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// Its name on the command line.
    pub name: String,
    /// The family it belongs to.
    pub family: String,
    /// What it is trained for.
    pub task: String,
    /// Which of several of that name, where there are several.
    pub version: Option<String>,
    /// How many parameters it has.
    pub parameters: u64,
    /// What it takes, targets included.
    pub inputs: Vec<Input>,
    /// The sizes that can be chosen, with their defaults.
    pub sizes: IndexMap<String, i64>,
    /// The largest values of sizes beyond which PyTorch would stop with an error, such as positions beyond their embeddings.
    pub limits: IndexMap<String, i64>,
}

/// An input or a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Its dimensions.
    pub shape: Vec<Dimension>,
}

/// A dimension of an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Dimension {
    /// A fixed size.
    Fixed(i64),
    /// The name of a size, or an expression of such names.
    Named(String),
}

/// The answer of `vramfit models --json`.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModelsReport {
    /// The built-in models.
    models: Vec<Shown>,
}

/// A model that needs no file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Shown {
    #[serde(flatten)]
    row: Row,
    /// Family, version and task in one phrase.
    description: String,
}

impl ModelsReport {
    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        let version = row.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
        let description = format!("{}{version}, {}", row.family, row.task);
        self.models.push(Shown { row, description });
    }

    /// The table for a terminal: models of one family with the same inputs are listed together, under those inputs.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut last: Option<&Row> = None;
        for row in self.models.iter().map(|shown| &shown.row) {
            let is_alike =
                |last: &Row| (&last.family, &last.task, &last.inputs) == (&row.family, &row.task, &row.inputs);
            if !last.is_some_and(is_alike) {
                let gap = if last.is_some() { "\n" } else { "" };
                let inputs: Vec<String> = row.inputs.iter().map(Input::text).collect();
                text += &format!("{gap}{}, {}\n  takes {}\n", row.family, row.task, inputs.join(", "));
            }
            let sizes: Vec<String> = row.sizes.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let (count, sizes) = (grouped(row.parameters), sizes.join(", "));
            let line = format!("  {:18}{count:>15}  {sizes}  {}", row.name, row.version.as_deref().unwrap_or_default());
            text += line.trim_end();
            text.push('\n');
            last = Some(row);
        }
        text += "\nEach line: name, parameters, the sizes that --batch, --seq and --size change.\n";
        text
    }
}

impl Input {
    fn text(&self) -> String {
        let sizes = self.shape.iter().map(|size| match size {
            Dimension::Fixed(size) => size.to_string(),
            Dimension::Named(name) => name.clone(),
        });
        format!("{} [{}]", self.name, sizes.collect::<Vec<_>>().join(", "))
    }
}
