//! The head of an HTTP request, read within limits.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// More than any browser or Prometheus sends.
const LARGEST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 100;

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// GET, HEAD, …
    pub method: String,
    /// Without what follows a question mark.
    pub path: String,
    /// The Host header.
    pub host: Option<String>,
    /// The Authorization header.
    pub authorization: Option<String>,
}

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client has gone or sent nothing.
    Gone,
    /// Too slow.
    Timeout,
    /// Too long.
    TooLarge,
    /// Not HTTP.
    Malformed,
}

/// Reads a request's head, up to the empty line.
pub fn read(stream: &mut TcpStream, patience: Duration) -> Result<Request, Refusal> {
    let deadline = Instant::now() + patience;
    let mut head = Vec::with_capacity(1024);
    let mut chunk = [0; 2048];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refusal::Timeout);
        }
        // The socket refuses only a time of zero.
        stream.set_read_timeout(Some(left)).map_err(|_| Refusal::Gone)?;
        match stream.read(&mut chunk) {
            Ok(0) => return Err(if head.is_empty() { Refusal::Gone } else { Refusal::Malformed }),
            Ok(length) => head.extend_from_slice(&chunk[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(if head.is_empty() { Refusal::Gone } else { Refusal::Timeout });
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Refusal::Gone),
        }
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            return if end > LARGEST_HEAD { Err(Refusal::TooLarge) } else { parse(&head[..end]) };
        }
        if head.len() > LARGEST_HEAD {
            return Err(Refusal::TooLarge);
        }
    }
}

fn parse(head: &[u8]) -> Result<Request, Refusal> {
    let text = std::str::from_utf8(head).map_err(|_| Refusal::Malformed)?;
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words.as_slice() else { return Err(Refusal::Malformed) };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !is_method || !target.starts_with('/') || !matches!(*version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Refusal::Malformed);
    }
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let mut request = Request { method: (*method).to_owned(), path: path.to_owned(), host: None, authorization: None };
    for (count, line) in lines.enumerate() {
        if count >= MOST_HEADERS {
            return Err(Refusal::TooLarge);
        }
        let (name, value) = line.split_once(':').ok_or(Refusal::Malformed)?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name || value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(Refusal::Malformed);
        }
        let field = match name.to_ascii_lowercase().as_str() {
            "host" => &mut request.host,
            "authorization" => &mut request.authorization,
            _ => continue,
        };
        // Said twice it could mean one thing here and another to a proxy.
        if field.replace(value.trim().to_owned()).is_some() {
            return Err(Refusal::Malformed);
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_whatever_the_case_of_its_headers() {
        let request =
            parse(b"GET /metrics?x=1 HTTP/1.1\r\nHOST: a:1\r\nauthorization:  Bearer x \r\nAccept: */*").unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/metrics"));
        assert_eq!((request.host.as_deref(), request.authorization.as_deref()), (Some("a:1"), Some("Bearer x")));
    }

    #[test]
    fn what_is_not_http_is_refused() {
        let bad: [&[u8]; 11] = [
            b"",
            b"GET /",
            b"GET  / HTTP/1.1",
            b"get / HTTP/1.1",
            b"GET http://x/ HTTP/1.1",
            b"GET / HTTP/2",
            b"GET / HTTP/1.1\r\nno colon",
            b"GET / HTTP/1.1\r\n folded: x",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b",
            b"GET / HTTP/1.1\r\nX: a\0b",
            b"GET /\xff HTTP/1.1",
        ];
        for head in bad {
            assert_eq!(parse(head), Err(Refusal::Malformed), "{}", String::from_utf8_lossy(head));
        }
        let many = "GET / HTTP/1.1".to_owned() + &"\r\nA: b".repeat(MOST_HEADERS + 1);
        assert_eq!(parse(many.as_bytes()), Err(Refusal::TooLarge));
    }
}
