//! The calculator's engine for a page without a server: a WebAssembly module that a Web Worker calls.
//!
//! 1. `room(length)` gives the address of so many bytes, for the path and query of a request and, behind them, an uploaded file.
//! 2. `ask(length)` or `upload(length)` answers; `length` is that of path and query. It returns the status of the response.
//! 3. `answer()` and `answer_length()` say where the answer's JSON is, until the next request.
//!
//! The module imports one function, `page.milliseconds`, a clock for searches that must end; `zip` adds imports of its random numbers, which are
//! never called. A panic traps; the module is of no use
//! afterwards, and the worker makes another.

#![cfg(target_family = "wasm")]
#![allow(
    unsafe_code,
    reason = "for the attributes of exported functions and for the imported clock, which is safe to call"
)]

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use vramfit_catalogue::Catalogue;
use vramfit_engine::calculator::Engine;
use vramfit_engine::cudnn::BuiltInTables;
use vramfit_engine::known_gpus::KnownGpus;
use vramfit_web::calculator::{Body, Response, respond};

/// Which page it belongs to: `vramfit web --export` looks for these words in the module.
static VERSION: &str = concat!("vramfit engine for browsers, version ", env!("CARGO_PKG_VERSION"), ";");

static ENGINE: LazyLock<Result<Engine, String>> = LazyLock::new(|| {
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    Engine::new(KnownGpus::new(catalogue, None), Box::new(BuiltInTables)).map_err(|failure| failure.to_string())
});
static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<String> = Mutex::new(String::new());

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    safe fn milliseconds() -> f64;
}

/// Room for a request.
#[unsafe(no_mangle)]
pub extern "C" fn room(length: usize) -> *mut u8 {
    let mut request = locked(&REQUEST);
    request.clear();
    request.resize(length, 0);
    request.as_mut_ptr()
}

/// Answers the request of which the first `length` bytes are path and query.
#[unsafe(no_mangle)]
pub extern "C" fn ask(length: usize) -> u32 {
    work_out(length, false)
}

/// The same for a request that uploads the rest of its bytes.
#[unsafe(no_mangle)]
pub extern "C" fn upload(length: usize) -> u32 {
    work_out(length, true)
}

/// The bytes of the last answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    locked(&ANSWER).as_ptr()
}

/// How many they are.
#[unsafe(no_mangle)]
pub extern "C" fn answer_length() -> usize {
    locked(&ANSWER).len()
}

/// The version's bytes.
#[unsafe(no_mangle)]
pub extern "C" fn version() -> *const u8 {
    VERSION.as_ptr()
}

/// How many they are.
#[unsafe(no_mangle)]
pub extern "C" fn version_length() -> usize {
    VERSION.len()
}

fn work_out(length: usize, is_upload: bool) -> u32 {
    let mut request = std::mem::take(&mut *locked(&REQUEST));
    let file = request.split_off(length.min(request.len()));
    let body = if is_upload { Body::File(file) } else { Body::None };
    let Response { status, json } = match &*ENGINE {
        Ok(engine) => respond(engine, &String::from_utf8_lossy(&request), body, || milliseconds()),
        Err(why) => Response { status: 500, json: format!("{{\"error\":{why:?}}}") },
    };
    *locked(&ANSWER) = json;
    u32::from(status)
}

fn locked<T>(value: &'static Mutex<T>) -> MutexGuard<'static, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
