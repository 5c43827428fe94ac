//! HTTP as in RFC 9112, misbehaving clients, and the address the server listens on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::serve::Server;
use super::standin::Machine;

#[test]
fn requests_are_parsed_as_in_rfc_9112() {
    let machine = Machine::with_gpus(1);
    let server = Server::start(&machine, &[]);
    let code = |request: &str| server.exchange(request).0;
    for (request, expected) in [
        ("GET /metrics HTTP/1.1\r\n\r\n", 400),
        ("GET /metrics HTTP/1.0\r\n\r\n", 200),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost: local host\r\n\r\n", 400),
        ("GET http://localhost/metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200),
        ("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 403),
        ("GET http://localhost HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("GET http://localhost/metrics HTTP/1.1\r\n\r\n", 400),
        ("GET ftp://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("OPTIONS /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        ("GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
        ("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("GET / HTTP/1.2\r\nHost: localhost\r\n\r\n", 200),
        ("GET / HTTP/11\r\nHost: localhost\r\n\r\n", 400),
        ("GET / http/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\nHost: localhost\n\n", 200),
        ("GET /metrics HTTP/1.1\nHost: localhost\r\n\n", 200),
        ("\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", 400),
        ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n", 405),
        ("DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        ("get / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        ("nonsense\r\n\r\n", 400),
        ("\u{16}\u{3}\u{1}\n\n", 400),
    ] {
        let start = Instant::now();
        assert_eq!(code(request), expected, "{request:?}");
        assert!(start.elapsed() < Duration::from_secs(4), "{request:?} was not understood at once");
    }
    let (_, head, body) = server.exchange("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("Allow: GET, HEAD, OPTIONS") && head.contains("Date: ") && body.is_empty(), "{head}");
    let line = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(40_000));
    assert_eq!(code(&line), 414);
    let large = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    assert_eq!(code(&large), 431);
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(500));
    assert_eq!(code(&many), 431);
}

#[test]
fn only_the_right_token_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "correct-horse-battery\r\nsecond line\n").unwrap();
    let machine = Machine::with_gpus(1);
    let server = Server::start(&machine, &["--token-file", path.to_str().unwrap()]);
    let code = |headers: &str| server.get("/api/gpus", headers).0;
    assert_eq!(code("Authorization: Bearer correct-horse-battery\r\n"), 200);
    assert_eq!(code("authorization: BEARER   correct-horse-battery  \r\n"), 200);
    for wrong in [
        "",
        "Authorization:\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: correct-horse-battery\r\n",
        "Authorization: Bearer correct-horse-batter\r\n",
        "Authorization: Bearer correct-horse-battery1\r\n",
        "Authorization: Bearer Correct-horse-battery\r\n",
        "Authorization: Bearer correct-horse-battery correct-horse-battery\r\n",
        "Authorization: Bearer second line\r\n",
        "Authorization: Basic correct-horse-battery\r\n",
        "Cookie: token=correct-horse-battery\r\n",
        "X-Authorization: Bearer correct-horse-battery\r\n",
    ] {
        let (code, head, body) = server.get("/api/gpus", wrong);
        assert_eq!(code, 401, "{wrong:?}");
        assert!(head.contains("WWW-Authenticate: Bearer") && !body.contains("hostname"), "{wrong:?}");
    }
    let twice = "Authorization: Bearer correct-horse-battery\r\nAuthorization: Bearer x\r\n";
    assert_eq!(code(twice), 400);
    assert_eq!(server.get("/api/gpus?token=correct-horse-battery", "").0, 401);
    let (code, _, body) = server.exchange("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((code, body.as_str()), (401, ""));
    assert_eq!(server.exchange("GET /metrics HTTP/1.0\r\n\r\n").0, 401);
    assert_eq!(server.exchange("GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").0, 401);
}

#[test]
fn a_bad_token_in_the_environment_or_a_missing_file_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let machine = Machine::with_gpus(1);
    for bad in [b"".to_vec(), b"short".to_vec(), b"\xff\xfe not text, but long enough".to_vec()] {
        let mut command = machine.vramfit(&["serve", "--port", "0"]);
        let output = command.env("VRAMFIT_TOKEN", std::ffi::OsString::from_vec(bad)).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains("VRAMFIT_TOKEN"));
    }
    let missing = machine.run(&["serve", "--token-file", "/nonexistent"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn slow_clients_are_cut_off_however_they_are_slow() {
    let machine = Machine::with_gpus(1);
    let server = Server::start(&machine, &[]);
    let start = Instant::now();
    assert_eq!(server.exchange("GET / HTTP/1.1\r\n").0, 408);
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());

    // A byte now and then keeps nothing open: neither before the request is whole, nor after it is answered.
    for request in ["GET / HTTP/1.1\r\nX: ", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let start = Instant::now();
        while stream.write_all(b"x").is_ok() {
            assert!(start.elapsed() < Duration::from_secs(9), "still open");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // Clients that never read their response.
    let unread: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(b"GET /api/gpus HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(server.get("/metrics", "").0, 200);
    drop(unread);
}

/// Open files and threads of the server.
fn held(server: &Server) -> (usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", server.child.id())).unwrap().count();
    (count("fd"), count("task"))
}

#[test]
fn a_flood_of_connections_passes_and_leaves_nothing_behind() {
    let machine = Machine::with_gpus(1);
    let server = Server::start(&machine, &[]);
    std::thread::sleep(Duration::from_secs(1));
    let before = held(&server);
    let mut flood = Vec::new();
    let mut refused = 0;
    for number in 0..600 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        match number % 3 {
            0 => _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: "),
            1 => _ = stream.shutdown(Shutdown::Write),
            _ => {}
        }
        flood.push(stream);
        let (files, threads) = held(&server);
        assert!(files < before.0 + 200 && threads < before.1 + 80, "{files} files, {threads} threads");
    }
    for stream in &mut flood {
        stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let mut answer = [0; 12];
        refused += usize::from(stream.read_exact(&mut answer).is_ok() && &answer[9..] == b"503");
    }
    assert!(refused > 0, "no connection got a 503");
    let start = Instant::now();
    while server.get_whatever("/metrics") != 200 {
        assert!(start.elapsed() < Duration::from_secs(10), "the flood holds on");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(flood);
    let start = Instant::now();
    while held(&server).0 > before.0 || held(&server).1 > before.1 {
        assert!(start.elapsed() < Duration::from_secs(10), "{before:?} before, {:?} after", held(&server));
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Server {
    /// A request that may be reset.
    fn get_whatever(&self, path: &str) -> u16 {
        let Ok(mut stream) = TcpStream::connect(self.address) else { return 0 };
        let _ = stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }
}

#[test]
fn many_idle_connections_do_not_keep_others_out_for_long() {
    let machine = Machine::with_gpus(1);
    let server = Server::start(&machine, &[]);
    // On a busy machine the first ones may have timed out before the last is there: then once more.
    let mut idle: Vec<TcpStream> = Vec::new();
    let is_full = (0..5).any(|_| {
        idle = (0..64).map(|_| TcpStream::connect(server.address).unwrap()).collect();
        (0..10).any(|_| server.get("/metrics", "").0 == 503)
    });
    assert!(is_full);
    let start = Instant::now();
    while server.get("/metrics", "").0 != 200 {
        assert!(start.elapsed() < Duration::from_secs(10), "idle connections are closed");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(idle);
}

/// The address that a server says it listens on.
fn listening(machine: &Machine, arguments: &[&str]) -> String {
    let mut child = machine.vramfit(&[&["serve"], arguments].concat()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    line.split("http://")
        .nth(1)
        .unwrap_or_else(|| panic!("{arguments:?}: {line}"))
        .split('/')
        .next()
        .unwrap()
        .to_owned()
}

#[test]
fn it_listens_on_names_and_addresses_with_and_without_a_port() {
    let machine = Machine::with_gpus(1);
    for (listen, start) in [
        ("localhost", "127.0.0.1:"),
        ("localhost:0", "127.0.0.1:"),
        ("127.0.0.1:0", "127.0.0.1:"),
        ("127.0.0.2", "127.0.0.2:"),
    ] {
        let said = listening(&machine, &["--listen", listen, "--port", "0"]);
        assert!(said.starts_with(start) && !said.ends_with(":0"), "{listen}: {said}");
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(listening(&machine, &["--listen", &free.to_string()]), free.to_string());
    if TcpListener::bind("[::1]:0").is_ok() {
        for listen in ["::1", "[::1]"] {
            assert!(listening(&machine, &["--listen", listen, "--port", "0"]).starts_with("[::1]:"), "{listen}");
        }
        assert!(listening(&machine, &["--listen", "[::1]:0"]).starts_with("[::1]:"));
    }
    for bad in ["", "256.1.1.1", "localhost:99999", "[::1", "::1:x", "http://localhost", "no such name", "-"] {
        let output = machine.run(&["serve", &format!("--listen={bad}")]);
        assert_eq!(output.status.code(), Some(2), "{bad}");
        assert!(!output.stderr.is_empty());
    }
    let twice = machine.run(&["serve", "--listen", "127.0.0.1:1234", "--port", "4321"]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(String::from_utf8(twice.stderr).unwrap().contains("1234"));
    for open in ["0.0.0.0", "0.0.0.0:0", "[::]:0", ":0"] {
        let output = machine.run(&["serve", "--listen", open]);
        assert_eq!(output.status.code(), Some(2), "{open}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("--insecure"), "{open}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = machine.run(&["serve", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(busy.status.code(), Some(2));
    assert!(String::from_utf8(busy.stderr).unwrap().contains("hint: --port"));
}
