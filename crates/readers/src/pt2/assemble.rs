//! Makes a [`Model`] of an archive's contents.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::agreement::{check_outputs, check_signature};
use super::attention_results;
use super::call_site::CallSites;
use super::causes::causes;
use super::document::{InputSpec, Payload, Program};
use super::error::ArchiveError;
use super::flatten::{Flat, Item};
use super::graph::RawArgument;
use super::lifetime::{self, Boundary};
use super::operators::Operators;
use super::outputs::{Outputs, outputs};
use super::products::Products;
use super::renamed;
use super::scope::Scope;
use super::sizes::Sizes;
use super::tensor_meta::TensorMeta;
use super::traced::{self, Masks};
use super::type_table::TypeTable;
use super::variant::{self, Calls, Shape, built_dtype};
use super::weights::{RawWeight, Weights, move_order, weights};
use crate::error::ReadError;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{
    Assumed, FineTuned, Input, Mode, Model, Origin, Precision, Size, Step, Symbol, Tensor, TensorId, Variant, Weight,
};
use vramfit_graph::select::{VariantFlags, choose};

/// The inputs that are masks, by name.
pub(super) fn mask_inputs<'a>(program: &'a Program<'_>) -> Vec<&'a str> {
    let names = program.inputs.iter().filter_map(|spec| match spec {
        InputSpec::Given(RawArgument::Tensor(name)) => Some(&**name),
        _ => None,
    });
    names.filter(|name| name.contains("mask")).collect()
}

/// The contents of an archive.
pub(super) struct Contents<'a> {
    pub(super) program: Program<'a>,
    pub(super) payloads: Vec<(Cow<'a, str>, Payload<'a>)>,
    /// The texts that the program's numbers name.
    pub(super) texts: Vec<Box<str>>,
    /// Which masks among the inputs are full of ones in the example.
    pub(super) full: HashMap<String, bool>,
}

/// The model of an archive: with the variant that `wanted` chooses, or with all of them where it chooses none.
pub(super) fn model(contents: &Contents<'_>, wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    let Contents { program, payloads, texts, full } = contents;
    check_signature(program)?;
    let metas: HashMap<&str, &TensorMeta<'_>> =
        program.graph.tensors.iter().map(|(name, meta)| (&**name, &**meta)).collect();
    let found = weights(program, &metas, payloads);
    let mut flat = Flat {
        sizes: Sizes::new(texts),
        operators: Operators::default(),
        sites: CallSites::new(&program.modules, texts),
        values: Vec::with_capacity(program.graph.tensors.len()),
        items: Vec::with_capacity(program.graph.nodes.len()),
        device: device(&found, program, &metas),
        weights: found.parameters.len() + found.buffers.len(),
        given: 0,
        branches: 0,
    };
    let mut scope = Scope::new(&program.graph);
    let parameters = add_weights(&mut flat, &mut scope, &found.parameters)?;
    let buffers = add_weights(&mut flat, &mut scope, &found.buffers)?;
    let mut inputs = add_inputs(&mut flat, &mut scope, program, &metas)?;
    let given = flat.values.len();
    flat.given = given;
    let constants = add_constants(&mut flat, &mut scope, program, &metas)?;
    flat.add_graph(&program.graph, &mut scope, None, 0)?;
    check_outputs(program, &scope)?;
    let mut returned = outputs(program, &flat, &scope)?;
    renamed::resolve(&mut flat, &mut [&mut returned.tensors, &mut returned.released]);
    let masks = traced::undo(&mut flat, &inputs, full, &returned.tensors);
    attention_results::allow_views(&mut flat);
    let symbols = flat.sizes.symbols(&program.ranges, &inputs, &program.graph)?;
    for input in &mut inputs {
        input.example = input.shape.iter().map(|size| flat.sizes.at_example(*size, &symbols).unwrap_or(1)).collect();
    }
    flat.sites.name_lists();
    let paths: Vec<&str> = flat.sites.modules.iter().filter_map(|module| module.path.as_deref()).collect();
    let order = move_order(&paths, &found).into_iter().map(TensorId).collect();
    let inner = inner_model(&flat, &returned);
    let mut assembly = Assembly {
        flat: &flat,
        symbols: &symbols,
        operators: flat.operators.clone(),
        products: Products::new(&flat.sizes.expressions),
        returned: &returned,
        given,
        constants: &constants,
        inner,
        masks,
        types: TypeTable::default(),
        tensors: Vec::new(),
        steps: Vec::new(),
        variants: Vec::new(),
    };
    let modes = [Mode::Train, Mode::Eval, Mode::EvalGrad];
    let all: Vec<(Precision, Mode)> =
        precisions(&flat).into_iter().flat_map(|precision| modes.map(|mode| (precision, mode))).collect();
    let only = wanted.and_then(|flags| choose(parameters.iter().chain(&buffers), &inputs, &all, flags).ok());
    for (precision, mode) in only.map_or(&all[..], |only| &all[only..=only]) {
        assembly.add(*precision, *mode);
    }
    let Assembly { operators, products, types, tensors, steps, variants, .. } = assembly;
    let mut modules = flat.sites.modules.clone();
    if let Some(inner) = inner {
        modules.swap(0, flat.sites.calls[inner as usize].module as usize);
    }
    Ok(Model {
        origin: Origin::Archive,
        torch: None,
        class: modules[0].class.clone(),
        symbols,
        expressions: products.expressions,
        notes: notes(&found),
        modules,
        operators: operators.rows,
        sources: flat.sites.sources,
        parameters,
        buffers,
        move_order: order,
        inputs,
        targets: Vec::new(),
        variants,
        types: vec![types.rows],
        tensors,
        steps,
        fine_tuning: FineTuned::default(),
        script: None,
    })
}

/// The device that takes the role of the GPU: that of the weights.
fn device(found: &Weights<'_>, program: &Program<'_>, metas: &HashMap<&str, &TensorMeta<'_>>) -> String {
    let weights = found.parameters.iter().chain(&found.buffers).map(|weight| weight.meta);
    let inputs = program.inputs.iter().filter_map(|spec| match spec {
        InputSpec::Given(RawArgument::Tensor(name)) => metas.get(&**name).copied(),
        _ => None,
    });
    weights.chain(inputs).next().map_or("cpu", |meta| &meta.device).to_owned()
}

fn add_weights<'a>(
    flat: &mut Flat<'_>,
    scope: &mut Scope<'a>,
    weights: &[RawWeight<'a>],
) -> Result<Vec<Weight>, ReadError> {
    let mut added = Vec::with_capacity(weights.len());
    for weight in weights {
        let location = || format!("weight `{}`", weight.names[0]);
        let tensor = flat.add_value(weight.meta, &location)?;
        let value = &mut flat.values[tensor.0 as usize];
        value.requires_grad = weight.requires_grad;
        value.is_on_host = false;
        let mut shape = Vec::with_capacity(value.shape.len());
        for (dim, size) in value.shape.iter().enumerate() {
            match size {
                Size::Known(size) => shape.push(*size),
                Size::Symbolic(_) => {
                    let (text, source) = (flat.sizes.text(*size), "a weight's size must be a number".into());
                    let location = format!("{}: dimension {dim}", location());
                    return Err(ArchiveError::BadSize { location, text, source }.into());
                }
            }
        }
        let names = weight.names.iter().map(|name| (*name).to_owned()).collect();
        added.push(Weight {
            names,
            tensor,
            shape,
            dtype: value.dtype,
            requires_grad: weight.requires_grad,
            quantization: None,
        });
        for name in &weight.tensors {
            scope.define(name, tensor);
        }
    }
    Ok(added)
}

fn add_inputs<'a>(
    flat: &mut Flat<'_>,
    scope: &mut Scope<'a>,
    program: &'a Program<'a>,
    metas: &HashMap<&str, &TensorMeta<'_>>,
) -> Result<Vec<Input>, ReadError> {
    let mut inputs: Vec<Input> = Vec::new();
    for (at, spec) in program.inputs.iter().enumerate() {
        let InputSpec::Given(RawArgument::Tensor(name)) = spec else { continue };
        let location = || format!("signature.input_specs[{at}]");
        let meta = meta_of(name, metas, location)?;
        let tensor = flat.add_value(meta, &|| format!("input `{name}`"))?;
        let value = &mut flat.values[tensor.0 as usize];
        value.requires_grad = false;
        value.is_on_host = false;
        inputs.push(Input {
            name: name.clone().into_owned(),
            tensor,
            dtype: value.dtype,
            example: Vec::new(),
            shape: value.shape.clone(),
        });
        scope.define(name, tensor);
    }
    Ok(inputs)
}

fn add_constants<'a>(
    flat: &mut Flat<'_>,
    scope: &mut Scope<'a>,
    program: &'a Program<'a>,
    metas: &HashMap<&str, &TensorMeta<'_>>,
) -> Result<Vec<TensorId>, ReadError> {
    let mut constants = Vec::new();
    for (at, spec) in program.inputs.iter().enumerate() {
        let InputSpec::Constant { tensor: name } = spec else { continue };
        let meta = meta_of(name, metas, || format!("signature.input_specs[{at}]"))?;
        let tensor = flat.add_value(meta, &|| format!("constant `{name}`"))?;
        let value = &mut flat.values[tensor.0 as usize];
        value.requires_grad = false;
        // Tensors that the code makes of numbers are on the host.
        value.is_on_host |= meta.device == "cpu" && value.shape.is_empty();
        scope.define(name, tensor);
        constants.push(tensor);
    }
    Ok(constants)
}

fn meta_of<'a>(
    name: &str,
    metas: &HashMap<&str, &'a TensorMeta<'a>>,
    location: impl Fn() -> String,
) -> Result<&'a TensorMeta<'a>, ReadError> {
    metas
        .get(name)
        .copied()
        .ok_or_else(|| ReadError::from(ArchiveError::NoTensorValue { location: location(), name: name.to_owned() }))
}

/// The precisions that can be derived: the whole model cast, and autocast over single-precision weights.
fn precisions(flat: &Flat) -> Vec<Precision> {
    let built = built_dtype(flat);
    let casts = [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16, Dtype::Float64];
    let mut found = vec![Precision::AsBuilt];
    found.extend(casts.into_iter().filter(|dtype| Some(*dtype) != built).map(Precision::Cast));
    if built == Some(Dtype::Float32) || built.is_none() {
        found.extend([Dtype::Bfloat16, Dtype::Float16].map(Precision::Autocast));
    }
    found
}

/// The module call that is the model, where the exported module only calls it and computes a loss from what it returns: it
/// alone uses parameters, and the loss is made after it.
fn inner_model(flat: &Flat, returned: &Outputs) -> Option<u32> {
    let loss = returned.loss?;
    let mut inner = None;
    let mut is_over = false;
    for item in &flat.items {
        let Item::Call(call) = item else { continue };
        let first = flat.sites.get(call.site).calls.get(1).copied();
        inner = inner.or(first);
        is_over |= inner.is_some() && first != inner;
        let mut uses_weights = false;
        call.each_tensor(&mut |tensor| uses_weights |= (tensor.0 as usize) < flat.weights);
        if uses_weights && (is_over || first.is_none()) {
            return None;
        }
        if call.results.contains(&Some(loss)) && !is_over {
            return None;
        }
    }
    inner.filter(|_| is_over)
}

/// A model being assembled.
struct Assembly<'a> {
    flat: &'a Flat<'a>,
    symbols: &'a [Symbol],
    operators: Operators,
    products: Products,
    returned: &'a Outputs,
    given: usize,
    constants: &'a [TensorId],
    inner: Option<u32>,
    masks: Masks,
    types: TypeTable,
    tensors: Vec<Vec<Tensor>>,
    steps: Vec<Vec<Step>>,
    variants: Vec<Variant>,
}

impl Assembly<'_> {
    fn add(&mut self, precision: Precision, mode: Mode) {
        let calls = variant::calls(self.flat, (&mut self.operators, &mut self.products), precision, mode);
        let same = |tensor: &TensorId| calls.same[tensor.0 as usize];
        let loss = self.returned.loss.as_ref().map(same);
        let is_output = |tensor: &TensorId| self.inner.is_none() || Some(*tensor) != loss;
        let outputs: Vec<TensorId> = self.returned.tensors.iter().map(same).filter(is_output).collect();
        let released: Vec<TensorId> = self.returned.released.iter().map(same).filter(is_output).collect();
        let mut held: Vec<TensorId> = (0..self.given as u32).map(TensorId).collect();
        held.extend(outputs.iter().chain(&loss).filter(|tensor| tensor.0 as usize >= self.given));
        let causes = causes(self.flat, self.masks, self.symbols, &calls, (precision, mode));
        let autocast = match precision {
            Precision::Autocast(dtype) => {
                Some(Step::Autocast { is_gpu: true, dtype: Some(dtype), is_enabled: true, has_cache: true })
            }
            _ => None,
        };
        let tensors = self.rows(&calls);
        let boundary = Boundary {
            given: self.given + self.constants.len(),
            outputs: &outputs,
            kept: &held,
            inner: self.inner,
            casts: &calls.casts,
            autocast,
        };
        let (steps, late) = lifetime::steps(calls.events, tensors.len(), &self.flat.sites, &boundary);
        self.variants.push(Variant {
            assumed: Assumed::Expected,
            reach: None,
            precision,
            mode,
            has_grad: mode != Mode::Eval,
            types: 0,
            tensors: self.tensors.len(),
            steps: self.steps.len(),
            constants: self.constants.to_vec(),
            outputs,
            paths: Vec::new(),
            released,
            loss,
            held,
            late,
            functions: Vec::new(),
            causes,
        });
        self.tensors.push(tensors);
        self.steps.push(steps);
    }

    fn rows(&mut self, calls: &Calls) -> Vec<Tensor> {
        let mut rows = Vec::with_capacity(calls.dtypes.len());
        for (number, shape) in calls.shapes.iter().enumerate() {
            let dtype = calls.dtypes[number];
            let requires_grad = calls.requires_grad[number];
            let values = &self.flat.values;
            let (base, sizes) = match shape {
                Shape::Of(value) => (Some(*value), &values[value.0 as usize].shape),
                Shape::Own(sizes) => (None, sizes),
                Shape::Part(base, sizes) => match &calls.shapes[base.0 as usize] {
                    Shape::Of(value) => (Some(*value), sizes),
                    _ => (None, sizes),
                },
            };
            let strides: Option<&[Size]> = base.map(|base| &values[base.0 as usize].strides[..]);
            let shape_number = self.types.shape(sizes, strides);
            let part_of = if let Shape::Part(base, _) = shape { Some(&rows[base.0 as usize]) } else { None };
            let storage = part_of.map(|base: &Tensor| base.storage);
            let value = values.get(number);
            rows.push(Tensor {
                r#type: self.types.number(dtype, shape_number, sizes, strides),
                storage: storage.unwrap_or_else(|| value.map_or(number as u32, |value| value.storage)),
                offset: value.map_or(Size::Known(0), |value| value.offset),
                requires_grad,
                is_leaf: number < self.given || !requires_grad,
                is_on_host: value.is_some_and(|value| value.is_on_host),
                is_view: storage.is_some() || value.is_some_and(|value| value.is_view),
            });
        }
        rows
    }
}

fn notes(found: &Weights<'_>) -> Vec<String> {
    let pairs: Vec<String> = found.guessed.iter().map(|(one, other)| format!("{one} = {other}")).collect();
    match pairs.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "weights without bytes that are not used under their own names are assumed to be tied: {}",
            pairs.join(", ")
        )],
    }
}
