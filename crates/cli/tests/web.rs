//! `vramfit web` over real sockets: the API answers as the command line does, within limits, and refuses the rest.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let program = assert_cmd::cargo::cargo_bin("vramfit");
        let mut child = Command::new(program)
            .args(["web"])
            .args(arguments)
            .env("XDG_CONFIG_HOME", std::env::temp_dir().join("vramfit-no-such-folder"))
            .env_remove("VRAMFIT_TOKEN")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("{line}")).split('/').next().unwrap();
        Server { child, address: address.parse().unwrap() }
    }

    fn exchange(&self, request: &[u8]) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The server may refuse before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = String::new();
        // A connection beyond the limit may be reset.
        let _ = stream.read_to_string(&mut answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (code, head.to_owned(), body.to_owned())
    }

    fn get_with(&self, path: &str, headers: &str) -> (u16, Value) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address);
        let (code, _, body) = self.exchange(request.as_bytes());
        (code, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.get_with(path, "")
    }

    fn upload(&self, name: &str, bytes: &[u8]) -> (u16, Value) {
        let head = format!(
            "POST /api/models?name={name} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            bytes.len()
        );
        let (code, _, body) = self.exchange(&[head.as_bytes(), bytes].concat());
        (code, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer without the keys that only the API has.
fn report(mut answer: Value) -> Value {
    for key in ["timeline", "command", "plan_command", "built_in"] {
        answer.as_object_mut().unwrap().remove(key);
    }
    answer
}

#[test]
fn the_api_answers_as_the_command_line_does() {
    let server = Server::start(&[]);
    let (code, answer) = server.get("/api/estimate?model=gpt2&batch=16&gpu=RTX+3060&amp=bf16&ema=true");
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["command"], "vramfit estimate gpt2 --batch 16 --gpu 'RTX 3060' --amp bf16 --ema");
    let levels = answer["timeline"]["allocated"].as_array().unwrap();
    assert_eq!(levels.iter().max_by_key(|level| level.as_u64()), Some(&answer["peak_allocated"]));
    let (_, same) = common::json(&["estimate", "gpt2", "--batch", "16", "--gpu", "RTX 3060", "--amp", "bf16", "--ema"]);
    assert_eq!(report(answer), same);
    let (code, answer) = server.get("/api/max-batch?model=gpt2&gpu=RTX+3060");
    assert_eq!((code, answer), (200, common::good_json(&["max-batch", "gpt2", "--gpu", "RTX 3060"])));
    let (code, answer) = server.get("/api/plan?model=resnet18&batch=64&vram=3GiB");
    let (_, same) = common::json(&["plan", "resnet18", "--batch", "64", "--vram", "3GiB"]);
    assert_eq!((code, report(answer)), (200, same));
    assert_eq!(server.get("/api/models"), (200, common::good_json(&["models"])));
    assert_eq!(server.get("/api/gpus"), (200, common::good_json(&["catalogue"])));
    assert_eq!(server.get("/api/options").0, 200);
}

#[test]
fn an_uploaded_file_is_a_model_and_files_of_the_server_are_not() {
    let server = Server::start(&[]);
    let bytes = std::fs::read(common::capture("bert-small")).unwrap();
    let (code, model) = server.upload("bert-small.vramfit", &bytes);
    assert_eq!((code, &model["file"]), (200, &Value::from("bert-small.vramfit")), "{model}");
    let name = model["name"].as_str().unwrap().replace('/', "%2F");
    let (code, answer) = server.get(&format!("/api/estimate?model={name}&batch=4"));
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["command"], "vramfit estimate bert-small.vramfit --batch 4");
    let same = common::good_json(&["estimate", &common::capture("bert-small"), "--batch", "4"]);
    assert_eq!(answer["peak_reserved"], same["peak_reserved"]);
    let (code, answer) =
        server.upload("model.toml", b"input = [\"batch\", 3]\nsizes = { batch = 2 }\nlayers = [\"Linear(3, 4)\"]\n");
    assert_eq!((code, &answer["parameters"]), (200, &Value::from(16)), "{answer}");
    for (name, bytes) in
        [("a.vramfit", &b"nonsense"[..]), ("model.toml", b"\xff"), ("config.json", b"{}"), ("x.pt2", b"PK\x03\x04")]
    {
        let (code, answer) = server.upload(name, bytes);
        assert!(
            code == 400 && answer["error"].as_str().is_some_and(|text| text.contains(name)),
            "{name}: {code} {answer}"
        );
    }
    for name in ["", "..%2Fx", "%2Fetc%2Fpasswd", "a%5Cb", "%00", "%zz"] {
        assert_eq!(server.upload(name, b"{}").0, 400, "{name}");
    }
    let own = common::capture("bert-small").replace('/', "%2F");
    for path in [own.as_str(), "/etc/passwd", "..%2F..%2FCargo.toml", "Cargo.toml", "file:0000000000000000/x"] {
        let (code, answer) = server.get(&format!("/api/estimate?model={path}"));
        assert!(code == 400 || code == 404, "{path}: {code} {answer}");
    }
    for path in ["/../../etc/passwd", "/etc/passwd", "/page.js/../../x", "/%2e%2e/", "/api/", "/api/estimate/", "//"] {
        assert_eq!(server.get(path).0, 404, "{path}");
    }
}

#[test]
fn bad_questions_are_refused_with_what_was_found_and_needed() {
    let server = Server::start(&[]);
    for (query, part) in [
        ("", "found no `model`"),
        ("model=gpt3", "gpt3"),
        ("model=gpt2&batch=0", "batch"),
        ("model=gpt2&batch=99999999999999999999", "--batch"),
        ("model=gpt2&html=/tmp/x", "html"),
        ("model=gpt2&cudnn=/tmp/x", "cudnn"),
        ("model=gpt2&gpu=Voodoo", "Voodoo"),
        ("model=gpt2&alloc-conf=nonsense", "nonsense"),
        ("model=gpt2&steps=100000", "--steps"),
        ("model=gpt2&steps=100&accumulate=1000", "found 100000 micro-batches"),
        ("model=gpt2&grad=true", "--grad"),
    ] {
        let (code, answer) = server.get(&format!("/api/estimate?{query}"));
        let text = answer["error"].as_str().unwrap_or_else(|| panic!("{query}: {answer}"));
        assert!(code == 400 && text.contains(part) && !text.contains("panicked"), "{query}: {code} {text}");
    }
    assert_eq!(server.get("/api/plan?model=gpt2").0, 400, "a plan needs something to fit into");
    assert_eq!(server.get("/api/plan?model=gpt2&gpu=RTX+3060&mode=eval").0, 400);
    assert_eq!(server.get("/api/estimate?model=%ff").0, 400);
}

#[test]
fn other_hosts_and_pages_of_other_sites_are_refused() {
    let server = Server::start(&[]);
    let path = "/api/estimate?model=resnet18";
    let code = |headers: &str| server.get_with(path, headers).0;
    assert_eq!(code(""), 200);
    assert_eq!(code(&format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", server.address)), 200);
    for foreign in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        assert_eq!(code(foreign), 403, "{foreign}");
    }
    let by_name =
        |host: &str, path: &str| server.exchange(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).0;
    assert_eq!(
        (by_name("evil.example", path), by_name("evil.example", "/"), by_name("localhost", path)),
        (403, 403, 200)
    );
    let page = format!("GET / HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: cross-site\r\n\r\n", server.address);
    let (code, head, body) = server.exchange(page.as_bytes());
    assert_eq!(code, 200, "a link from elsewhere leads to the page");
    assert!(head.contains("default-src 'none'") && body.contains("<title>"), "{head}");
    assert!(!body.contains("http://") && !body.contains("https://"), "the page loads nothing from elsewhere");
}

#[test]
fn methods_and_bodies_are_limited() {
    let server = Server::start(&[]);
    let host = server.address;
    let code = |request: String| server.exchange(request.as_bytes()).0;
    for (method, path, expected) in [
        ("POST", "/api/estimate?model=gpt2", 405),
        ("PUT", "/api/models", 405),
        ("DELETE", "/api/models?name=x", 405),
        ("POST", "/", 405),
        ("BREW", "/", 501),
        ("OPTIONS", "/api/models", 200),
        ("HEAD", "/api/models", 200),
    ] {
        assert_eq!(
            code(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n")),
            expected,
            "{method} {path}"
        );
    }
    let upload =
        |headers: &str| code(format!("POST /api/models?name=x.json HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n{{}}"));
    assert_eq!(upload("Content-Length: 99999999999\r\n"), 413);
    assert_eq!(upload(&format!("Content-Length: {}\r\n", (16 << 20) + 1)), 413);
    assert_eq!(upload(""), 411);
    assert_eq!(upload("Transfer-Encoding: chunked\r\n"), 411);
    assert_eq!(upload("Content-Length: 2\r\nContent-Length: 2\r\n"), 400);
    assert_eq!(upload("Content-Length: two\r\n"), 400);
    assert_eq!(upload("Origin: http://evil.example\r\nContent-Length: 2\r\n"), 403);
    // Nothing of this keeps it from answering.
    assert_eq!(server.get("/api/estimate?model=resnet18").0, 200);
}

#[test]
fn a_slow_search_ends_for_others_and_a_flood_is_answered_or_told_to_wait() {
    let server = Server::start(&[]);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        // In a flood some connections are closed or refused for now.
        let patient = || {
            let ask = || server.get("/api/plan?model=bert-base&vram=4GiB&batch=8&seq=128").0;
            std::iter::repeat_with(ask).take(500).find(|code| ![503, 0].contains(code))
        };
        let slow = scope.spawn(patient);
        let many: Vec<_> = (1..=120)
            .map(|batch| {
                let server = &server;
                scope.spawn(move || server.get(&format!("/api/estimate?model=resnet18&batch={batch}")).0)
            })
            .collect();
        let codes: Vec<u16> = many.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(codes.iter().all(|code| [200, 503, 0].contains(code)), "{codes:?}");
        assert!(codes.iter().filter(|code| **code == 200).count() > 20, "{codes:?}");
        assert_eq!(slow.join().unwrap(), Some(200));
    });
    assert!(begun.elapsed() < Duration::from_secs(90));
    assert_eq!(server.get("/api/estimate?model=resnet18").0, 200);
}

#[test]
fn an_open_address_needs_a_token_and_asks_for_it() {
    let refusal = common::refusal(&["web", "--listen", "0.0.0.0"]);
    assert!(refusal.contains("a token is needed") && refusal.contains("--token-file"), "{refusal}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "correct-horse-battery\n").unwrap();
    let server = Server::start(&["--token-file", path.to_str().unwrap()]);
    assert_eq!(server.get("/").0, 200, "the page holds no data");
    assert_eq!(server.get("/api/models").0, 401);
    assert_eq!(server.upload("x.json", b"{}").0, 401);
    assert_eq!(server.get_with("/api/models", "Authorization: Bearer correct-horse-battery\r\n").0, 200);
    assert!(common::refusal(&["web", "--port", "1", "--listen", "127.0.0.1:2"]).contains("port"));
}

#[test]
fn every_setting_has_a_name_in_both_languages() {
    let server = Server::start(&[]);
    let (_, options) = server.get("/api/options");
    let (_, _, script) =
        server.exchange(format!("GET /page.js HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).as_bytes());
    for option in options["options"].as_array().unwrap() {
        let name = option["name"].as_str().unwrap();
        let has_own_control =
            ["batch", "seq", "dtype", "amp", "optimizer", "checkpoint", "accumulate", "lora", "quantize", "gpu"]
                .contains(&name);
        let is_named = script.contains(&format!("\"{name}\": [\"")) || script.contains(&format!(" {name}: [\""));
        assert!(has_own_control || is_named, "page/words.js has no name for --{name}");
        let help = script.split("const HELP = {").nth(1).unwrap().split("};").next().unwrap();
        let is_explained = help.contains(&format!("\"{name}\": \"")) || help.contains(&format!(" {name}: \""));
        assert!(has_own_control || is_explained, "page/help-zh.js has no words about --{name}");
    }
    let english = script.split("  zh: {").next().unwrap();
    let chinese = script.split("  zh: {").nth(1).unwrap().split("const NAMES").next().unwrap();
    let keys = |text: &str| {
        let mut keys: Vec<String> = Vec::new();
        for part in text.split(": \"").map(|part| part.trim_end()) {
            keys.push(part.rsplit([' ', ',', '\n']).next().unwrap_or_default().trim_matches('"').to_owned());
        }
        keys.pop();
        keys.sort();
        keys
    };
    assert_eq!(keys(english.split("  en: {").nth(1).unwrap()), keys(chinese));
}

#[test]
fn a_part_has_the_colour_that_it_has_on_the_page_of_estimate() {
    let drawing = include_str!("../../web/src/calculator/page/drawing.js");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let arguments = ["estimate", "llama-1b", "--gpu", "A100 80GB", "--parallel", "fsdp2", "--world", "4", "--html"];
    let program = assert_cmd::cargo::cargo_bin("vramfit");
    let out = Command::new(program).args(arguments).arg(&page).env("VRAMFIT_CUDNN", "off").output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let page = std::fs::read_to_string(page).unwrap();
    let swatches =
        page.split("<i class=\"swatch\" style=\"--c:var(").skip(1).filter_map(|rest| rest.split_once(")\"></i>"));
    let mut count = 0;
    for (color, rest) in swatches.filter(|(_, rest)| rest.contains("</th>")) {
        let name = rest.split('<').next().unwrap().trim_end_matches(", unused").replace("CUDA ", "");
        // Small parts share a row, each with its size.
        let name = name.split(|c: char| c.is_ascii_digit()).next().unwrap().trim_end();
        assert!(drawing.contains(&format!("[\"{name}\", \"{color}\"]")), "{name} {color}");
        count += 1;
    }
    assert!(count >= 9, "{count} parts");
}
