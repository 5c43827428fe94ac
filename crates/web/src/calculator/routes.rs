//! What the paths of the API lead to, with and without a server.

use super::{Calculator, Fields, IsOver, Listing, Problem, Question};

/// Where models are listed and uploaded to.
pub const MODELS: &str = "/api/models";
/// A search ends after this time, in a browser as on a server.
pub const SEARCH_SECONDS: u32 = 60;
/// The time for every other answer.
pub const ANSWER_SECONDS: u32 = 10;

/// What a path of the API leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Something to choose from.
    List(Listing),
    /// An answer about a training.
    Ask(Question),
}

/// What a path leads to.
pub fn route(path: &str) -> Option<Route> {
    Some(match path {
        MODELS => Route::List(Listing::Models),
        "/api/gpus" => Route::List(Listing::Gpus),
        "/api/options" => Route::List(Listing::Options),
        "/api/estimate" => Route::Ask(Question::Estimate),
        "/api/max-batch" => Route::Ask(Question::MaxBatch),
        "/api/plan" => Route::Ask(Question::Plan),
        _ => return None,
    })
}

/// The name of an uploaded file.
///
/// # Errors
/// The query has none, or a path.
pub fn uploaded_name(query: &str) -> Result<String, Problem> {
    let fields = Fields::parse(query)?;
    let name = fields.single("name")?;
    if name.is_empty() || name.contains(['/', '\\']) || name.len() > 200 {
        return Err(Problem::of_question(
            format!("name: found `{name}`, needed a file's name of at most 200 bytes, without folders"),
            None::<String>,
        ));
    }
    Ok(name.to_owned())
}

/// What a request brings with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing: GET.
    None,
    /// A model's file: POST.
    File(Vec<u8>),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status that a server would send.
    pub status: u16,
    /// What it would send.
    pub json: String,
}

/// Answers a request at once, without a server: `target` is path and query, `milliseconds` a clock.
pub fn respond(calculator: &impl Calculator, target: &str, body: Body, milliseconds: fn() -> f64) -> Response {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let answer = match (route(path), body) {
        (Some(Route::List(Listing::Models)), Body::File(bytes)) => {
            uploaded_name(query).and_then(|name| calculator.keep(&name, bytes))
        }
        (Some(Route::List(what)), Body::None) => calculator.list(what),
        (Some(Route::Ask(question)), Body::None) => Fields::parse(query).and_then(|fields| {
            let seconds = if question == Question::Plan { SEARCH_SECONDS } else { ANSWER_SECONDS };
            let end = milliseconds() + f64::from(seconds) * 1000.0;
            let is_over: IsOver = Box::new(move || milliseconds() >= end);
            calculator.answer(question, &fields, is_over)
        }),
        _ => Err(Problem::new(http::StatusCode::NOT_FOUND, format!("found `{path}`, needed a path of the API"))),
    };
    match answer {
        Ok(json) => Response { status: 200, json },
        Err(problem) => Response { status: problem.status.as_u16(), json: problem.json() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with what it is asked.
    struct Echo;

    impl Calculator for Echo {
        fn list(&self, what: Listing) -> Result<String, Problem> {
            Ok(format!("{what:?}"))
        }

        fn keep(&self, name: &str, bytes: Vec<u8>) -> Result<String, Problem> {
            Ok(format!("{name}: {} bytes", bytes.len()))
        }

        fn answer(&self, question: Question, fields: &Fields, is_over: IsOver) -> Result<String, Problem> {
            Ok(format!("{question:?} about {}, over: {}", fields.single("model")?, is_over()))
        }
    }

    fn said(target: &str, body: Body) -> (u16, String) {
        let Response { status, json } = respond(&Echo, target, body, || 5.0);
        (status, json)
    }

    #[test]
    fn a_page_without_a_server_gets_what_a_server_would_send() {
        assert_eq!(said("/api/gpus", Body::None), (200, "Gpus".to_owned()));
        assert_eq!(
            said("/api/estimate?model=gpt%32", Body::None),
            (200, "Estimate about gpt2, over: false".to_owned())
        );
        assert_eq!(
            said("/api/models?name=config.json", Body::File(vec![1, 2])),
            (200, "config.json: 2 bytes".to_owned())
        );
    }

    #[test]
    fn what_a_server_would_refuse_is_refused() {
        assert_eq!(said("/api/estimate?batch=1", Body::None).0, 400);
        assert_eq!(said("/api/plan?model=%zz", Body::None).0, 400);
        assert_eq!(said("/api/models?name=../x", Body::File(vec![])).0, 400);
        assert_eq!(said("/api/nothing", Body::None).0, 404);
        assert_eq!(said("/api/gpus", Body::File(vec![])).0, 404);
        let (_, json) = said("/api/estimate", Body::None);
        assert_eq!(json, "{\"error\":\"found no `model`, needed one\"}");
    }
}
