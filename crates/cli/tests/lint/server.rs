//! `vramfit lint --lsp`: a conversation in the language server protocol.

use assert_cmd::Command;
use serde_json::{Value, json};

use super::LEAK;

/// Sends messages, and returns the exit code and what came back.
fn talk(messages: &[Value]) -> (i32, Vec<Value>) {
    let input: String = messages
        .iter()
        .map(|message| {
            let text = message.to_string();
            format!("Content-Length: {}\r\n\r\n{text}", text.len())
        })
        .collect();
    let mut command = Command::cargo_bin("vramfit").unwrap();
    let output = command.args(["lint", "--lsp"]).write_stdin(input).output().unwrap();
    let mut rest = String::from_utf8(output.stdout).unwrap();
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let (header, after) = rest.split_once("\r\n\r\n").unwrap();
        let length: usize = header.strip_prefix("Content-Length: ").unwrap().parse().unwrap();
        answers.push(serde_json::from_str(&after[..length]).unwrap());
        rest = after[length..].to_string();
    }
    (output.status.code().unwrap(), answers)
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn notify(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn open(address: &str, text: &str) -> Value {
    let document = json!({"uri": address, "languageId": "python", "version": 1, "text": text});
    notify("textDocument/didOpen", json!({"textDocument": document}))
}

fn change(address: &str, version: i64, text: &str) -> Value {
    let document = json!({"uri": address, "version": version});
    notify("textDocument/didChange", json!({"textDocument": document, "contentChanges": [{"text": text}]}))
}

const FILE: &str = "file:///tmp/train.py";

#[test]
fn findings_come_and_go_with_what_is_typed() {
    let clean = LEAK.replace("total += loss", "total += loss.item()");
    let (code, answers) = talk(&[
        request(1, "initialize", json!({"processId": null, "rootUri": null, "capabilities": {}})),
        notify("initialized", json!({})),
        open(FILE, LEAK),
        change(FILE, 2, &clean),
        change(FILE, 3, "def broken(:\n"),
        notify("textDocument/didClose", json!({"textDocument": {"uri": FILE}})),
        request(2, "shutdown", Value::Null),
        notify("exit", Value::Null),
    ]);
    assert_eq!(code, 0);
    assert_eq!(answers[0]["result"]["capabilities"]["textDocumentSync"]["change"], 1);
    let found = &answers[1]["params"];
    assert_eq!((&found["uri"], &found["version"]), (&FILE.into(), &1.into()));
    let first = &found["diagnostics"][0];
    assert_eq!((&first["code"], &first["source"]), (&"VF001".into(), &"vramfit".into()));
    assert_eq!(first["range"], json!({"start": {"line": 8, "character": 8}, "end": {"line": 8, "character": 21}}));
    assert_eq!(answers[2]["params"]["diagnostics"], json!([]));
    let broken = &answers[3]["params"]["diagnostics"];
    assert_eq!(broken.as_array().unwrap().len(), 1);
    assert!(broken[0]["message"].as_str().unwrap().starts_with("not checked: "), "{broken}");
    assert_eq!(answers[4]["params"]["diagnostics"], json!([]));
    assert_eq!(answers[5], json!({"jsonrpc": "2.0", "id": 2, "result": null}));
}

#[test]
fn a_fix_is_offered_where_the_cursor_is() {
    let at = |line: u64| json!({"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}});
    let asked = |line: u64| json!({"textDocument": {"uri": FILE}, "range": at(line), "context": {"diagnostics": []}});
    let (_, answers) = talk(&[
        request(1, "initialize", json!({})),
        open(FILE, LEAK),
        request(2, "textDocument/codeAction", asked(8)),
        request(3, "textDocument/codeAction", asked(0)),
        notify("exit", Value::Null),
    ]);
    let action = &answers[2]["result"][0];
    assert_eq!(action["kind"], "quickfix");
    let end = json!({"line": 8, "character": 21});
    assert_eq!(action["edit"]["changes"][FILE], json!([{"range": {"start": end, "end": end}, "newText": ".detach()"}]));
    assert_eq!(answers[3]["result"], json!([]));
}

#[test]
fn columns_count_as_editors_do() {
    let text = LEAK.replace("        total += loss\n", "        note = '🙂'; total += loss\n");
    let (_, answers) = talk(&[request(1, "initialize", json!({})), open(FILE, &text), notify("exit", Value::Null)]);
    let range = &answers[1]["params"]["diagnostics"][0]["range"];
    // The face is two code units.
    assert_eq!(range["start"]["character"], 21);
}

#[test]
fn what_the_protocol_forbids_or_the_server_lacks_is_an_error() {
    let (code, answers) = talk(&[
        request(1, "textDocument/hover", json!({})),
        request(2, "initialize", json!({})),
        request(3, "textDocument/hover", json!({})),
        request(4, "initialize", json!({})),
        request(5, "shutdown", Value::Null),
        request(6, "textDocument/codeAction", json!({})),
    ]);
    let errors: Vec<i64> =
        [0, 2, 3, 5].iter().map(|&index: &usize| answers[index]["error"]["code"].as_i64().unwrap()).collect();
    assert_eq!(errors, [-32002, -32601, -32600, -32600]);
    // No `exit`: the editor went away.
    assert_eq!(code, 1);
}

#[test]
fn input_that_is_no_protocol_is_named() {
    let mut command = Command::cargo_bin("vramfit").unwrap();
    let output = command.args(["lint", "--lsp"]).write_stdin("import torch\n\n").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("Content-Length"));
}
