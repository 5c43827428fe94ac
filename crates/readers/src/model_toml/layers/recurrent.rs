//! `LSTM`, `GRU` and `RNN`; what goes on is the output, without the states.

use super::super::arguments::{Given, Kind, Made, boolean, float, int};
use super::super::call::{Arguments, LayerCall};
use super::super::dimension::{Dimension, product};
use super::super::error::{Fault, SketchError};
use super::super::node::Node;
use super::super::tensor::{Tensor, drop_in_order};
use vramfit_graph::model::Argument;

pub(super) const NAMES: [&str; 3] = ["LSTM", "GRU", "RNN"];

pub(super) fn build(call: &LayerCall, location: &str) -> Option<Result<Node, SketchError>> {
    Some(recurrent(call, location))
}

fn recurrent(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let names = match call.class.as_str() {
        "RNN" => &[
            "input_size",
            "hidden_size",
            "num_layers",
            "nonlinearity",
            "bias",
            "batch_first",
            "dropout",
            "bidirectional",
        ][..],
        _ => &["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"][..],
    };
    let arguments = Arguments::new(call, location, names)?;
    let (inputs, hidden) = (arguments.count("input_size")?, arguments.count("hidden_size")?);
    let layers = arguments.count_or("num_layers", 1)?;
    if layers > 1000 {
        return Err(arguments.unfit("num_layers", "at most 1000"));
    }
    let (bias, batch_first) = (arguments.bool_or("bias", true)?, arguments.bool_or("batch_first", false)?);
    let (dropout, is_bidirectional) = (arguments.float_or("dropout", 0.0)?, arguments.bool_or("bidirectional", false)?);
    let (operator, gates, is_lstm) = match call.class.as_str() {
        "LSTM" => ("aten.lstm.input", 4, true),
        "GRU" => ("aten.gru.input", 3, false),
        _ => match arguments.text_or("nonlinearity", "tanh")?.as_str() {
            "tanh" => ("aten.rnn_tanh.input", 1, false),
            "relu" => ("aten.rnn_relu.input", 1, false),
            _ => return Err(arguments.unfit("nonlinearity", "'tanh' or 'relu'")),
        },
    };
    let directions = 1 + i64::from(is_bidirectional);
    let mut node = Node::new(&call.class, move |run, input| {
        let last = input.shape().last().and_then(Dimension::known);
        if input.shape().len() != 3 || last != Some(inputs) {
            let sizes = if batch_first { "batch, seq" } else { "seq, batch" };
            return Err(Fault::Needed(format!("[{sizes}, {inputs}] is needed")));
        }
        let batch = input.shape()[usize::from(!batch_first)].clone();
        let state: Vec<Dimension> = vec![(layers * directions).into(), batch.clone(), hidden.into()];
        let zeros = || {
            let given = vec![
                Given::Ints(state.clone()),
                Given::Plain(Argument::Dtype(input.dtype())),
                Given::Plain(Argument::None),
                Given::Plain(Argument::Device { is_host: false }),
                boolean(false),
            ];
            let mut made = Made::contiguous(state.clone());
            made.kind = Kind::Exactly(input.dtype());
            run.one("aten.zeros.default", given, made)
        };
        let states: Vec<Tensor> = (0..1 + usize::from(is_lstm)).map(|_| zeros()).collect();
        let weights = run.node.parameters.iter().filter_map(|(name, _)| run.parameter(name)).collect();
        let given = vec![
            Given::Tensor(input.clone()),
            if is_lstm { Given::Tensors(states.clone()) } else { Given::Tensor(states[0].clone()) },
            Given::Tensors(weights),
            boolean(bias),
            int(layers),
            float(dropout),
            boolean(run.is_training()),
            boolean(is_bidirectional),
            boolean(batch_first),
        ];
        let width = Dimension::Known(hidden * directions);
        let mut shape = input.shape().to_vec();
        shape[2] = width.clone();
        // The kernel works with the sequence first; a batch that comes first is a view of that.
        let strides = batch_first.then(|| vec![width.clone(), product(&[width, batch]), 1.into()]);
        let mut made = vec![Made { strides, ..Made::contiguous(shape) }];
        made.extend(states.iter().map(|_| Made::contiguous(state.clone())));
        let mut results = run.tape.call(operator, given, made);
        drop_in_order(states);
        while results.len() > 1 {
            drop(results.pop());
        }
        Ok(results.swap_remove(0))
    });
    for layer in 0..layers {
        for direction in 0..directions {
            let ending = format!("l{layer}{}", if direction == 1 { "_reverse" } else { "" });
            let width = if layer == 0 { inputs } else { hidden * directions };
            node = node
                .with_parameter(&format!("weight_ih_{ending}"), &[gates * hidden, width])
                .with_parameter(&format!("weight_hh_{ending}"), &[gates * hidden, hidden])
                .with_parameter_if(bias, &format!("bias_ih_{ending}"), &[gates * hidden])
                .with_parameter_if(bias, &format!("bias_hh_{ending}"), &[gates * hidden]);
        }
    }
    Ok(node)
}
