//! From a tree of modules to a model: tables of modules and weights, then one run for each precision and mode.

use std::cell::RefCell;
use std::rc::Rc;

use super::SketchError;
use super::dimension::Dimension;
use super::document::{InputSize, Sketch};
use super::node::{Node, Run};
use super::tables::Tables;
use super::tape::Tape;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{
    Assumed, Example, FineTuned, Input, Mode, Model, Module, Origin, Precision, Symbol, TensorId, Variant, Weight,
};

const PRECISIONS: [Precision; 6] = [
    Precision::Cast(Dtype::Float32),
    Precision::AsBuilt,
    Precision::Cast(Dtype::Bfloat16),
    Precision::Cast(Dtype::Float16),
    Precision::Autocast(Dtype::Bfloat16),
    Precision::Autocast(Dtype::Float16),
];
const MODES: [Mode; 3] = [Mode::Train, Mode::Eval, Mode::EvalGrad];

/// The tables that the tree gives.
#[derive(Default)]
struct Weights {
    modules: Vec<Module>,
    parameters: Vec<Weight>,
    buffers: Vec<Weight>,
}

impl Weights {
    fn weight(path: &str, name: &str, shape: &[i64], dtype: Dtype, is_parameter: bool) -> Weight {
        let name = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let tensor = TensorId(0);
        Weight {
            names: vec![name],
            tensor,
            shape: shape.to_vec(),
            dtype,
            requires_grad: is_parameter,
            quantization: None,
        }
    }

    /// Outer modules first, as `named_modules()` goes.
    fn add(&mut self, node: &mut Node, path: &str) {
        node.module = self.modules.len() as u32;
        self.modules.push(Module { path: Some(path.to_owned()), class: node.class.clone() });
        node.first = (self.parameters.len() as u32, self.buffers.len() as u32);
        let parameters = node.parameters.iter();
        self.parameters
            .extend(parameters.map(|(name, shape)| Weights::weight(path, name, shape, Dtype::Float32, true)));
        let buffers = node.buffers.iter();
        self.buffers.extend(buffers.map(|(name, shape, dtype)| Weights::weight(path, name, shape, *dtype, false)));
        for child in &mut node.children {
            let path = if path.is_empty() { child.name.clone() } else { format!("{path}.{}", child.name) };
            self.add(child, &path);
        }
    }
}

/// Buffers follow all parameters.
fn shift_buffers(node: &mut Node, parameters: u32) {
    node.first.1 += parameters;
    node.children.iter_mut().for_each(|child| shift_buffers(child, parameters));
}

/// Children first, then a module's own parameters, then its buffers.
fn move_order(node: &Node, order: &mut Vec<TensorId>) {
    node.children.iter().for_each(|child| move_order(child, order));
    order.extend((0..node.parameters.len() as u32).map(|at| TensorId(node.first.0 + at)));
    order.extend((0..node.buffers.len() as u32).map(|at| TensorId(node.first.1 + at)));
}

pub(super) fn assemble(mut sketch: Sketch) -> Result<Model, SketchError> {
    let mut weights = Weights::default();
    sketch.root.class = sketch.class.clone();
    weights.add(&mut sketch.root, "");
    shift_buffers(&mut sketch.root, weights.parameters.len() as u32);
    for (number, weight) in (0..).zip(weights.parameters.iter_mut().chain(&mut weights.buffers)) {
        weight.tensor = TensorId(number);
    }
    let mut order = Vec::new();
    move_order(&sketch.root, &mut order);
    let symbols: Vec<Symbol> = sketch.symbols.iter().map(|symbol| symbol_row(symbol, &sketch.input)).collect();
    let mut tables = Tables::default();
    tables.symbols = symbols.iter().map(|symbol| symbol.name.clone()).collect();
    let tables = Rc::new(RefCell::new(tables));
    let shape: Vec<Dimension> = sketch
        .input
        .iter()
        .map(|size| match size {
            InputSize::Known(size) => Dimension::Known(*size),
            InputSize::Named(name) => Dimension::named(name),
        })
        .collect();
    let example = |size: &InputSize| match size {
        InputSize::Known(size) => *size,
        InputSize::Named(name) => sketch.symbols.iter().find(|(known, _)| known == name).map_or(1, |(_, size)| *size),
    };
    let input = Input {
        name: "input".to_owned(),
        tensor: TensorId(order.len() as u32),
        dtype: sketch.dtype,
        example: sketch.input.iter().map(example).collect(),
        shape: shape.iter().map(|size| tables.borrow_mut().size(size)).collect(),
    };
    let mut model = Model {
        origin: Origin::Capture,
        torch: None,
        class: sketch.class,
        symbols,
        expressions: Vec::new(),
        notes: Vec::new(),
        modules: weights.modules,
        operators: Vec::new(),
        sources: Vec::new(),
        parameters: weights.parameters,
        buffers: weights.buffers,
        move_order: order,
        inputs: vec![input],
        targets: Vec::new(),
        variants: Vec::new(),
        types: Vec::new(),
        tensors: Vec::new(),
        steps: Vec::new(),
        fine_tuning: FineTuned::default(),
        script: None,
    };
    for mode in MODES {
        for precision in PRECISIONS {
            let tape = Tape::new(&tables, precision, mode);
            for weight in model.parameters.iter().chain(&model.buffers) {
                let shape: Vec<Dimension> = weight.shape.iter().copied().map(Dimension::from).collect();
                tape.give(&shape, weight.dtype, weight.requires_grad);
            }
            let given = tape.give(&shape, sketch.dtype, false);
            let output = Run::model(&tape, &sketch.root, &given)?;
            let finished = tape.finish(&output);
            model.variants.push(Variant {
                precision,
                mode,
                has_grad: mode != Mode::Eval,
                types: model.types.len(),
                tensors: model.tensors.len(),
                steps: model.steps.len(),
                constants: Vec::new(),
                outputs: vec![finished.output],
                paths: vec![String::new()],
                released: vec![finished.output],
                loss: None,
                held: finished.held,
                assumed: Assumed::Expected,
                reach: None,
                late: Vec::new(),
                functions: Vec::new(),
                causes: Vec::new(),
            });
            model.types.push(finished.types);
            model.tensors.push(finished.tensors);
            model.steps.push(finished.steps);
        }
    }
    let mut tables = tables.borrow_mut();
    model.operators = std::mem::take(&mut tables.operators);
    model.expressions = std::mem::take(&mut tables.expressions);
    Ok(model)
}

fn symbol_row((name, example): &(String, i64), input: &[InputSize]) -> Symbol {
    let is_there = |size: &InputSize| matches!(size, InputSize::Named(known) if known == name);
    let dims = input.iter().enumerate().filter(|(_, size)| is_there(size));
    Symbol {
        name: name.clone(),
        example: Example::Known(*example),
        recorded: vec![*example],
        dims: dims.map(|(at, _)| ("input".to_owned(), at)).collect(),
        range: None,
    }
}
