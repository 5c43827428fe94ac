//! Variants: each precision, mode and assumption once, each with sections that exist.

use std::collections::{BTreeSet, HashMap};

use super::error::CheckError;
use super::{Checker, below};
use vramfit_graph::model::{Assumed, Mode, Variant};

impl Checker<'_> {
    pub(super) fn variants(&self) -> Result<(), CheckError> {
        let model = self.model;
        if model.variants.is_empty() {
            return Err(CheckError::NoVariants);
        }
        let mut seen = HashMap::new();
        for (row, variant) in model.variants.iter().enumerate() {
            let sections = [
                ("types", variant.types, model.types.len()),
                ("tensors", variant.tensors, model.tensors.len()),
                ("steps", variant.steps, model.steps.len()),
            ];
            for (what, found, count) in sections {
                below("section", found as u32, count, || format!("variants[{row}].{what}"))?;
            }
            let name = || format!("{} {}", variant.precision, variant.mode);
            if let Some(first) = seen.insert((variant.precision, variant.mode, variant.assumed, variant.reach), row) {
                return Err(CheckError::DuplicateVariant { row, name: name(), first });
            }
            if !seen.contains_key(&(variant.precision, variant.mode, Assumed::Expected, variant.reach)) {
                return Err(CheckError::NothingExpected { row, name: name() });
            }
            if variant.has_grad != (variant.mode != Mode::Eval) {
                return Err(CheckError::WrongGradMode { row, mode: variant.mode.to_string(), found: variant.has_grad });
            }
        }
        self.used("types", model.types.len(), |variant| variant.types)?;
        self.used("tensors", model.tensors.len(), |variant| variant.tensors)?;
        self.used("steps", model.steps.len(), |variant| variant.steps)
    }

    /// The variants whose sections were read, with their rows.
    pub(super) fn read_variants(&self) -> impl Iterator<Item = (usize, &Variant)> {
        let only = self.only.map(|only| &self.model.variants[only]);
        let variants = self.model.variants.iter().enumerate();
        variants.filter(move |(_, variant)| only.is_none_or(|only| only.is_of_same_training(variant)))
    }

    /// The sections that were read, each once.
    pub(super) fn read_sections(&self, number: impl Fn(&Variant) -> usize) -> BTreeSet<usize> {
        self.read_variants().map(|(_, variant)| number(variant)).collect()
    }

    /// Every section is some variant's.
    fn used(&self, table: &'static str, count: usize, number: impl Fn(&Variant) -> usize) -> Result<(), CheckError> {
        let mut is_used = vec![false; count];
        for variant in &self.model.variants {
            is_used[number(variant)] = true;
        }
        match is_used.iter().position(|is_used| !is_used) {
            Some(section) => Err(CheckError::UnusedSection { table, section }),
            None => Ok(()),
        }
    }

    /// How many types every variant has that uses this section of tensors.
    pub(super) fn type_count(&self, tensors: usize) -> usize {
        let variants = self.read_variants().map(|(_, variant)| variant).filter(|variant| variant.tensors == tensors);
        variants.map(|variant| self.model.types[variant.types].len()).min().unwrap_or(0)
    }

    /// How many tensors every variant has that uses this section of steps.
    pub(super) fn tensor_count(&self, steps: usize) -> usize {
        let variants = self.read_variants().map(|(_, variant)| variant).filter(|variant| variant.steps == steps);
        variants.map(|variant| self.model.tensors[variant.tensors].len()).min().unwrap_or(0)
    }
}
