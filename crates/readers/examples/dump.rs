//! Hashes of models.
use std::hash::{DefaultHasher, Hash, Hasher};
use vramfit_graph::bind::bind;
use vramfit_graph::select::Sizes;
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
fn normal(text: String) -> String {
    let mut text = text;
    for line in include_str!("/tmp/dump_renames.txt").lines() {
        if let Some((old, new)) = line.split_once("\t") { text = text.replace(old, new); }
    }
    text
}
fn main() {
    for file in std::env::args().skip(1) {
        let read = if file.ends_with(".packed") { vramfit_readers::packed::unpack(&std::fs::read(&file).unwrap()).map_err(|e| e.to_string()) } else { vramfit_readers::read_file(&file).map_err(|e| e.to_string()) };
        match read {
            Ok(model) => {
                let mut model = model;
                let causes: Vec<usize> = model.variants.iter().map(|v| v.causes.len()).collect();
                for variant in &mut model.variants { variant.causes.clear(); }
                let read = hash(&normal(format!("{model:?}")));
                let mut bound = Vec::new();
                if let Ok(sizes) = Sizes::example(&model) {
                    for at in 0..model.variants.len() {
                        match bind(&model, at, &sizes) {
                            Ok(b) => bound.push(hash(&normal(format!("{:?} {:?}", b.tensors, b.steps)))),
                            Err(e) => bound.push(hash(&e.to_string())),
                        }
                    }
                }
                println!("{file} {read:x} {:x} {causes:?}", hash(&format!("{bound:?}")));
            }
            Err(error) => println!("{file} error {error}"),
        }
    }
}
