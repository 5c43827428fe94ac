//! Models that questions are about: built-in ones, and files that were uploaded. Nothing is read from this machine's disk.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::GzDecoder;
use http::StatusCode;
use indexmap::IndexMap;
use serde::Serialize;
use vramfit_graph::model::Model;
use vramfit_readers::{Kind, read_bytes, read_sketch};
use vramfit_report::size::human;
use vramfit_web::calculator::Problem;
use vramfit_web::recent::Recent;

use super::problem;
use crate::built_in::{BuiltIn, built_in, named, of_hub, other_kind, taken_as};
use crate::limits::limits;
use crate::recording;
use vramfit_report::failure::Failure;

/// Uploaded files begin like this.
const FILE: &str = "file:";
/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes of a capture without its gzip layer; that of a Llama of 7 billion parameters has 1.8 MB.
const LARGEST_CAPTURE: u64 = 64 << 20;
/// Uploads that are kept; the one that was not used for the longest time goes first.
const KEPT_FILES: usize = 8;
/// Built-in models that stay unpacked.
const KEPT_BUILT_IN: usize = 8;

/// The models.
pub struct Models {
    built_in: Vec<BuiltIn>,
    files: Recent<Arc<Model>>,
    unpacked: Recent<Arc<Model>>,
}

/// An uploaded model.
#[derive(Debug, Serialize)]
pub struct Uploaded {
    /// What later questions call it.
    name: String,
    /// The file's name.
    file: String,
    /// The class of the module.
    class: String,
    /// How many parameters it has; null where that is more than can be counted.
    parameters: Option<u64>,
    /// The sizes that can be chosen, with their defaults; null where the data decides it.
    sizes: IndexMap<String, Option<i64>>,
    /// The largest values of sizes beyond which PyTorch would stop with an error, such as positions beyond their embeddings.
    limits: IndexMap<String, i64>,
}

impl Models {
    /// The built-in models, and no file yet.
    pub fn new() -> Result<Models, Failure> {
        Ok(Models { built_in: built_in()?, files: Recent::new(KEPT_FILES), unpacked: Recent::new(KEPT_BUILT_IN) })
    }

    /// The rows of the built-in models.
    pub fn built_in(&self) -> &[BuiltIn] {
        &self.built_in
    }

    /// The model that a question names.
    pub fn find(&self, name: &str) -> Result<Arc<Model>, Problem> {
        if name.starts_with(FILE) {
            return self.files.get(name).ok_or_else(|| Problem {
                hint: Some("upload it again: POST /api/models?name=FILE".to_owned()),
                ..Problem::new(
                    StatusCode::NOT_FOUND,
                    format!("model: the file `{}` is no longer here", shown_name(name)),
                )
            });
        }
        if let Some(model) = self.unpacked.get(name) {
            return Ok(model);
        }
        let Some(found) = self.built_in_model(name) else {
            return Err(Problem::of_question(
                format!("model: found `{name}`, needed a name from /api/models, or of an uploaded file"),
                Some("upload a file: POST /api/models?name=FILE; `vramfit estimate` reads files of this machine"),
            ));
        };
        let mut model = found.model().map_err(|failure| problem(&failure))?;
        if named(&self.built_in, name).is_none() {
            model.notes.push(format!("{name}: {}", taken_as(found)));
        }
        let model = Arc::new(model);
        self.unpacked.put(name.to_owned(), Arc::clone(&model));
        Ok(model)
    }

    /// The built-in model that answers for a name: its own in any spelling, or that of a model of the Hub.
    pub fn built_in_model(&self, name: &str) -> Option<&BuiltIn> {
        named(&self.built_in, name).or_else(|| of_hub(&self.built_in, name))
    }

    /// Reads and keeps a file.
    pub fn keep(&self, file: &str, bytes: &[u8]) -> Result<Uploaded, Problem> {
        if let Some(failure) = other_kind(file, true) {
            return Err(problem(&failure));
        }
        let model = match Kind::of(Path::new(file)) {
            Kind::Sketch => {
                let text = std::str::from_utf8(bytes)
                    .map_err(|_| Problem::of_question(format!("{file}: not text"), None::<String>))?;
                read_sketch(text)
            }
            _ => read_bytes(&unpacked(file, bytes)?),
        };
        let model = model.map_err(|error| Problem::of_question(format!("{file}: {error}"), error.hint()))?;
        recording::refuse(file, &model).map_err(|failure| problem(&failure))?;
        let mut hasher = DefaultHasher::new();
        // Byte by byte, so that the name is the same on machines of other word sizes.
        hasher.write(file.as_bytes());
        hasher.write_u8(0);
        hasher.write(bytes);
        let name = format!("{FILE}{:016x}/{file}", hasher.finish());
        let uploaded = Uploaded {
            name: name.clone(),
            file: file.to_owned(),
            class: model.class.clone(),
            parameters: model.parameter_count(),
            sizes: model.symbols.iter().map(|symbol| (symbol.name.clone(), symbol.example.value())).collect(),
            limits: limits(&model),
        };
        self.files.put(name, Arc::new(model));
        Ok(uploaded)
    }
}

/// The bytes of a capture without their gzip layer, which may be far smaller than what is inside.
fn unpacked<'a>(file: &str, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Problem> {
    if !bytes.starts_with(&GZIP) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut plain = Vec::new();
    let refused = |why: String| Problem::of_question(format!("{file}: {why}"), None::<String>);
    GzDecoder::new(bytes)
        .take(LARGEST_CAPTURE + 1)
        .read_to_end(&mut plain)
        .map_err(|error| refused(format!("the gzip layer: {error}")))?;
    match plain.len() as u64 > LARGEST_CAPTURE {
        true => Err(refused(format!("found more than {}, decompressed", human(LARGEST_CAPTURE)))),
        false => Ok(Cow::Owned(plain)),
    }
}

/// A model's name for people: of an upload the file's name.
pub fn shown_name(name: &str) -> &str {
    name.strip_prefix(FILE).and_then(|rest| rest.split_once('/')).map_or(name, |(_, file)| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_uploads_are_models() {
        let models = Models::new().unwrap();
        assert!(models.find("gpt2").is_ok() && models.find("gpt2").is_ok());
        for other in ["/etc/passwd", "../gpt2", "Cargo.toml", "config.json", "file:0/x", "file:../../x", "a/b", ""] {
            assert!(models.find(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_name_may_be_written_as_on_the_command_line() {
        let models = Models::new().unwrap();
        for (written, name) in [("GPT2", "gpt2"), ("openai-community/gpt2", "gpt2"), ("ResNet-18", "resnet18")] {
            assert_eq!(models.built_in_model(written).unwrap().row.name, name);
        }
        assert!(models.find("GPT2").unwrap().notes.is_empty());
        let notes = &models.find("openai-community/gpt2").unwrap().notes;
        assert!(
            notes.iter().any(|note| note.starts_with("openai-community/gpt2: taken as the built-in model gpt2")),
            "{notes:?}"
        );
    }

    #[test]
    fn scripts_and_weights_are_called_what_they_are() {
        let models = Models::new().unwrap();
        for (file, kind) in
            [("train.py", "found a Python script"), ("x.pth", "found weights"), ("a.ipynb", "found a notebook")]
        {
            let problem = models.keep(file, b"print(1)").unwrap_err();
            assert!(problem.error.contains(kind) && problem.hint.is_some(), "{}", problem.error);
        }
    }

    #[test]
    fn an_upload_is_found_under_its_name_until_newer_ones_take_its_place() {
        let models = Models::new().unwrap();
        let sketch = |width: usize| {
            format!("input = [\"batch\", {width}]\nsizes = {{ batch = 2 }}\nlayers = [\"Linear({width}, 4)\"]\n")
        };
        let first = models.keep("model.toml", sketch(3).as_bytes()).unwrap();
        assert_eq!((shown_name(&first.name), first.parameters), ("model.toml", Some(16)), "{first:?}");
        for width in 4..4 + KEPT_FILES {
            assert!(models.find(&first.name).is_ok(), "a model in use stays");
            models.keep("model.toml", sketch(width).as_bytes()).unwrap();
        }
        for width in 20..20 + KEPT_FILES {
            models.keep("model.toml", sketch(width).as_bytes()).unwrap();
        }
        assert_eq!(models.find(&first.name).unwrap_err().status, StatusCode::NOT_FOUND);
        assert!(models.keep("model.toml", b"\xff").is_err() && models.keep("x.vramfit", b"PK\x03\x04").is_err());
    }

    #[test]
    fn a_capture_that_is_far_larger_inside_is_refused() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::copy(&mut std::io::repeat(b' ').take(LARGEST_CAPTURE + 1), &mut encoder).unwrap();
        let bytes = encoder.finish().unwrap();
        assert!(bytes.len() < 1 << 20);
        let problem = Models::new().unwrap().keep("x.vramfit", &bytes).unwrap_err();
        assert!(problem.error.contains("more than 64.0 MiB, decompressed"), "{}", problem.error);
    }
}
