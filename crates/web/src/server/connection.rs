//! Connections: a bounded number at a time, each with one request and a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};

use super::request::{self, Head, Refusal, Request};
use super::response::Response;

const MAX_CONNECTIONS: usize = 64;
/// How long connections wait for others to end. Many may come at once, as after a pause of the machine.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(1);
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// A body may be a model's file that comes over a network.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// What answers requests, each on its connection's own thread.
pub trait Site: Send + Sync + 'static {
    /// Looks at a request before its body is read.
    ///
    /// # Errors
    /// The response to a request whose body is not to be read at all.
    fn admit(&self, head: &Head) -> Result<Admission, Response> {
        let _ = head;
        Ok(Admission::default())
    }

    /// The response to a request that was admitted.
    fn answer(&self, request: &Request) -> Response;
}

/// Leave to send a request.
#[derive(Default)]
pub struct Admission {
    /// How many bytes of body are read; with 0 none, whatever the client sends.
    pub body: usize,
    /// A place among a limited number of requests, held until the answer is made.
    pub slot: Option<Slot>,
}

/// Serves until the process ends.
pub fn accept(listener: &TcpListener, site: impl Site) {
    let site = Arc::new(site);
    let open = Arc::new(AtomicUsize::new(0));
    let (surplus, refused) = mpsc::sync_channel(MAX_CONNECTIONS);
    thread::spawn(move || refused.iter().for_each(refuse));
    let mut patience = PATIENCE;
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // Most likely out of file descriptors: wait until others are closed.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Some(slot) = slot_soon(&open, &mut patience) else {
            // In a flood some connections are closed without a 503.
            let _ = surplus.try_send(stream);
            continue;
        };
        let site = Arc::clone(&site);
        let spawned = thread::Builder::new().stack_size(256 << 10).spawn(move || {
            let _slot = slot;
            serve(&mut stream, site.as_ref());
        });
        // If no thread could be started, the closure is dropped: connection and slot with it.
        drop(spawned);
    }
}

/// A slot as soon as there is one. Where those that are taken stay so until the patience ends, the next ones are refused at once.
fn slot_soon(open: &Arc<AtomicUsize>, patience: &mut Duration) -> Option<Slot> {
    loop {
        if let Some(slot) = Slot::below(MAX_CONNECTIONS, open) {
            *patience = PATIENCE;
            return Some(slot);
        }
        if patience.is_zero() {
            return None;
        }
        thread::sleep(TICK);
        *patience = patience.saturating_sub(TICK);
    }
}

fn refuse(mut stream: TcpStream) {
    // Closing a socket with unread input resets the connection, and the client would not see the response.
    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
    let _ = stream.read(&mut [0; 4096]);
    // The response fits into the socket's buffer; a client whose buffer is full does without.
    let _ = stream.set_nonblocking(true);
    let _ = stream.write(&Response::plain(StatusCode::SERVICE_UNAVAILABLE, "too many connections\n").bytes(false));
}

/// One of a limited number of things, such as open connections; dropping it frees the slot.
pub struct Slot(Arc<AtomicUsize>);

impl Slot {
    /// Takes a slot where fewer than `most` are taken.
    pub fn below(most: usize, taken: &Arc<AtomicUsize>) -> Option<Slot> {
        let slot = Slot::take(taken);
        (taken.load(Ordering::Acquire) <= most).then_some(slot)
    }

    fn take(open: &Arc<AtomicUsize>) -> Slot {
        open.fetch_add(1, Ordering::AcqRel);
        Slot(Arc::clone(open))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn serve(stream: &mut TcpStream, site: &impl Site) {
    let (response, without_body) = match request::read_head(stream, READ_TIMEOUT) {
        Ok((head, begun)) => {
            let is_head = head.method() == Method::HEAD;
            match admitted(stream, site, head, begun) {
                Ok(response) => (response, is_head),
                Err(refusal) => match refused(refusal) {
                    Some(response) => (response, is_head),
                    None => return,
                },
            }
        }
        Err(refusal) => match refused(refusal) {
            Some(response) => (response, false),
            None => return,
        },
    };
    send(stream, &response.bytes(without_body));
    drain(stream);
}

/// The response to a request whose head was read.
fn admitted(stream: &mut TcpStream, site: &impl Site, head: Head, begun: Vec<u8>) -> Result<Response, Refusal> {
    let admission = match site.admit(&head) {
        Err(response) => return Ok(response),
        Ok(admission) => admission,
    };
    let body = match admission.body {
        0 => Vec::new(),
        most => request::read_body(stream, &head, begun, most, BODY_TIMEOUT)?,
    };
    Ok(site.answer(&head.map(|()| body)))
}

/// The response to what is no request; `None` where nobody waits for one.
fn refused(refusal: Refusal) -> Option<Response> {
    let (status, text) = match refusal {
        Refusal::Gone => return None,
        Refusal::Timeout => (StatusCode::REQUEST_TIMEOUT, "the request took too long\n"),
        Refusal::LargeHead => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too large\n"),
        Refusal::LongTarget => (StatusCode::URI_TOO_LONG, "the request's first line is too long\n"),
        Refusal::Version => (StatusCode::HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 and HTTP/1.0 are spoken here\n"),
        Refusal::NoHost => (StatusCode::BAD_REQUEST, "HTTP/1.1 needs a Host header\n"),
        Refusal::NoLength => (StatusCode::LENGTH_REQUIRED, "a body needs a Content-Length\n"),
        Refusal::LargeBody => (StatusCode::PAYLOAD_TOO_LARGE, "the body has more bytes than are taken here\n"),
        Refusal::Malformed => (StatusCode::BAD_REQUEST, "this is not an HTTP request\n"),
    };
    Some(Response::plain(status, text))
}

fn send(stream: &mut TcpStream, mut rest: &[u8]) {
    let deadline = Instant::now() + WRITE_TIMEOUT;
    while !rest.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_write_timeout(Some(left)).is_err() {
            return;
        }
        match stream.write(rest) {
            Ok(0) => return,
            Ok(length) => rest = &rest[length..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Reads what the client still sends: closing a socket with unread input resets the connection, and the client might
/// lose the response.
fn drain(stream: &mut TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let mut rest = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() || !matches!(stream.read(&mut rest), Ok(1..))
        {
            return;
        }
    }
}
