//! The calculator in the browser: a page, and the API that it asks.
//!
//! A question is the query of an address, in the words of the command line: `/api/estimate?model=gpt2&batch=8&gpu=RTX+3060`
//! asks what `vramfit estimate gpt2 --batch 8 --gpu "RTX 3060"` answers. An answer is what the command writes with `--json`.

mod fields;
pub mod page;
mod routes;
#[cfg(not(target_family = "wasm"))]
mod site;
#[cfg(not(target_family = "wasm"))]
mod workers;

use http::StatusCode;
use serde::Serialize;

pub use fields::Fields;
pub use routes::{Body, Response, respond};
#[cfg(not(target_family = "wasm"))]
pub use site::{CalculatorSite, Limits};

/// What can be asked about a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// What `vramfit estimate` answers.
    Estimate,
    /// What `vramfit max-batch` answers.
    MaxBatch,
    /// What `vramfit plan` answers.
    Plan,
}

/// What can be chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The built-in models.
    Models,
    /// The known GPUs.
    Gpus,
    /// The settings of a training: the flags of `vramfit estimate`.
    Options,
}

/// Whether the time for an answer is over.
pub type IsOver = Box<dyn Fn() -> bool + Send + Sync>;

/// Who knows the answers. They are JSON.
pub trait Calculator: Send + Sync + 'static {
    /// A list to choose from.
    ///
    /// # Errors
    /// There is none.
    fn list(&self, what: Listing) -> Result<String, Problem>;

    /// Keeps a model's file for later questions, and describes the model. `name` is a file's name, not a path.
    ///
    /// # Errors
    /// It is no model.
    fn keep(&self, name: &str, bytes: Vec<u8>) -> Result<String, Problem>;

    /// The answer to a question. The same estimate has the same answer at any time; a search whose time is over
    /// answers with the best so far.
    ///
    /// # Errors
    /// The question makes no sense.
    fn answer(&self, question: Question, fields: &Fields, is_over: IsOver) -> Result<String, Problem>;
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The status of the response.
    #[serde(skip)]
    pub status: StatusCode,
    /// What was found and what was needed.
    pub error: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of the question.
    pub fn of_question(error: impl Into<String>, hint: Option<impl Into<String>>) -> Problem {
        Problem { status: StatusCode::BAD_REQUEST, error: error.into(), hint: hint.map(Into::into) }
    }

    /// As it is sent.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Another problem.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Problem {
        Problem { status, error: error.into(), hint: None }
    }
}
