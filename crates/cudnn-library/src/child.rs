//! The child process seen from outside: questions with a deadline, and the reason why there is no answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{self, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use vramfit_cudnn::convolution::CudnnVersion;

use crate::protocol::{Greeting, Question, Reply};

/// How long to wait for the child process.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// For loading the library.
    pub loading: Duration,
    /// For an answer.
    pub answering: Duration,
}

impl Default for Deadlines {
    /// Loading reads hundreds of megabytes, maybe from a slow disk. An answer usually takes milliseconds.
    fn default() -> Deadlines {
        Deadlines { loading: Duration::from_secs(60), answering: Duration::from_secs(30) }
    }
}

/// How long to wait for the last words of a process that has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How much of them is read.
const LAST_WORDS_BYTES: u64 = 4096;

/// A running child process that has loaded the library.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may hang, so it is not asked to end. Both fail if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Child {
    /// Starts it and waits until the library is loaded, or says why it is not.
    pub(crate) fn start(mut command: Command, limit: Duration) -> Result<(Child, CudnnVersion), String> {
        // cuDNN can write its log to the standard output, among the answers.
        command.env_remove("CUDNN_LOGDEST_DBG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("the process to load it does not start: {error}"))?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err("the process to load it has no pipes".to_owned());
        };
        let mut child = Child { process, input, lines: lines(output), errors: all(errors) };
        match child.read(limit)? {
            Greeting::Ready(version) => Ok((child, CudnnVersion(version))),
            Greeting::Failed(reason) => Err(reason),
        }
    }

    /// The answer to a question.
    pub(crate) fn ask(&mut self, question: &Question, limit: Duration) -> Result<Reply, String> {
        let mut text = serde_json::to_string(question).map_err(|error| error.to_string())?;
        text.push('\n');
        match self.input.write_all(text.as_bytes()) {
            Ok(()) => self.read(limit),
            Err(_) => Err(self.ending()),
        }
    }

    fn read<T: DeserializeOwned>(&mut self, limit: Duration) -> Result<T, String> {
        let line = self.lines.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("no answer within {limit:?}"),
            RecvTimeoutError::Disconnected => self.ending(),
        })?;
        serde_json::from_str(&line).map_err(|_| "what it answers is not an answer".to_owned())
    }

    /// How the process ended, with the last line of its error output.
    fn ending(&mut self) -> String {
        // It has closed its output, but may go on: nothing else is expected of it.
        let words = self.errors.recv_timeout(LAST_WORDS).unwrap_or_default();
        let _ = self.process.kill();
        let status = self.process.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let words = words.lines().map(|line| line.replace(char::is_control, "")).rfind(|line| !line.trim().is_empty());
        match words {
            Some(line) => format!("the process that loaded it ended, {status}: {}", line.trim()),
            None => format!("the process that loaded it ended, {status}"),
        }
    }
}

/// The lines of a pipe, one by one.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The beginning of what a pipe has, once it is closed. What comes after that is read and dropped, so that the writer does not wait.
fn all(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.by_ref().take(LAST_WORDS_BYTES).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}
