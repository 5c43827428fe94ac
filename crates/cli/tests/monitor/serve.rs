//! `vramfit serve` over real sockets.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::standin::{MIB, Machine};

pub struct Server {
    pub child: Child,
    pub address: SocketAddr,
}

impl Server {
    pub fn start(machine: &Machine, arguments: &[&str]) -> Server {
        let mut all = vec!["serve", "--port", "0", "-i", "0.1"];
        all.extend(arguments);
        let mut child = machine.vramfit(&all).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("{line}")).split('/').next().unwrap();
        let server = Server { child, address: address.parse().unwrap() };
        let start = Instant::now();
        while server.get("/api/gpus", "").0 == 503 && start.elapsed() < Duration::from_secs(10) {}
        server
    }

    pub fn exchange(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (code, head.to_owned(), body.to_owned())
    }

    pub fn get(&self, path: &str, headers: &str) -> (u16, String, String) {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn metrics_json_and_page_are_served_and_nothing_else() {
    let mut machine = Machine::with_gpus(2);
    machine.scenario["gpus"][0]["name"] = "a \"quoted\\name\"".into();
    machine.scenario["gpus"][0]["compute"] = json!([{ "pid": std::process::id(), "memory": 400 * MIB }]);
    machine.scenario["gpus"][1]["fan"] = Value::Null;
    machine.write();
    let server = Server::start(&machine, &[]);
    let (code, head, body) = server.get("/metrics", "");
    assert_eq!(code, 200);
    assert!(head.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(body.contains("vramfit_gpu_memory_used_bytes{gpu=\"0\",uuid=\"GPU-00000000-0000\",name=\"a \\\"quoted\\\\name\\\"\"} 1048576000\n"), "{body}");
    assert!(!body.contains("vramfit_gpu_fan_speed_ratio{gpu=\"1\""), "what is missing has no series");
    assert!(!body.contains("vramfit_process_"), "processes are behind a flag");
    assert!(body.ends_with("# EOF\n"));
    let (code, _, body) = server.get("/api/gpus?x=1", "");
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, value["gpus"].as_array().unwrap().len()), (200, 2));
    assert_eq!(server.get("/", "").0, 200);
    assert_eq!(server.get("/elsewhere", "").0, 404);
    assert_eq!(server.exchange("POST /api/gpus HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}").0, 405);
    let (code, _, body) = server.exchange("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((code, body.as_str()), (200, ""));
}

#[test]
fn a_foreign_host_name_is_refused() {
    let machine = Machine::with_gpus(1);
    let server = Server::start(&machine, &[]);
    assert_eq!(server.exchange("GET /api/gpus HTTP/1.1\r\nHost: evil.example\r\n\r\n").0, 403);
}

#[test]
fn another_address_needs_a_token_or_insecure() {
    let machine = Machine::with_gpus(1);
    let refused = machine.run(&["serve", "--listen", "0.0.0.0", "--port", "0"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--insecure"));
    let insecure = Server::start_anywhere(&machine, &["--listen", "0.0.0.0", "--insecure"]);
    assert_eq!(insecure.get("/metrics", "").0, 200);
}

impl Server {
    /// On all addresses; asked on this machine's own.
    fn start_anywhere(machine: &Machine, arguments: &[&str]) -> Server {
        let mut server = Server::start(machine, arguments);
        server.address.set_ip([127, 0, 0, 1].into());
        server
    }
}

#[test]
fn without_the_token_only_the_empty_page_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "correct-horse-battery\n").unwrap();
    let machine = Machine::with_gpus(1);
    let server = Server::start(&machine, &["--token-file", path.to_str().unwrap()]);
    assert_eq!(server.get("/", "").0, 200);
    let start = Instant::now();
    while server.get("/metrics", "Authorization: Bearer correct-horse-battery\r\n").0 == 503 {
        assert!(start.elapsed() < Duration::from_secs(10), "the first sample");
    }
    for data in ["/metrics", "/api/gpus", "/api/history"] {
        let (code, head, _) = server.get(data, "");
        assert_eq!(code, 401);
        assert!(head.contains("WWW-Authenticate: Bearer"));
        assert_eq!(server.get(data, "Authorization: Bearer correct-horse-batterz\r\n").0, 401);
        assert_eq!(server.get(data, "Authorization: Basic correct-horse-battery\r\n").0, 401);
        assert_eq!(server.get(data, "Authorization: bearer correct-horse-battery\r\n").0, 200);
    }
    std::fs::write(&path, "short\n").unwrap();
    let weak = Machine::with_gpus(1).run(&["serve", "--token-file", path.to_str().unwrap()]);
    assert_eq!(weak.status.code(), Some(2));
}

#[test]
fn a_hanging_driver_does_not_hang_the_server() {
    let mut machine = Machine::with_gpus(1);
    let server = Server::start(&machine, &["--per-process"]);
    machine.scenario["faults"] = json!([{ "function": "nvmlDeviceGetPowerUsage", "seconds": 60 }]);
    machine.write();
    std::thread::sleep(Duration::from_millis(400));
    let start = Instant::now();
    assert_eq!(server.get("/metrics", "").0, 200);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let start = Instant::now();
    while !server.get("/metrics", "").2.contains("vramfit_hanging_calls 1\n") {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(100));
    }
}
