//! Predicted step times on GPUs that were not timed here, beside published ones.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use vramfit_catalogue::Catalogue;
use vramfit_price::CostModel;

use crate::measured::{Case, CaseSettings, folder};
use crate::recordings::Result;
use crate::simulation::with_bound_from;
use crate::statistics::median;

#[derive(Debug, Deserialize)]
struct Published {
    rows: Vec<PublishedTime>,
}

/// A published time of a step, with the settings it was run with.
#[derive(Clone, Debug, Deserialize)]
struct PublishedTime {
    gpu: String,
    /// Its capture's name: library model, layout and image side.
    model: String,
    batch: i64,
    seq: Option<i64>,
    /// `fp32` or `amp-fp16`.
    precision: String,
    optimizer: String,
    optimizer_impl: String,
    milliseconds: f64,
    source: String,
    /// `mend` if scaling rules were chosen by looking at it, else `report`.
    half: String,
}

/// A published time beside the predicted one.
#[derive(Clone, Debug)]
pub struct Compared {
    row: PublishedTime,
    architecture: String,
    /// Predicted milliseconds.
    predicted: f64,
}

impl Compared {
    /// Predicted over published time.
    pub fn ratio(&self) -> f64 {
        self.predicted / self.row.milliseconds
    }

    /// Whether no scaling rule was chosen by looking at it.
    pub fn is_held_out(&self) -> bool {
        self.row.half == "report"
    }

    /// How far the prediction is off: 1 for twice and for half the published time.
    fn error(&self) -> f64 {
        self.ratio().max(1.0 / self.ratio()) - 1.0
    }
}

fn case_of(row: &PublishedTime) -> Case {
    let amp = if row.precision == "amp-fp16" { "fp16" } else { "none" };
    Case {
        model: row.model.clone(),
        part: 0,
        settings: CaseSettings {
            batch: row.batch,
            seq: row.seq,
            dtype: "fp32".to_owned(),
            amp: amp.to_owned(),
            optimizer: row.optimizer.clone(),
            optimizer_impl: row.optimizer_impl.clone(),
            accumulate: 1,
            checkpoint: "none".to_owned(),
            zero_grad: "before-forward".to_owned(),
            set_to_none: true,
            mode: "train".to_owned(),
            inputs: "kept".to_owned(),
            ..CaseSettings::default()
        },
        peak_allocated: 0,
        peak_reserved: 0,
        phases: Vec::new(),
        runs: Vec::new(),
        caps: Vec::new(),
    }
}

/// Every published time with its prediction.
///
/// # Errors
/// The published times or a capture cannot be read, or a GPU is not in the catalogue.
pub fn compared() -> Result<Vec<Compared>> {
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let path = folder().join("external/step_times.json");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let published: Published = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let compare = |row: PublishedTime| {
        let gpu = catalogue.find(&row.gpu).map_err(|error| error.to_string())?;
        let capture = folder().join(format!("external/captures/{}.vramfit", row.model));
        let time = with_bound_from(&capture, &case_of(&row), |bound, options| {
            CostModel::new(gpu).step_time(bound, options).map_err(|error| error.to_string())
        })??;
        Ok(Compared { architecture: gpu.architecture.clone(), predicted: time.seconds * 1e3, row })
    };
    published.rows.into_iter().map(compare).collect()
}

/// The median error of the held-out rows, as a share.
pub fn held_out_error(rows: &[Compared]) -> f64 {
    median(rows.iter().filter(|row| row.is_held_out()).map(Compared::error).collect())
}

fn group_row(name: &str, rows: &[&Compared]) -> String {
    let errors: Vec<f64> = rows.iter().map(|row| row.error()).collect();
    let within = errors.iter().filter(|error| **error <= 0.25).count();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    format!(
        "| {name} | {} | ×{:.2} | {:.0} % | {within} | {:.0} % |\n",
        rows.len(),
        median(rows.iter().map(|row| row.ratio()).collect()),
        median(errors) * 100.0,
        worst * 100.0
    )
}

fn grouped(title: &str, rows: &[Compared], key: impl Fn(&Compared) -> String) -> String {
    let mut groups: BTreeMap<String, Vec<&Compared>> = BTreeMap::new();
    for row in rows {
        groups.entry(key(row)).or_default().push(row);
    }
    let mut text = format!(
        "\n| {title} | rows | median ratio | median error | within 25 % | worst |\n| --- | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for (name, rows) in groups {
        text += &group_row(&name, &rows);
    }
    text
}

/// The kind of network by the name of its capture.
fn kind_of(model: &str) -> &'static str {
    match model {
        _ if model.starts_with("bert") => "BERT",
        _ if model.starts_with("vit") || model.starts_with("swin") => "vision transformer",
        _ if ["mobilenet", "mnasnet", "efficientnet", "convnext", "resnext"]
            .iter()
            .any(|name| model.starts_with(name)) =>
        {
            "depthwise or grouped convolutions"
        }
        _ => "dense convolutions",
    }
}

/// The page `docs/step-time-accuracy.md`.
///
/// # Errors
/// The published times or a capture cannot be read, or a GPU is not in the catalogue.
pub fn page() -> Result<String> {
    let rows = compared()?;
    let mut text = "# How accurate step times are on other GPUs\n\n\
        Made by `cargo run --release -p vramfit-validation -- step-times --write` from published step times and throughputs \
        (`validation/external/step_times.json`; the last column names the source). Nothing here was timed by us: the \
        predictions are an H200's measurements [scaled](price.md#what-is-assumed) to the GPU. A ratio is predicted over \
        published time; an error of 100 % is twice or half of the published time.\n\n\
        The published runs used PyTorch 1.4 to 2.9 and machines with other CPUs, some with `cudnn.benchmark` or NVIDIA's \
        fused kernels; two publications of the same run differ by up to 25 %. The models were captured with torch 2.11 \
        (`validation/external/capture_step_times.py`). Rows were split at random before any rule was chosen: rules were \
        chosen on one half, the held-out half is reported as it came out.\n"
        .to_owned();
    text += &grouped("half", &rows, |row| if row.is_held_out() { "held out".to_owned() } else { "used".to_owned() });
    text += &grouped("architecture", &rows, |row| row.architecture.clone());
    text += &grouped("precision", &rows, |row| row.row.precision.clone());
    text += &grouped("network", &rows, |row| kind_of(&row.row.model).to_owned());
    text += &grouped("layout", &rows, |row| {
        let layouts = [("-nchw-", "channels first"), ("-nhwc-", "channels last")];
        layouts.iter().find(|(mark, _)| row.row.model.contains(mark)).map_or("no images", |(_, name)| name).to_owned()
    });
    text += &grouped("GPU", &rows, |row| row.row.gpu.clone());
    text += "\n## Every row\n\nTimes in milliseconds. A model's name ends with layout and image side.\n\n\
             | GPU | model | batch | settings | published | predicted | ratio | half | source |\n\
             | --- | --- | ---: | --- | ---: | ---: | ---: | --- | --- |\n";
    for compared in &rows {
        let row = &compared.row;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {}, {} | {:.0} | {:.0} | {:.2} | {} | [source](https://{}) |",
            row.gpu,
            row.model,
            row.batch,
            row.precision,
            row.optimizer,
            row.milliseconds,
            compared.predicted,
            compared.ratio(),
            if compared.is_held_out() { "held out" } else { "used" },
            row.source.replace(' ', "%20"),
        );
    }
    Ok(text)
}
