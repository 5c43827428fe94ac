//! The paths of `vramfit serve`.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use serde::Serialize;
use vramfit_report::gpus::page::{PAGE, SCRIPT, STYLE};
use vramfit_report::gpus::{CONTENT_TYPE, Exposition, GpusReport, document, history, openmetrics};
use vramfit_web::server::{Admission, Head, KnownHosts, Request, Response, Site, Token};

use super::state::{State, Taken};

/// Everything a response needs.
pub struct GpuSite {
    /// The newest sample.
    pub state: Arc<State>,
    /// The token that clients must send.
    pub token: Option<Token>,
    /// The hosts under which this server may be addressed, if that is checked.
    pub hosts: Option<KnownHosts>,
    /// Whether `/metrics` has processes.
    pub per_process: bool,
    /// The time between samples.
    pub interval: Duration,
}

/// The answer of `/api/gpus`: that of `vramfit gpus --json`, and how fresh it is.
#[derive(Serialize)]
struct ShownSample {
    #[serde(flatten)]
    document: GpusReport,
    sample_age_seconds: f64,
    taken_at_ms: u64,
    interval_seconds: f64,
}

const JSON: &str = "application/json";
const ALLOWED: &str = "Allow: GET, HEAD, OPTIONS\r\n";

impl Site for GpuSite {
    fn admit(&self, head: &Head) -> Result<Admission, Response> {
        if self.hosts.as_ref().is_some_and(|hosts| !hosts.allow(head)) {
            return Err(Response::plain(StatusCode::FORBIDDEN, "the Host header names another machine\n"));
        }
        match head.method() {
            &Method::GET | &Method::HEAD => {}
            &Method::OPTIONS => return Err(Response::plain(StatusCode::OK, "").with_header(ALLOWED)),
            &Method::POST | &Method::PUT | &Method::DELETE | &Method::PATCH | &Method::CONNECT | &Method::TRACE => {
                let text = "there is nothing to write to here\n";
                return Err(Response::plain(StatusCode::METHOD_NOT_ALLOWED, text).with_header(ALLOWED));
            }
            _ => return Err(Response::plain(StatusCode::NOT_IMPLEMENTED, "this method is not known here\n")),
        }
        // The page holds no data; it asks for the token itself.
        let is_data = matches!(head.uri().path(), "/metrics" | "/api/gpus" | "/api/history");
        if is_data && self.token.as_ref().is_some_and(|token| !token.allows(head)) {
            return Err(Response::plain(StatusCode::UNAUTHORIZED, "a bearer token is needed\n")
                .with_header("WWW-Authenticate: Bearer realm=\"vramfit\"\r\n"));
        }
        Ok(Admission::default())
    }

    fn answer(&self, request: &Request) -> Response {
        let path = request.uri().path();
        match path {
            "/" => return Response::ok("text/html; charset=utf-8", PAGE),
            "/page.js" => return Response::ok("text/javascript; charset=utf-8", SCRIPT),
            "/page.css" => return Response::ok("text/css; charset=utf-8", STYLE),
            "/metrics" | "/api/gpus" | "/api/history" => {}
            _ => return Response::plain(StatusCode::NOT_FOUND, "there are /, /metrics, /api/gpus and /api/history\n"),
        }
        self.state.with(|taken| match taken {
            None => Response::plain(StatusCode::SERVICE_UNAVAILABLE, "no sample yet\n"),
            Some(taken) => self.data(path, taken),
        })
    }
}

impl GpuSite {
    fn data(&self, path: &str, taken: &Taken) -> Response {
        match path {
            "/metrics" => {
                let exposition = Exposition {
                    processes: self.per_process,
                    age: taken.at.elapsed().as_secs_f64(),
                    samples: taken.count,
                    hanging_calls: taken.stuck,
                };
                Response::ok(CONTENT_TYPE, openmetrics(&taken.sample, &exposition))
            }
            "/api/history" => Response::ok(JSON, history(&taken.history, &taken.sample).to_string()),
            _ => {
                let shown = ShownSample {
                    document: document(&taken.sample),
                    sample_age_seconds: taken.at.elapsed().as_secs_f64(),
                    taken_at_ms: taken.sample.taken_at / 1000,
                    interval_seconds: self.interval.as_secs_f64(),
                };
                match serde_json::to_string(&shown) {
                    Ok(text) => Response::ok(JSON, text),
                    Err(_) => {
                        Response::plain(StatusCode::INTERNAL_SERVER_ERROR, "the sample cannot be written as JSON\n")
                    }
                }
            }
        }
    }
}
