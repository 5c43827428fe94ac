//! Gives the module the stack that the program has: simulations call themselves more deeply than the default of 1 MiB allows.

use std::env;

const STACK: u32 = 8 << 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_FAMILY").as_deref() == Ok("wasm") {
        println!("cargo::rustc-link-arg-cdylib=-zstack-size={STACK}");
    }
}
