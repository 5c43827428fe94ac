//! What is answered to which path.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use vramfit_monitor::platform::host_name;
use vramfit_report::gpus::page::{PAGE, SCRIPT, STYLE};
use vramfit_report::gpus::{CONTENT_TYPE, Exposition, document, history, http_time, openmetrics};

use super::request::Request;
use super::state::{State, Taken};
use super::token::Token;

/// Everything an answer needs.
pub struct Site {
    /// The newest sample.
    pub state: Arc<State>,
    /// What clients must know.
    pub token: Option<Token>,
    /// Whether the Host header must name this machine: else a web page elsewhere could let a browser read from here
    /// under its own name.
    pub checks_host: bool,
    /// The name it was told to listen on.
    pub own_name: Option<String>,
    /// Whether `/metrics` has processes.
    pub per_process: bool,
    /// How often samples are taken.
    pub interval: Duration,
}

/// An answer.
pub struct Response {
    status: u16,
    content_type: &'static str,
    extra: Option<&'static str>,
    body: Cow<'static, str>,
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const ALLOWED: Option<&str> = Some("Allow: GET, HEAD, OPTIONS\r\n");

impl Response {
    /// A line of text.
    pub fn plain(status: u16, body: &'static str) -> Response {
        Response { status, content_type: TEXT, extra: None, body: body.into() }
    }

    fn good(content_type: &'static str, body: impl Into<Cow<'static, str>>) -> Response {
        Response { status: 200, content_type, extra: None, body: body.into() }
    }

    /// The answer as it is sent.
    pub fn bytes(&self, without_body: bool) -> Vec<u8> {
        let mut bytes = self.head();
        if !without_body {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }

    fn head(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            414 => "URI Too Long",
            431 => "Request Header Fields Too Large",
            501 => "Not Implemented",
            505 => "HTTP Version Not Supported",
            _ => "Service Unavailable",
        };
        format!(
            "HTTP/1.1 {} {reason}\r\nDate: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n{}\r\n",
            self.status,
            http_time(SystemTime::now()),
            self.content_type,
            self.body.len(),
            self.extra.unwrap_or(""),
        )
        .into_bytes()
    }
}

impl Site {
    /// The answer to a request.
    pub fn answer(&self, request: &Request) -> Response {
        if self.checks_host && !request.host.as_deref().is_none_or(|host| self.is_this_machine(host)) {
            return Response::plain(403, "the Host header names another machine\n");
        }
        match request.method.as_str() {
            "GET" | "HEAD" => {}
            "OPTIONS" => return Response { extra: ALLOWED, ..Response::plain(200, "") },
            "POST" | "PUT" | "DELETE" | "PATCH" | "CONNECT" | "TRACE" => {
                return Response { extra: ALLOWED, ..Response::plain(405, "there is nothing to write to here\n") };
            }
            _ => return Response::plain(501, "this method is not known here\n"),
        }
        // The page holds no data; it asks for the token itself.
        match request.path.as_str() {
            "/" => return Response::good("text/html; charset=utf-8", PAGE),
            "/page.js" => return Response::good("text/javascript; charset=utf-8", SCRIPT),
            "/page.css" => return Response::good("text/css; charset=utf-8", STYLE),
            "/metrics" | "/api/gpus" | "/api/history" => {}
            _ => return Response::plain(404, "there are /, /metrics, /api/gpus and /api/history\n"),
        }
        if !self.is_allowed(request) {
            let mut refused = Response::plain(401, "a bearer token is needed\n");
            refused.extra = Some("WWW-Authenticate: Bearer realm=\"vramfit\"\r\n");
            return refused;
        }
        self.state.with(|taken| match taken {
            None => Response::plain(503, "no sample yet\n"),
            Some(taken) => self.data(&request.path, taken),
        })
    }

    fn data(&self, path: &str, taken: &Taken) -> Response {
        match path {
            "/metrics" => {
                let exposition = Exposition {
                    processes: self.per_process,
                    age: taken.at.elapsed().as_secs_f64(),
                    samples: taken.count,
                    hanging_calls: taken.stuck,
                };
                Response::good(CONTENT_TYPE, openmetrics(&taken.sample, &exposition))
            }
            "/api/history" => Response::good(JSON, history(&taken.history, &taken.sample).to_string()),
            _ => {
                let mut value = document(&taken.sample);
                value["sample_age_seconds"] = taken.at.elapsed().as_secs_f64().into();
                value["interval_seconds"] = self.interval.as_secs_f64().into();
                Response::good(JSON, value.to_string())
            }
        }
    }

    fn is_allowed(&self, request: &Request) -> bool {
        let Some(token) = &self.token else { return true };
        let sent = request.authorization.as_deref().and_then(|value| {
            let (scheme, rest) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim())
        });
        token.matches(sent.unwrap_or_default().as_bytes())
    }

    /// An address, or this machine's name: no name that someone else could point here.
    fn is_this_machine(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let own = host_name();
        let names = [Some("localhost"), Some(own.as_str()), self.own_name.as_deref()];
        name.parse::<IpAddr>().is_ok() || names.into_iter().flatten().any(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            state: Arc::default(),
            token: None,
            checks_host: true,
            own_name: Some("gpus.local".to_owned()),
            per_process: false,
            interval: Duration::from_secs(1),
        }
    }

    #[test]
    fn only_names_nobody_else_can_point_here_are_this_machine() {
        let site = site();
        for good in ["127.0.0.1:9837", "localhost", "LOCALHOST:1", "[::1]:9837", "192.168.0.7", "gpus.local:1"] {
            assert!(site.is_this_machine(good), "{good}");
        }
        for bad in ["evil.example", "evil.example:9837", "localhost.evil.example", ""] {
            assert!(!site.is_this_machine(bad), "{bad}");
        }
    }
}
