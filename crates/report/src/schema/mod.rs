//! The published JSON Schemas: one file in `docs/schema/v1` for each command that has `--json`.
//!
//! `VRAMFIT_UPDATE_SCHEMA=1 cargo test -p vramfit-report schema` writes them; without the variable the test compares. That real
//! outputs are as the schemas say is tested in `crates/cli/tests/schema.rs`.

use std::fs;
use std::path::PathBuf;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::catalogue::CatalogueReport;
use crate::estimate::EstimateReport;
use crate::explain::ExplainReport;
use crate::gpus::GpusReport;
use crate::layers::LayersReport;
use crate::lint::LintReport;
use crate::models::ModelsReport;
use crate::plan::{MaxBatchReport, PlanAnswer, RecordedPlanReport};
use crate::replay::ReplayReport;
use crate::run::RunReport;

/// The version of all schemas. It grows where a key changes its meaning or goes.
const VERSION: &str = "v1";

fn schema<T: JsonSchema>(command: &'static str) -> (&'static str, Value) {
    let mut schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("vramfit/{VERSION}/{command}.json").into());
    schema.insert("title".to_owned(), format!("vramfit {command} --json").into());
    (command, schema.into())
}

#[test]
fn published_schemas_are_those_of_the_reports() {
    let schemas = [
        schema::<EstimateReport>("estimate"),
        schema::<PlanAnswer>("plan"),
        schema::<RecordedPlanReport>("plan-recording"),
        schema::<MaxBatchReport>("max-batch"),
        schema::<LayersReport>("layers"),
        schema::<ModelsReport>("models"),
        schema::<CatalogueReport>("catalogue"),
        schema::<ReplayReport>("replay"),
        schema::<ExplainReport>("explain"),
        schema::<RunReport>("run"),
        schema::<GpusReport>("gpus"),
        schema::<LintReport>("lint"),
    ];
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(VERSION);
    let is_update = std::env::var_os("VRAMFIT_UPDATE_SCHEMA").is_some_and(|value| value == "1");
    for (command, schema) in &schemas {
        let path = folder.join(format!("{command}.json"));
        let text = serde_json::to_string_pretty(schema).expect("a schema can be written") + "\n";
        if is_update {
            fs::write(&path, text).expect("the schema's file can be written");
            continue;
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == text,
            "{command}.json is not what the report gives; VRAMFIT_UPDATE_SCHEMA=1 cargo test -p vramfit-report schema \
             writes it. Where a key has changed its meaning or is gone, docs/schema/README.md says what else to do"
        );
    }
    let files = fs::read_dir(&folder).expect("the folder is there").count();
    assert_eq!(files, schemas.len(), "every file in docs/schema/{VERSION} is the schema of a command");
}
