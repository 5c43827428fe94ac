//! Sets the stack size on Windows to 8 MiB, as on other systems, instead of 1 MiB: the readers' depth limits need it.

use std::env;

const STACK: u32 = 8 << 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_CFG_WINDOWS").is_none() {
        return;
    }
    match env::var("CARGO_CFG_TARGET_ENV").as_deref() {
        Ok("msvc") => println!("cargo::rustc-link-arg-bins=/STACK:{STACK}"),
        _ => println!("cargo::rustc-link-arg-bins=-Wl,--stack,{STACK}"),
    }
}
