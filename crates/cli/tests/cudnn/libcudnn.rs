//! A `libcudnn.so.9` for tests: one plan for every convolution, with a workspace of one MiB. `CUDNN_STANDIN` names another
//! behaviour.

#![allow(non_snake_case, reason = "cuDNN's own names")]

use std::ffi::c_void;

const BAD_PARAMETER: i32 = 2000;
const EXECUTION_PLAN: usize = 5;
const DEVICE_PROPERTIES: usize = 38;
const HEURISTICS_RESULTS: i32 = 202;
const CONFIG_ENGINE: i32 = 300;
const CONFIG_WORKSPACE: i32 = 303;
const PLAN_WORKSPACE: i32 = 402;

fn is(behaviour: &str) -> bool {
    std::env::var("CUDNN_STANDIN").is_ok_and(|named| named == behaviour)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetVersion() -> usize {
    match () {
        () if is("old") => 8907,
        () if is("refuses devices") => 90_100,
        () if is("is of torch 2.8") => 91_002,
        () => 91_900,
    }
}

/// A descriptor is its kind.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendCreateDescriptor(kind: i32, descriptor: *mut *mut c_void) -> i32 {
    // SAFETY: cuDNN's contract: there is room for a pointer.
    unsafe { descriptor.write(std::ptr::without_provenance_mut(kind as usize)) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendDestroyDescriptor(_: *mut c_void) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendFinalize(descriptor: *mut c_void) -> i32 {
    match descriptor.addr() {
        EXECUTION_PLAN if is("has no plans") => BAD_PARAMETER,
        EXECUTION_PLAN if is("aborts") => {
            eprintln!("Could not load library libcublasLt.so.13");
            std::process::abort()
        }
        EXECUTION_PLAN if is("writes") => {
            println!("some line of a log");
            0
        }
        DEVICE_PROPERTIES if is("refuses devices") => BAD_PARAMETER,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendSetAttribute(_: *mut c_void, _: i32, _: i32, _: i64, _: *const c_void) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendGetAttribute(
    _: *mut c_void,
    name: i32,
    _: i32,
    _: i64,
    count: *mut i64,
    values: *mut c_void,
) -> i32 {
    let has_one = matches!(name, HEURISTICS_RESULTS | CONFIG_ENGINE | CONFIG_WORKSPACE | PLAN_WORKSPACE);
    // SAFETY: cuDNN's contract: there is room for the count, and for an integer where one is asked for.
    unsafe {
        count.write(i64::from(has_one));
        if matches!(name, CONFIG_WORKSPACE | PLAN_WORKSPACE) {
            values.cast::<i64>().write(1 << 20);
        }
    }
    0
}
