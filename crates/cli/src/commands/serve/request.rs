//! The head of an HTTP request (RFC 9112), read within limits.

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
    /// Without what follows a question mark; `*` where the whole server is meant.
    pub path: String,
    /// The host that is meant: of the target where that is a whole address, else of the Host header.
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
    /// A head too long.
    TooLarge,
    /// A first line too long.
    LongTarget,
    /// Another major version of HTTP.
    Version,
    /// HTTP/1.1 without the host.
    NoHost,
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
        let known = head.len();
        match stream.read(&mut chunk) {
            Ok(0) => return Err(if head.is_empty() { Refusal::Gone } else { Refusal::Malformed }),
            Ok(length) => head.extend_from_slice(&chunk[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(if head.is_empty() { Refusal::Gone } else { Refusal::Timeout });
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Refusal::Gone),
        }
        if known == 0 {
            // Empty lines before a request are an old habit of clients.
            let blank = head.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            head.drain(..blank);
        }
        match end_of_head(&head, known) {
            Some(end) if end <= LARGEST_HEAD => return parse(&head[..end]),
            None if head.len() <= LARGEST_HEAD => {}
            _ if !head[..LARGEST_HEAD].contains(&b'\n') => return Err(Refusal::LongTarget),
            _ => return Err(Refusal::TooLarge),
        }
    }
}

/// Where the empty line begins. Lines may end without a carriage return. What is before `known` has been looked at.
fn end_of_head(head: &[u8], known: usize) -> Option<usize> {
    let from = known.saturating_sub(2).min(head.len());
    let is_end = |position: &usize| {
        let after = &head[position + 1..];
        head[*position] == b'\n' && (after.starts_with(b"\n") || after.starts_with(b"\r\n"))
    };
    (from..head.len()).find(is_end)
}

fn parse(head: &[u8]) -> Result<Request, Refusal> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    if !first.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
        return Err(Refusal::Malformed);
    }
    let first = std::str::from_utf8(first).map_err(|_| Refusal::Malformed)?;
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words.as_slice() else { return Err(Refusal::Malformed) };
    if !is_token(method.as_bytes()) || target.is_empty() {
        return Err(Refusal::Malformed);
    }
    let needs_host = match version.as_bytes() {
        b"HTTP/1.0" => false,
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => true,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => return Err(Refusal::Version),
        _ => return Err(Refusal::Malformed),
    };
    let (authority, path) = take_apart(method, target)?;
    let mut request = Request { method: (*method).to_owned(), path, host: None, authorization: None };
    for (count, line) in lines.enumerate() {
        if count >= MOST_HEADERS {
            return Err(Refusal::TooLarge);
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or(Refusal::Malformed)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if !is_token(name) || value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(Refusal::Malformed);
        }
        let field = match name.to_ascii_lowercase().as_slice() {
            b"host" => &mut request.host,
            b"authorization" => &mut request.authorization,
            _ => continue,
        };
        // Said twice it could mean one thing here and another to a proxy.
        if field.replace(String::from_utf8_lossy(value.trim_ascii()).into_owned()).is_some() {
            return Err(Refusal::Malformed);
        }
    }
    match &request.host {
        None if needs_host => return Err(Refusal::NoHost),
        Some(host) if !is_authority(host) => return Err(Refusal::Malformed),
        _ => {}
    }
    if let Some(authority) = authority {
        request.host = Some(authority);
    }
    Ok(request)
}

/// The authority, where the target names one, and the path.
fn take_apart(method: &str, target: &str) -> Result<(Option<String>, String), Refusal> {
    let path_of = |text: &str| text.split(['?', '#']).next().unwrap_or_default().to_owned();
    match (method, target) {
        ("OPTIONS", "*") => return Ok((None, "*".to_owned())),
        ("CONNECT", authority) if is_authority(authority) => return Ok((None, String::new())),
        (_, path) if path.starts_with('/') => return Ok((None, path_of(path))),
        _ => {}
    }
    let (scheme, rest) = target.split_once("://").ok_or(Refusal::Malformed)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = (&rest[..end], path_of(&rest[end..]));
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    if !is_web || authority.is_empty() || !is_authority(authority) {
        return Err(Refusal::Malformed);
    }
    // Of a whole address without a path the whole server is meant, or its root.
    let path = match (method, path.as_str()) {
        ("OPTIONS", "") => "*".to_owned(),
        (_, "") => "/".to_owned(),
        _ => path,
    };
    Ok((Some(authority.to_owned()), path))
}

/// What methods and header names consist of.
fn is_token(text: &[u8]) -> bool {
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_good)
}

/// A host and perhaps a port. User names have no place in it.
fn is_authority(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((inside, after)) = rest.split_once(']') else { return false };
            if !inside.bytes().all(|byte| is_good(byte) || byte == b':') {
                return false;
            }
            ("", after)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    host.bytes().all(is_good) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
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
    fn lines_may_end_without_a_carriage_return() {
        let request = parse(b"GET /metrics HTTP/1.1\nHost: a\nX: y").unwrap();
        assert_eq!((request.path.as_str(), request.host.as_deref()), ("/metrics", Some("a")));
        for (head, end) in [(&b"GET /\n\n"[..], 5), (b"GET /\r\n\r\n", 6), (b"GET /\n\r\nrest", 5), (b"a\r\nb\n\n", 4)]
        {
            for known in 0..=end {
                assert_eq!(end_of_head(head, known), Some(end), "{known}");
            }
        }
        assert_eq!(end_of_head(b"GET / HTTP/1.1\r\nHost: a\r\n", 0), None);
    }

    #[test]
    fn a_whole_address_as_target_names_the_host_itself() {
        let of = |target: &str| {
            let request = parse(format!("GET {target} HTTP/1.1\r\nHost: other").as_bytes()).unwrap();
            (request.host.unwrap(), request.path)
        };
        let pair = |host: &str, path: &str| (host.to_owned(), path.to_owned());
        assert_eq!(of("http://localhost:1/metrics?x"), pair("localhost:1", "/metrics"));
        assert_eq!(of("HTTP://[::1]:1"), pair("[::1]:1", "/"));
        assert_eq!(of("http://a?x"), pair("a", "/"));
        assert_eq!(of("/metrics"), pair("other", "/metrics"));
    }

    #[test]
    fn the_whole_server_can_be_asked_for_its_options_only() {
        assert_eq!(parse(b"OPTIONS * HTTP/1.1\r\nHost: a").unwrap().path, "*");
        assert_eq!(parse(b"OPTIONS http://a HTTP/1.1\r\nHost: a").unwrap().path, "*");
        assert_eq!(parse(b"GET * HTTP/1.1\r\nHost: a"), Err(Refusal::Malformed));
    }

    #[test]
    fn the_version_decides_whether_a_host_is_needed_and_whether_it_is_http_at_all() {
        assert_eq!(parse(b"GET / HTTP/1.1"), Err(Refusal::NoHost));
        assert!(parse(b"GET / HTTP/1.0").is_ok());
        assert!(parse(b"GET / HTTP/1.9\r\nHost: a").is_ok());
        for other in ["HTTP/9.9", "HTTP/2.0", "HTTP/0.9"] {
            assert_eq!(parse(format!("GET / {other}").as_bytes()), Err(Refusal::Version), "{other}");
        }
        for bad in ["HTTP/2", "http/1.1", "HTTP/1.10", "HTTP/1,1", "XTTP/1.1"] {
            assert_eq!(parse(format!("GET / {bad}\r\nHost: a").as_bytes()), Err(Refusal::Malformed), "{bad}");
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        let bad: [&[u8]; 17] = [
            b"",
            b"GET /",
            b"GET  / HTTP/1.1",
            b"G(T / HTTP/1.1\r\nHost: a",
            b"GET ftp://x/ HTTP/1.1\r\nHost: a",
            b"GET http:// HTTP/1.1\r\nHost: a",
            b"GET http://me@a/ HTTP/1.1\r\nHost: a",
            b"GET metrics HTTP/1.1\r\nHost: a",
            b"GET / HTTP/1.1\r\nHost: a\r\nno colon",
            b"GET / HTTP/1.1\r\nHost: a\r\n folded: x",
            b"GET / HTTP/1.1\r\nHost : a",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: a",
            b"GET / HTTP/1.1\r\nHost: a/b",
            b"GET / HTTP/1.1\r\nHost: a:b",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb",
            b"GET /\xff HTTP/1.1\r\nHost: a",
        ];
        for head in bad {
            assert_eq!(parse(head), Err(Refusal::Malformed), "{}", String::from_utf8_lossy(head));
        }
        let many = "GET / HTTP/1.1\r\nHost: a".to_owned() + &"\r\nA: b".repeat(MOST_HEADERS + 1);
        assert_eq!(parse(many.as_bytes()), Err(Refusal::TooLarge));
    }

    #[test]
    fn header_values_may_be_in_old_encodings() {
        assert!(parse(b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: caf\xe9").is_ok());
    }
}
