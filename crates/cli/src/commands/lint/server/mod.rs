//! `vramfit lint --lsp`: a language server. It checks each open Python file whenever it changes, publishes the findings as
//! diagnostics, and offers their fixes as code actions.

mod answers;
mod messages;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vramfit_lint::files::{FileReport, Options, check_text};
use vramfit_lint::settings::Settings;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;

/// Error codes of JSON-RPC and of the protocol.
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_REQUEST: i32 = -32600;
const NOT_INITIALIZED: i32 = -32002;

/// Serves until the editor says `exit`, or closes standard input.
pub fn run(options: Options) -> Result<ExitStatus, Failure> {
    // The parser and the interpreter recurse into nested code.
    let worker = std::thread::Builder::new().stack_size(64 << 20);
    let worker = worker.spawn(move || {
        let mut server = Server::new(options);
        server.serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock())
    });
    worker
        .map_err(|error| Failure::new(format!("a thread could not be started: {error}")))?
        .join()
        .map_err(|_| Failure::new("the language server panicked"))?
}

/// Where the conversation is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Running,
    ShutDown,
}

struct Server {
    options: Options,
    state: State,
    /// The last report of each open file, by its address.
    open: HashMap<String, FileReport>,
}

impl Server {
    fn new(options: Options) -> Server {
        Server { options, state: State::New, open: HashMap::new() }
    }

    fn serve(&mut self, input: &mut impl BufRead, output: &mut impl Write) -> Result<ExitStatus, Failure> {
        while let Some(message) = messages::read(input)? {
            let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
            if method == "exit" {
                return Ok(if self.state == State::ShutDown { ExitStatus::Good } else { ExitStatus::Bad });
            }
            let parameters = message.get("params").unwrap_or(&Value::Null);
            let answer = match message.get("id") {
                Some(id) if !method.is_empty() => Some(match self.request(method, parameters) {
                    Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    Err((code, text)) => {
                        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
                    }
                }),
                // The answer to a request of ours: there are none.
                Some(_) => None,
                None => self.notification(method, parameters),
            };
            if let Some(answer) = answer {
                messages::write(output, &answer)?;
            }
        }
        // The editor is gone without a word.
        Ok(ExitStatus::Bad)
    }

    fn request(&mut self, method: &str, parameters: &Value) -> Result<Value, (i32, String)> {
        match (method, self.state) {
            ("initialize", State::New) => {
                self.state = State::Running;
                Ok(answers::capabilities())
            }
            ("initialize", _) => Err((INVALID_REQUEST, "the server is initialized already".into())),
            (_, State::New) => Err((NOT_INITIALIZED, format!("`{method}` before `initialize`"))),
            (_, State::ShutDown) => Err((INVALID_REQUEST, format!("`{method}` after `shutdown`"))),
            ("shutdown", State::Running) => {
                self.state = State::ShutDown;
                Ok(Value::Null)
            }
            ("textDocument/codeAction", State::Running) => {
                let address = address(parameters);
                let report = self.open.get(address);
                Ok(report.map_or_else(|| json!([]), |report| answers::actions(report, address, &parameters["range"])))
            }
            _ => Err((METHOD_NOT_FOUND, format!("`{method}` is not supported"))),
        }
    }

    /// Handles a notification; opening, changing and closing a file are answered by its diagnostics.
    fn notification(&mut self, method: &str, parameters: &Value) -> Option<Value> {
        if self.state != State::Running {
            return None;
        }
        let address = address(parameters).to_string();
        let text = match method {
            "textDocument/didOpen" => parameters.pointer("/textDocument/text"),
            // Whole texts are asked for, so the last change is the file.
            "textDocument/didChange" => parameters["contentChanges"].as_array()?.last()?.get("text"),
            "textDocument/didClose" => {
                self.open.remove(&address);
                return Some(answers::diagnostics(None, &address, None));
            }
            _ => None,
        };
        let text = text?.as_str()?;
        let report = self.check(&path_of(&address), text);
        let version = parameters.pointer("/textDocument/version").and_then(Value::as_i64);
        let answer = answers::diagnostics(Some(&report), &address, version);
        self.open.insert(address, report);
        Some(answer)
    }

    fn check(&self, path: &Path, text: &str) -> FileReport {
        // A broken pyproject.toml must not silence the editor.
        let settings = Settings::find(path).unwrap_or_default();
        check_text(path, text.as_bytes(), &settings, &self.options)
    }
}

fn address(parameters: &Value) -> &str {
    parameters.pointer("/textDocument/uri").and_then(Value::as_str).unwrap_or_default()
}

/// The path in a `file://` address. Another address, such as that of a new file, serves as a name.
fn path_of(address: &str) -> PathBuf {
    let Some(encoded) = address.strip_prefix("file://") else { return PathBuf::from(address.replace(':', "_")) };
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    let path = String::from_utf8_lossy(&bytes).into_owned();
    // `/C:/folder` on Windows.
    let drive = path.as_bytes();
    let has_drive = drive.len() > 2 && drive[0] == b'/' && drive[2] == b':';
    PathBuf::from(if has_drive { path[1..].to_string() } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_becomes_a_path() {
        assert_eq!(path_of("file:///home/me/a%20b/train.py"), PathBuf::from("/home/me/a b/train.py"));
        assert_eq!(path_of("file:///C%3A/me/train.py"), PathBuf::from("C:/me/train.py"));
        assert_eq!(path_of("file:///100%"), PathBuf::from("/100%"));
        assert_eq!(path_of("untitled:1"), PathBuf::from("untitled_1"));
    }
}
