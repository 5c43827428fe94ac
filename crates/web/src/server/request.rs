//! An HTTP request (RFC 9112), read within limits.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

/// More than any browser or Prometheus sends.
const MAX_HEAD: usize = 16 << 10;
const MAX_HEADERS: usize = 100;

/// A request's head: method, target and headers.
pub type Head = http::Request<()>;

/// A request with its body.
pub type Request = http::Request<Vec<u8>>;

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client closed the connection, or sent nothing before the deadline.
    Gone,
    /// The request was not complete at the deadline.
    Timeout,
    /// The head has too many bytes or headers.
    LargeHead,
    /// The first line alone is too long.
    LongTarget,
    /// Another major version of HTTP.
    Version,
    /// HTTP/1.1 without a Host header.
    NoHost,
    /// A body without its length.
    NoLength,
    /// A body of more bytes than are taken.
    LargeBody,
    /// Not HTTP.
    Malformed,
}

/// The host and port a request is meant for: of the target if it is a whole URL, else of the Host header.
pub fn authority(request: &Head) -> Option<&str> {
    match (request.uri().scheme(), request.uri().authority()) {
        (Some(_), Some(authority)) => Some(authority.as_str()),
        _ => request.headers().get(HOST).and_then(|host| host.to_str().ok()),
    }
}

/// Reads a request's head, up to the empty line, and what arrived with it of the body.
pub fn read_head(stream: &mut TcpStream, timeout: Duration) -> Result<(Head, Vec<u8>), Refusal> {
    let deadline = Instant::now() + timeout;
    let mut bytes = Vec::with_capacity(1024);
    let mut chunk = [0; 2048];
    loop {
        let room = chunk.len().min(MAX_HEAD - bytes.len());
        match receive(stream, &mut chunk[..room], deadline) {
            Ok(0) => return Err(if bytes.is_empty() { Refusal::Gone } else { Refusal::Malformed }),
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
            Err(Refusal::Timeout) if bytes.is_empty() => return Err(Refusal::Gone),
            Err(refusal) => return Err(refusal),
        }
        if let Some((head, length)) = parse(&mut bytes)? {
            return Ok((head, bytes.split_off(length)));
        }
        if bytes.len() == MAX_HEAD {
            let has_first_line = bytes.trim_ascii_start().contains(&b'\n');
            return Err(if has_first_line { Refusal::LargeHead } else { Refusal::LongTarget });
        }
    }
}

/// Reads a request's body of at most `most` bytes, of which `begun` arrived with its head.
pub fn read_body(
    stream: &mut TcpStream,
    head: &Head,
    begun: Vec<u8>,
    most: usize,
    timeout: Duration,
) -> Result<Vec<u8>, Refusal> {
    let length = body_length(head.headers(), most)?;
    let deadline = Instant::now() + timeout;
    let mut body = begun;
    body.truncate(length);
    let mut chunk = [0; 16 << 10];
    // Memory grows with what arrives, not with what the header promises.
    while body.len() < length {
        let room = chunk.len().min(length - body.len());
        match receive(stream, &mut chunk[..room], deadline)? {
            0 => return Err(Refusal::Malformed),
            count => body.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(body)
}

/// The length of a body, up to `most`.
fn body_length(headers: &HeaderMap, most: usize) -> Result<usize, Refusal> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(Refusal::NoLength);
    }
    let length = single(headers, CONTENT_LENGTH)?.ok_or(Refusal::NoLength)?;
    let digits = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let digits = digits.filter(|text| !text.is_empty()).ok_or(Refusal::Malformed)?;
    // More digits than a number has are a large body too.
    digits.parse().ok().filter(|length| *length <= most).ok_or(Refusal::LargeBody)
}

/// Reads what there is before the deadline; 0 at the end.
fn receive(stream: &mut TcpStream, chunk: &mut [u8], deadline: Instant) -> Result<usize, Refusal> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refusal::Timeout);
        }
        // Fails only for a timeout of zero.
        stream.set_read_timeout(Some(left)).map_err(|_| Refusal::Gone)?;
        match stream.read(chunk) {
            Ok(length) => return Ok(length),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(Refusal::Timeout);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Refusal::Gone),
        }
    }
}

/// Parses a head and says how long it is; `None` while it is incomplete.
fn parse(head: &mut [u8]) -> Result<Option<(Head, usize)>, Refusal> {
    let Some(first_line) = first_line(head) else { return Ok(None) };
    lower_version(first_line)?;
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(head) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::LargeHead),
        Err(_) => return Err(Refusal::Malformed),
    };
    let mut request = Head::new(());
    *request.method_mut() = parsed.method.unwrap_or_default().parse().map_err(|_| Refusal::Malformed)?;
    *request.uri_mut() = target(request.method(), parsed.path.unwrap_or_default())?;
    for header in parsed.headers {
        let name: HeaderName = header.name.parse().map_err(|_| Refusal::Malformed)?;
        let value = HeaderValue::from_bytes(header.value).map_err(|_| Refusal::Malformed)?;
        request.headers_mut().append(name, value);
    }
    let host = single(request.headers(), HOST)?;
    single(request.headers(), AUTHORIZATION)?;
    match host {
        None if parsed.version != Some(0) => Err(Refusal::NoHost),
        Some(host) if !host.to_str().is_ok_and(is_host) => Err(Refusal::Malformed),
        _ => Ok(Some((request, length))),
    }
}

/// The request line once it is complete, without its end. Empty lines before it are an old habit of clients.
fn first_line(head: &mut [u8]) -> Option<&mut [u8]> {
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let end = start + head[start..].iter().position(|byte| *byte == b'\n')?;
    let end = if head[end - 1] == b'\r' { end - 1 } else { end };
    Some(&mut head[start..end])
}

/// httparse knows HTTP/1.0 and 1.1 only. A later 1.x is to be handled as 1.1 (RFC 9110, 2.5); another major version has a
/// status of its own.
fn lower_version(first_line: &mut [u8]) -> Result<(), Refusal> {
    match first_line {
        [.., b' ', b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9'] => *minor = (*minor).min(b'1'),
        [.., b' ', b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => return Err(Refusal::Version),
        _ => {}
    }
    Ok(())
}

/// The target in the four forms of RFC 9112, 3.2: a path, a whole URL, `host:port` of CONNECT, `*` of OPTIONS.
fn target(method: &Method, text: &str) -> Result<Uri, Refusal> {
    let uri: Uri = text.parse().map_err(|_| Refusal::Malformed)?;
    let is_good = match (uri.scheme(), uri.authority()) {
        (Some(scheme), Some(authority)) => {
            (*scheme == Scheme::HTTP || *scheme == Scheme::HTTPS) && is_host(authority.as_str())
        }
        (None, Some(authority)) => method == Method::CONNECT && is_host(authority.as_str()),
        _ => uri.path() != "*" || method == Method::OPTIONS,
    };
    if is_good && text.is_ascii() { Ok(uri) } else { Err(Refusal::Malformed) }
}

/// The only value of a header. A repeated one could mean one thing here and another to a proxy.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() { Err(Refusal::Malformed) } else { Ok(first) }
}

/// A host and perhaps a port, without a user name. A Host header may be empty.
fn is_host(text: &str) -> bool {
    text.is_empty()
        || text.parse::<Authority>().is_ok_and(|authority| {
            let port = text.strip_prefix(authority.host()).map(|rest| rest.strip_prefix(':').unwrap_or(rest));
            port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A whole head, without its last two line ends.
    fn parsed(head: &[u8]) -> Result<Head, Refusal> {
        let mut head = [head, b"\r\n\r\n"].concat();
        let (request, length) = parse(&mut head)?.unwrap();
        assert_eq!(length, head.len());
        Ok(request)
    }

    #[test]
    fn a_request_is_read_whatever_the_case_of_its_headers() {
        let request =
            parsed(b"GET /metrics?x=1 HTTP/1.1\r\nHOST: a:1\r\nauthorization:  Bearer x \r\nAccept: */*").unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::GET, "/metrics"));
        assert_eq!(authority(&request), Some("a:1"));
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer x");
    }

    #[test]
    fn lines_may_end_without_a_carriage_return() {
        for head in ["GET /metrics HTTP/1.1\nHost: a\nX: y\n\n", "\r\n\nGET /metrics HTTP/1.1\r\nHost: a\n\r\nrest"] {
            let (request, length) = parse(&mut head.as_bytes().to_vec()).unwrap().unwrap();
            assert_eq!(&head[length..], if head.ends_with("rest") { "rest" } else { "" });
            assert_eq!((request.uri().path(), authority(&request)), ("/metrics", Some("a")));
        }
    }

    #[test]
    fn a_head_is_incomplete_until_its_empty_line() {
        let whole = b"\r\nGET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
        for end in 0..whole.len() {
            assert!(parse(&mut whole[..end].to_vec()).unwrap().is_none(), "{end}");
        }
        assert!(parse(&mut whole.to_vec()).unwrap().is_some());
    }

    #[test]
    fn a_whole_address_as_target_names_the_host_itself() {
        let of = |target: &str| {
            let request = parsed(format!("GET {target} HTTP/1.1\r\nHost: other").as_bytes()).unwrap();
            (authority(&request).unwrap().to_owned(), request.uri().path().to_owned())
        };
        let pair = |host: &str, path: &str| (host.to_owned(), path.to_owned());
        assert_eq!(of("http://localhost:1/metrics?x"), pair("localhost:1", "/metrics"));
        assert_eq!(of("HTTP://[::1]:1"), pair("[::1]:1", "/"));
        assert_eq!(of("http://a?x"), pair("a", "/"));
        assert_eq!(of("/metrics"), pair("other", "/metrics"));
    }

    #[test]
    fn only_options_may_ask_for_the_whole_server() {
        assert!(parsed(b"OPTIONS * HTTP/1.1\r\nHost: a").is_ok());
        assert!(parsed(b"OPTIONS http://a HTTP/1.1\r\nHost: a").is_ok());
        assert_eq!(parsed(b"GET * HTTP/1.1\r\nHost: a").unwrap_err(), Refusal::Malformed);
    }

    #[test]
    fn the_version_decides_whether_a_host_is_needed_and_whether_it_is_http_at_all() {
        assert_eq!(parsed(b"GET / HTTP/1.1").unwrap_err(), Refusal::NoHost);
        assert!(parsed(b"GET / HTTP/1.0").is_ok());
        assert!(parsed(b"GET / HTTP/1.9\r\nHost: a").is_ok());
        for other in ["HTTP/9.9", "HTTP/2.0", "HTTP/0.9"] {
            assert_eq!(parsed(format!("GET / {other}").as_bytes()).unwrap_err(), Refusal::Version, "{other}");
        }
        for bad in ["HTTP/2", "http/1.1", "HTTP/1.10", "HTTP/1,1", "XTTP/1.1"] {
            let refusal = parsed(format!("GET / {bad}\r\nHost: a").as_bytes()).unwrap_err();
            assert_eq!(refusal, Refusal::Malformed, "{bad}");
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        let bad: [&[u8]; 18] = [
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
            b"GET / HTTP/1.1\r\nHost: me@a",
            b"GET / HTTP/1.1\r\nHost: a/b",
            b"GET / HTTP/1.1\r\nHost: a:b",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb",
            b"GET /\xff HTTP/1.1\r\nHost: a",
            b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a",
        ];
        for head in bad {
            assert_eq!(parsed(head).unwrap_err(), Refusal::Malformed, "{}", String::from_utf8_lossy(head));
        }
        let many = "GET / HTTP/1.1\r\nHost: a".to_owned() + &"\r\nA: b".repeat(MAX_HEADERS);
        assert_eq!(parsed(many.as_bytes()).unwrap_err(), Refusal::LargeHead);
    }

    #[test]
    fn header_values_may_be_in_old_encodings() {
        assert!(parsed(b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: caf\xe9").is_ok());
    }

    #[test]
    fn a_body_needs_one_length_within_the_limit() {
        let length = |headers: &str| {
            body_length(parsed(format!("POST / HTTP/1.1\r\nHost: a{headers}").as_bytes()).unwrap().headers(), 100)
        };
        assert_eq!(length("\r\nContent-Length: 100"), Ok(100));
        assert_eq!(length("\r\nContent-Length: 0"), Ok(0));
        assert_eq!(length(""), Err(Refusal::NoLength));
        assert_eq!(length("\r\nContent-Length: 1\r\nTransfer-Encoding: chunked"), Err(Refusal::NoLength));
        for bad in ["-1", "+1", "", "1, 1", "0x10", "1\r\nContent-Length: 1"] {
            assert_eq!(length(&format!("\r\nContent-Length: {bad}")), Err(Refusal::Malformed), "{bad}");
        }
        for large in ["101", "18446744073709551615", "99999999999999999999999999"] {
            assert_eq!(length(&format!("\r\nContent-Length: {large}")), Err(Refusal::LargeBody), "{large}");
        }
    }
}
