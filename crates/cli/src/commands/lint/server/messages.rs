//! Messages of the language server protocol: a header with the length, then JSON.

use std::io::{BufRead, Read, Write};

use serde_json::Value;

use crate::failure::Failure;

/// More than any source has, and a limit for a broken client.
const MAX_LENGTH: u64 = 256 << 20;

/// The next message; `None` at the end of the input.
pub fn read(input: &mut impl BufRead) -> Result<Option<Value>, Failure> {
    let mut length: Option<u64> = None;
    loop {
        let mut line = String::new();
        let read = input.take(1 << 16).read_line(&mut line).map_err(|error| broken(&error))?;
        if read == 0 {
            return Ok(None);
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    let Some(length) = length else {
        return Err(Failure::new(
            "standard input: a message without a `Content-Length` header; an editor starts `--lsp`",
        ));
    };
    if length > MAX_LENGTH {
        return Err(Failure::new(format!(
            "standard input: a message of {length} bytes; at most {MAX_LENGTH} are taken"
        )));
    }
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes).map_err(|error| broken(&error))?;
    if (bytes.len() as u64) < length {
        return Ok(None);
    }
    let message = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(format!("standard input: a message that is no JSON: {error}")))?;
    Ok(Some(message))
}

/// Sends a message.
pub fn write(output: &mut impl Write, message: &Value) -> Result<(), Failure> {
    let text = message.to_string();
    write!(output, "Content-Length: {}\r\n\r\n{text}", text.len())
        .and_then(|()| output.flush())
        .map_err(|error| Failure::new(format!("standard output: {error}")))
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::new(format!("standard input: {error}"))
}
