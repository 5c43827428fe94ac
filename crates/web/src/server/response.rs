//! A response and the headers that every response has.

use std::borrow::Cow;
use std::time::SystemTime;

use http::StatusCode;
use vramfit_report::gpus::http_time;

/// A response.
pub struct Response {
    status: StatusCode,
    content_type: &'static str,
    /// A header of this response alone, with its line end.
    extra_header: &'static str,
    body: Cow<'static, str>,
}

impl Response {
    /// A response with a body.
    pub fn new(status: StatusCode, content_type: &'static str, body: impl Into<Cow<'static, str>>) -> Response {
        Response { status, content_type, extra_header: "", body: body.into() }
    }

    /// 200 with a body.
    pub fn ok(content_type: &'static str, body: impl Into<Cow<'static, str>>) -> Response {
        Response::new(StatusCode::OK, content_type, body)
    }

    /// A line of text, for errors above all.
    pub fn plain(status: StatusCode, body: &'static str) -> Response {
        Response::new(status, "text/plain; charset=utf-8", body)
    }

    /// Adds a header; it must end with `\r\n`.
    #[must_use]
    pub fn with_header(self, extra_header: &'static str) -> Response {
        Response { extra_header, ..self }
    }

    /// The bytes to send. A response to HEAD goes without its body.
    pub(super) fn bytes(&self, without_body: bool) -> Vec<u8> {
        let mut bytes = self.head().into_bytes();
        if !without_body {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }

    fn head(&self) -> String {
        format!(
            "HTTP/1.1 {} {}\r\nDate: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n{}\r\n",
            self.status.as_str(),
            self.status.canonical_reason().unwrap_or_default(),
            http_time(SystemTime::now()),
            self.content_type,
            self.body.len(),
            self.extra_header,
        )
    }
}
