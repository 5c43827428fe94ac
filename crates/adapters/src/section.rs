//! The passes of the changed model: each call of a changed layer with what runs instead or beside it.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{
    Argument, Call, Cast, Late, Mode, Model, Precision, RecordedBackward, Size, Step, Tensor, TensorId, Type, Variant,
};

use crate::adapter::{Adapter, Base};
use crate::layers::Layer;
use crate::numbering::{LayerTensors, Numbered};
use crate::quantized::QuantizedCall;
use crate::writer::Writer;
use crate::{FineTuning, Quantize};

/// What makes two variants the same pass: their types, tensors and steps, their mode and precision, and whether gradients are on.
type Key = (usize, usize, usize, Mode, Precision, bool);

/// A rewritten pass.
#[derive(Clone)]
struct Made {
    section: usize,
    /// The new index of each old step.
    moved: Vec<usize>,
    functions: Vec<RecordedBackward>,
}

/// Rewrites all passes.
pub(crate) fn rewrite(old: &Model, made: &mut Numbered, layers: &[Layer], how: &FineTuning) {
    let (types, tensors, steps) = (old.types.clone(), old.tensors.clone(), old.steps.clone());
    made.model.types.clear();
    made.model.tensors.clear();
    made.model.steps.clear();
    let mut known: Vec<(Key, Made)> = Vec::new();
    let mut variants = std::mem::take(&mut made.model.variants);
    for variant in &mut variants {
        let key = (variant.types, variant.tensors, variant.steps, variant.mode, variant.precision, variant.has_grad);
        let found = known.iter().find(|(known, _)| *known == key).map(|(_, made)| made.clone());
        let pass = found.unwrap_or_else(|| {
            let pass = Pass::new(made, layers, how, variant, (&types[variant.types], &tensors[variant.tensors]));
            let (moved, functions) = pass.rewrite(made, &steps[variant.steps]);
            let section = made.model.steps.len() - 1;
            known.push((key, Made { section, moved: moved.clone(), functions: functions.clone() }));
            Made { section, moved, functions }
        });
        renumber(variant, made, &pass);
    }
    made.model.variants = variants;
}

fn renumber(variant: &mut Variant, made: &Numbered, pass: &Made) {
    (variant.types, variant.tensors, variant.steps) = (pass.section, pass.section, pass.section);
    let lists = [&mut variant.constants, &mut variant.outputs, &mut variant.released, &mut variant.held];
    for id in lists.into_iter().flatten().chain(&mut variant.loss) {
        *id = made.renumbered(*id);
    }
    for Late { tensor, until } in &mut variant.late {
        *tensor = made.renumbered(*tensor);
        *until = pass.moved.get(*until).copied().unwrap_or(*until);
    }
    for function in &mut variant.functions {
        function.each_tensor_mut(&mut |id| *id = made.renumbered(*id));
        function.end = pass.moved.get(function.end).copied().unwrap_or(function.end);
    }
    variant.functions.extend(pass.functions.iter().cloned());
    variant.functions.sort_by_key(|function| function.end);
}

/// One pass that is being rewritten.
struct Pass<'a> {
    layers: BTreeMap<u32, (&'a Layer, LayerTensors)>,
    how: &'a FineTuning,
    types: Vec<Type>,
    rows: Vec<Tensor>,
    has_grad: bool,
    is_training: bool,
    autocast: Option<Dtype>,
    quantize: Option<Quantize>,
    /// The types of quantised weights before.
    sources: BTreeMap<TensorId, Dtype>,
}

impl<'a> Pass<'a> {
    fn new(
        made: &Numbered,
        layers: &'a [Layer],
        how: &'a FineTuning,
        variant: &Variant,
        (types, tensors): (&[Type], &[Tensor]),
    ) -> Pass<'a> {
        let autocast = match variant.precision {
            Precision::Autocast(dtype) => Some(dtype),
            Precision::AsBuilt | Precision::Cast(_) => None,
        };
        let mut types = types.to_vec();
        let mut rows: Vec<Option<Tensor>> = vec![None; made.model.given_count()];
        let mut later = Vec::new();
        for (number, row) in (0..).zip(tensors) {
            let TensorId(storage) = made.renumbered(TensorId(row.storage));
            let row = Tensor { storage, ..row.clone() };
            match made.renumbered(TensorId(number)) {
                TensorId(new) if (new as usize) < rows.len() => rows[new as usize] = Some(row),
                _ => later.push(row),
            }
        }
        let weights = made.model.parameters.iter().chain(&made.model.buffers);
        let mut sources = BTreeMap::new();
        for (weight, place) in weights.zip(&mut rows) {
            let shape: Vec<Size> = weight.shape.iter().map(|size| Size::Known(*size)).collect();
            let is_new = place.is_none();
            if let (Some(row), true) = (&place, weight.quantization.is_some()) {
                sources.insert(weight.tensor, types[row.r#type as usize].dtype);
            }
            if is_new || weight.quantization.is_some() {
                types.push(Type { dtype: weight.dtype, shape, strides: None });
                *place = Some(Tensor {
                    r#type: types.len() as u32 - 1,
                    storage: weight.tensor.0,
                    offset: Size::Known(0),
                    requires_grad: weight.requires_grad,
                    is_leaf: true,
                    is_on_host: false,
                    is_view: false,
                });
            }
            if let Some(row) = place {
                row.requires_grad = weight.requires_grad;
            }
        }
        let rows = rows.into_iter().flatten().chain(later).collect();
        let layers = layers.iter().zip(&made.layers).map(|(layer, own)| (layer.module, (layer, own.clone()))).collect();
        Pass {
            layers,
            how,
            types,
            rows,
            has_grad: variant.has_grad,
            is_training: variant.mode == Mode::Train,
            autocast,
            quantize: how.quantize.filter(|_| autocast.is_none()),
            sources,
        }
    }

    /// Adds the rewritten pass to the model. Returns where each step has got, and the backwards of added functions.
    fn rewrite(mut self, made: &mut Numbered, steps: &[Step]) -> (Vec<usize>, Vec<RecordedBackward>) {
        let mut steps: Vec<Step> = steps.to_vec();
        steps.iter_mut().for_each(|step| step.each_tensor_mut(&mut |id| *id = made.renumbered(*id)));
        let frozen: BTreeSet<TensorId> =
            made.model.parameters.iter().filter(|weight| !weight.requires_grad).map(|weight| weight.tensor).collect();
        let freed_after = casts_of_frozen(&mut steps, &frozen);
        let (types, rows) = (std::mem::take(&mut self.types), std::mem::take(&mut self.rows));
        let mut writer = Writer::new(&mut made.model, types, rows, self.has_grad);
        let mut functions = Vec::new();
        let mut cast_weights = BTreeMap::new();
        let mut moved = Vec::with_capacity(steps.len());
        let mut at = 0;
        while at < steps.len() {
            let visit = self.visit(&steps, at);
            let end = visit.as_ref().map_or(at, |visit| visit.exit);
            moved.resize(at, writer.steps.len());
            match visit {
                None => copy(&mut writer, &mut moved, &freed_after, &steps, at..at + 1),
                Some(visit) => {
                    let inner = at + 1..end;
                    copy(&mut writer, &mut moved, &freed_after, &steps, at..at + 1);
                    let base =
                        if visit.tensors.adapter.is_some() { split(&mut writer, visit.result) } else { visit.result };
                    if let (true, Some(quantize)) = (visit.layer.is_quantized, self.quantize) {
                        functions.extend(self.quantized(&mut writer, &steps[inner], &visit, base, quantize));
                    } else {
                        for step in &mut steps[inner.clone()] {
                            step.each_tensor_mut(&mut |id| *id = if *id == visit.result { base } else { *id });
                        }
                        copy(&mut writer, &mut moved, &freed_after, &steps, inner);
                    }
                    if let (Some(weights), Some(lora)) = (visit.tensors.adapter, &self.how.lora) {
                        let kind = match self.quantize.filter(|_| visit.layer.is_quantized) {
                            None => Base::Plain,
                            Some(Quantize::Nf4 { .. }) => Base::FourBit,
                            Some(Quantize::Int8) => Base::EightBit,
                        };
                        let adapter = Adapter {
                            lora,
                            input: visit.input,
                            base,
                            result: visit.result,
                            weights,
                            kind,
                            autocast: self.autocast,
                            is_training: self.is_training,
                        };
                        adapter.write(&mut writer, &mut cast_weights);
                    }
                    moved.resize(end, writer.steps.len());
                    copy(&mut writer, &mut moved, &freed_after, &steps, end..end + 1);
                }
            }
            at = end + 1;
        }
        let Writer { types, rows, steps, .. } = writer;
        made.model.types.push(types);
        made.model.tensors.push(rows);
        made.model.steps.push(steps);
        (moved, functions)
    }

    /// The call of a changed layer that begins at this step: one with an input and a result.
    fn visit(&self, steps: &[Step], at: usize) -> Option<Visit<'_>> {
        let Step::Enter(module, arguments) = &steps[at] else { return None };
        let (layer, tensors) = self.layers.get(module)?;
        let is_exit = |step: &Step| matches!(step, Step::Exit(left, _) if left == module);
        let exit = at + steps[at..].iter().position(is_exit)?;
        let Step::Exit(_, results) = &steps[exit] else { return None };
        let (&[input, ..], &[result]) = (arguments.as_slice(), results.as_slice()) else { return None };
        Some(Visit { layer, tensors, input, result, exit })
    }

    /// Adds what runs instead of the layer's one call.
    fn quantized(
        &self,
        writer: &mut Writer<'_>,
        inner: &[Step],
        visit: &Visit<'_>,
        result: TensorId,
        quantize: Quantize,
    ) -> Option<RecordedBackward> {
        let call = inner.iter().find_map(|step| match step {
            Step::Call(call) if first_result(call) == Some(visit.result) => Some(call),
            _ => None,
        })?;
        writer.source = call.source;
        let bias = visit.tensors.bias;
        // GPT-2's layers return a view of their product.
        let row = &mut writer.rows[result.0 as usize];
        (row.storage, row.is_view) = (result.0, false);
        if let (Quantize::Nf4 { compute }, Some(TensorId(bias))) = (quantize, bias) {
            // The first forward gives the bias the type of the products, for good.
            let shape = writer.shape(TensorId(bias));
            writer.rows[bias as usize].r#type = writer.type_index(compute, shape);
        }
        let source = self.sources.get(&visit.tensors.weight).copied().unwrap_or(Dtype::Float32);
        let Visit { layer, tensors, input, .. } = *visit;
        QuantizedCall { layer, tensors, input, bias, result, source }.write(writer, quantize)
    }
}

/// A call of a changed layer.
struct Visit<'a> {
    layer: &'a Layer,
    tensors: &'a LayerTensors,
    input: TensorId,
    result: TensorId,
    /// The step at which it ends.
    exit: usize,
}

/// Gives what the layer itself returns a number of its own: its old one is for what the layer returns with its adapter.
fn split(writer: &mut Writer<'_>, TensorId(result): TensorId) -> TensorId {
    let base = writer.rows[result as usize].clone();
    let (dtype, shape) = (writer.dtype(TensorId(result)), writer.shape(TensorId(result)));
    let apart = writer.make(dtype, shape);
    let own = writer.rows[apart.0 as usize].clone();
    writer.rows[apart.0 as usize] = base;
    writer.rows[result as usize] = own;
    apart
}

/// Copies steps, with what requires grad now, and with casts freed after the calls that use them.
fn copy(
    writer: &mut Writer<'_>,
    moved: &mut Vec<usize>,
    freed_after: &BTreeMap<usize, Vec<TensorId>>,
    steps: &[Step],
    range: std::ops::Range<usize>,
) {
    for at in range {
        moved.resize(at + 1, writer.steps.len());
        match &steps[at] {
            Step::Call(call) => note_gradients(writer, call),
            Step::Grad(is_on) => writer.has_grad = *is_on,
            _ => {}
        }
        writer.steps.push(steps[at].clone());
        if let Some(casts) = freed_after.get(&at) {
            writer.free(casts);
        }
    }
}

/// A result requires grad where it did when everything was trained, and an argument still does.
fn note_gradients(writer: &mut Writer<'_>, call: &Call) {
    let mut requires_grad = false;
    let mut given = BTreeSet::new();
    call.each_tensor(&mut |id| {
        requires_grad |= writer.requires_grad(id);
        given.insert(id);
    });
    for id in call.results.iter().flatten().filter(|id| !given.contains(id)) {
        let row = &mut writer.rows[id.0 as usize];
        row.requires_grad &= requires_grad;
        row.is_leaf |= !row.requires_grad;
    }
}

fn first_result(call: &Call) -> Option<TensorId> {
    call.results.first().copied().flatten()
}

/// Autocast keeps casts only of weights that are trained. The others are cast for one call: returns after which step each of
/// these casts is freed.
fn casts_of_frozen(steps: &mut [Step], frozen: &BTreeSet<TensorId>) -> BTreeMap<usize, Vec<TensorId>> {
    let mut last_uses: BTreeMap<TensorId, usize> = BTreeMap::new();
    for (at, step) in steps.iter_mut().enumerate() {
        let Step::Call(call) = step else { continue };
        let is_frozen = matches!(call.arguments.first(), Some(Argument::Tensor(weight)) if frozen.contains(weight));
        if call.cast == Cast::Kept && is_frozen {
            call.cast = Cast::ForCall;
            last_uses.extend(first_result(call).map(|result| (result, at)));
            continue;
        }
        call.each_tensor(&mut |id| {
            if let Some(last) = last_uses.get_mut(&id) {
                *last = at;
            }
        });
    }
    let mut freed: BTreeMap<usize, Vec<TensorId>> = BTreeMap::new();
    for (cast, at) in last_uses {
        freed.entry(at).or_default().push(cast);
    }
    freed
}
