//! `model.toml`: the same program as real torch makes of the same layers, and clear refusals of what is none.

mod describe;
mod refusals;

use std::path::Path;

use describe::{Described, assert_same};
use vramfit_graph::model::Model;
use vramfit_readers::read_file;

fn read(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/toml").join(name);
    read_file(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The captures are made by `make.py`, which builds the modules with torch from the same file.
fn is_as_captured(name: &str, more_sizes: &[&[i64]]) {
    let (made, captured) = (read(&format!("{name}.toml")), read(&format!("{name}.vramfit")));
    let examples = |model: &Model| model.examples().expect("all sizes have examples");
    let (sizes, captured_sizes) = (examples(&made), examples(&captured));
    let made_at = |sizes| Described { model: &made, sizes, has_floats: true };
    assert_same(made_at(&sizes), Described { model: &captured, sizes: &captured_sizes, has_floats: true }, name);
    for sizes in more_sizes {
        assert_eq!(made.symbol_names(), captured.symbol_names(), "{name}");
        assert_same(made_at(sizes), Described { model: &captured, sizes, has_floats: true }, name);
    }
}

#[test]
fn a_perceptron_is_the_program_that_torch_runs() {
    is_as_captured("perceptron", &[&[1], &[333]]);
}

#[test]
fn convolutions_are_the_program_that_torch_runs() {
    is_as_captured("convolutions", &[&[3, 97, 130], &[2, 224, 224]]);
}

#[test]
fn a_decoder_is_the_program_that_torch_runs() {
    is_as_captured("decoder", &[&[7]]);
}

#[test]
fn a_network_for_signals_is_the_program_that_torch_runs() {
    is_as_captured("signal", &[]);
}

#[test]
fn recurrent_networks_are_the_program_that_torch_runs() {
    is_as_captured("recurrent", &[&[3, 17]]);
}

#[test]
fn transformers_are_the_program_that_torch_runs() {
    is_as_captured("transformer", &[&[2, 33]]);
}

#[test]
fn a_sequence_may_come_first() {
    is_as_captured("sequence-first", &[&[9, 5]]);
}
