//! Packs models: `pack FOLDER NAME[:SIZE=N,…]…` reads FOLDER/NAME.vramfit, or else FOLDER/NAME.json, a configuration of
//! Hugging Face, and writes FOLDER/NAME.packed for each, with those sizes for its example.
//!
//! `NAME@BASE` writes a template of configurations: what NAME has that BASE does not, which is also there or a template by now;
//! `NAME@` all.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use vramfit_graph::model::{Example, Model, Size};
use vramfit_readers::packed::{pack, pack_difference, unpack, unpack_difference};
use vramfit_readers::read_file;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("needed a folder and the names of models in it")?;
    for argument in arguments {
        if let Some((name, base)) = argument.split_once('@') {
            let model = read(&folder, name)?;
            let is_there = || Path::new(&folder).join(format!("{base}.vramfit")).exists();
            let base_model = match base {
                "" => None,
                base if is_there() => Some(read(&folder, base)?),
                base => Some(template(base)?),
            };
            let packed = pack_difference(&model, base_model.as_ref().map(|model| (base, model)))?;
            std::fs::write(Path::new(&folder).join(format!("{name}.packed")), packed)?;
            continue;
        }
        let (name, sizes) = argument.split_once(':').unwrap_or((&argument, ""));
        let mut model = read(&folder, name)?;
        for size in sizes.split(',').filter(|size| !size.is_empty()) {
            let (symbol, value) = size.split_once('=').ok_or("needed SIZE=N")?;
            set_example(&mut model, symbol, value.parse()?)?;
        }
        let packed = pack(&model)?;
        if unpack(&packed)? != model {
            return Err(format!("{name}: what was unpacked is not what was packed").into());
        }
        std::fs::write(Path::new(&folder).join(format!("{name}.packed")), packed)?;
    }
    Ok(())
}

/// A template that was made before.
fn template(name: &str) -> Result<Model, Box<dyn Error>> {
    let mut packed = HashMap::new();
    for entry in Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/templates").read_dir()? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).ok_or("a template without a name")?;
        packed.insert(stem.to_owned(), std::fs::read(&path)?);
    }
    let found = |name: &str| packed.get(name).map(Vec::as_slice);
    Ok(unpack_difference(found(name).ok_or_else(|| format!("no template {name}"))?, found)?)
}

/// A model, without what is not packed.
fn read(folder: &str, name: &str) -> Result<Model, Box<dyn Error>> {
    let path = |ending: &str| Path::new(folder).join(format!("{name}.{ending}"));
    let capture = path("vramfit");
    let mut model = read_file(if capture.exists() { capture } else { path("json") })?;
    model.variants.iter_mut().for_each(|variant| variant.paths.clear());
    model.torch = None;
    Ok(model)
}

fn set_example(model: &mut Model, name: &str, value: i64) -> Result<(), Box<dyn Error>> {
    let symbol = model.symbols.iter_mut().find(|symbol| symbol.name == name);
    symbol.ok_or(format!("no symbol {name}"))?.example = Example::Known(value);
    let examples = model.examples().ok_or("a symbol has no example")?;
    for input in model.inputs.iter_mut().chain(&mut model.targets) {
        for (example, size) in input.example.iter_mut().zip(&input.shape) {
            *example = match size {
                Size::Known(value) => *value,
                Size::Symbolic(id) => model.expressions[id.0 as usize].evaluate(&examples)?,
            };
        }
    }
    Ok(())
}
