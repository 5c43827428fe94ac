//! Connections: so many at a time, each with one request, none for long.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::request::{self, Refusal};
use super::routes::{Response, Site};

const MOST_CONNECTIONS: usize = 64;
const READ_PATIENCE: Duration = Duration::from_secs(5);
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_millis(500);

/// Answers until the process ends.
pub fn accept(listener: &TcpListener, site: &Arc<Site>) {
    let open = Arc::new(AtomicUsize::new(0));
    let (surplus, refused) = mpsc::sync_channel(MOST_CONNECTIONS);
    thread::spawn(move || refused.iter().for_each(refuse));
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // Out of file descriptors, most likely: let others finish.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let place = Place::take(&open);
        if open.load(Ordering::Acquire) > MOST_CONNECTIONS {
            // In a flood not everyone is even told.
            let _ = surplus.try_send(stream);
            continue;
        }
        let site = Arc::clone(site);
        let spawned = thread::Builder::new().stack_size(256 << 10).spawn(move || {
            let _place = place;
            answer(&mut stream, &site);
        });
        // Without a thread to answer it the connection is dropped, and with it the place.
        drop(spawned);
    }
}

fn refuse(mut stream: TcpStream) {
    // The request is taken off the line, else closing would reset the connection before the answer is read.
    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
    let _ = stream.read(&mut [0; 4096]);
    // So short an answer is taken by the system at once, or the client does not want it.
    let _ = stream.set_nonblocking(true);
    let _ = stream.write(&Response::plain(503, "too many connections\n").bytes(false));
}

/// A place among the connections, given back however it ends.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Place {
        open.fetch_add(1, Ordering::AcqRel);
        Place(Arc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn answer(stream: &mut TcpStream, site: &Site) {
    let (response, without_body) = match request::read(stream, READ_PATIENCE) {
        Ok(request) => (site.answer(&request), request.method == "HEAD"),
        Err(refusal) => match refused(refusal) {
            Some(response) => (response, false),
            None => return,
        },
    };
    send(stream, &response.bytes(without_body));
    // What the client still sends is read for a moment: closing over unread bytes would reset the connection and lose
    // the answer.
    let _ = stream.shutdown(Shutdown::Write);
    let deadline = Instant::now() + LINGER;
    let mut rest = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() || !matches!(stream.read(&mut rest), Ok(1..))
        {
            return;
        }
    }
}

/// The answer to what is no request; `None` where nobody waits for one.
fn refused(refusal: Refusal) -> Option<Response> {
    Some(match refusal {
        Refusal::Gone => return None,
        Refusal::Timeout => Response::plain(408, "the request took too long\n"),
        Refusal::TooLarge => Response::plain(431, "the request's head is too large\n"),
        Refusal::LongTarget => Response::plain(414, "the request's first line is too long\n"),
        Refusal::Version => Response::plain(505, "HTTP/1.1 and HTTP/1.0 are spoken here\n"),
        Refusal::NoHost => Response::plain(400, "HTTP/1.1 needs a Host header\n"),
        Refusal::Malformed => Response::plain(400, "this is not an HTTP request\n"),
    })
}

fn send(stream: &mut TcpStream, mut rest: &[u8]) {
    let deadline = Instant::now() + WRITE_PATIENCE;
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
