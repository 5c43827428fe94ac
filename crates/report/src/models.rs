//! What `vramfit models` shows.

use serde::{Deserialize, Serialize};

use crate::size::grouped;

/// A model that needs no file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What it is called on the command line.
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
    /// The sizes that can be changed, with what they are otherwise.
    pub sizes: serde_json::Map<String, serde_json::Value>,
}

/// Something a model takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: String,
    /// Numbers, and names of sizes.
    pub shape: Vec<serde_json::Value>,
}

/// The built-in models.
#[derive(Debug, Default, Serialize)]
pub struct ModelsReport {
    models: Vec<Shown>,
}

/// A row, with its parts in one sentence.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    row: Row,
    description: String,
}

impl ModelsReport {
    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        let version = row.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
        let description = format!("{}{version}, {}", row.family, row.task);
        self.models.push(Shown { row, description });
    }

    /// The table for a terminal: models of one family that take the same stand together, under what they take.
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
        let sizes = self.shape.iter().map(|size| size.as_str().map_or_else(|| size.to_string(), str::to_owned));
        format!("{} [{}]", self.name, sizes.collect::<Vec<_>>().join(", "))
    }
}
