//! Types and tensors: sizes, strides, and the shapes of what is there before the step.

use std::collections::HashSet;

use super::error::CheckError;
use super::{Checker, below};
use vramfit_graph::model::{Size, Type};

/// PyTorch has no tensors of more dimensions.
const DIMENSION_LIMIT: usize = 64;

impl Checker<'_> {
    pub(super) fn types(&self, section: usize, types: &[Type]) -> Result<(), CheckError> {
        for (row, r#type) in types.iter().enumerate() {
            let location = || format!("types[{section}][{row}]");
            if r#type.shape.len() > DIMENSION_LIMIT {
                let found = r#type.shape.len();
                return Err(CheckError::TooManyDimensions { location: location(), found, limit: DIMENSION_LIMIT });
            }
            for (dim, size) in r#type.shape.iter().enumerate() {
                self.count(*size, || format!("{}: dimension {dim}", location()))?;
            }
            let Some(strides) = &r#type.strides else { continue };
            if strides.len() != r#type.shape.len() {
                return Err(CheckError::WrongDimensionCount {
                    location: format!("{}: strides", location()),
                    found: strides.len(),
                    needed: r#type.shape.len(),
                    of: "shape",
                });
            }
            for (dim, stride) in strides.iter().enumerate() {
                self.count(*stride, || format!("{}: stride {dim}", location()))?;
            }
        }
        Ok(())
    }

    pub(super) fn tensors(&self, section: usize) -> Result<(), CheckError> {
        let tensors = &self.model.tensors[section];
        let types = self.type_count(section);
        if tensors.len() < self.model.given_count() {
            let (found, needed) = (tensors.len(), self.model.given_count());
            return Err(CheckError::TooFewTensors { section, found, needed });
        }
        for (row, tensor) in tensors.iter().enumerate() {
            let location = || format!("tensors[{section}][{row}]");
            below("type", tensor.r#type, types, location)?;
            below("storage", tensor.storage, tensors.len(), location)?;
            self.count(tensor.offset, || format!("{}: offset", location()))?;
        }
        Ok(())
    }

    /// Parameters, buffers, inputs and targets have the same shape in the tables and in every variant.
    pub(super) fn given_shapes(&self) -> Result<(), CheckError> {
        let model = self.model;
        let weights = model.parameters.iter().chain(&model.buffers).map(|weight| &weight.shape);
        let inputs = model.inputs.iter().chain(&model.targets).map(|input| &input.example);
        let given: Vec<&Vec<i64>> = weights.chain(inputs).collect();
        let mut seen = HashSet::new();
        for (_, variant) in self.read_variants() {
            if !seen.insert((variant.types, variant.tensors)) {
                continue;
            }
            for (tensor, needed) in given.iter().enumerate() {
                let r#type = model.tensors[variant.tensors][tensor].r#type;
                let found = &model.types[variant.types][r#type as usize].shape;
                if !self.is_shape(found, needed) {
                    return Err(CheckError::ShapeMismatch {
                        location: format!("types[{}][{type}]", variant.types),
                        tensor,
                        found: found.iter().map(|size| self.at_example(*size)).collect(),
                        needed: (*needed).clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn is_shape(&self, shape: &[Size], needed: &[i64]) -> bool {
        shape.len() == needed.len()
            && shape.iter().zip(needed).all(|(size, needed)| self.at_example(*size) == Some(*needed))
    }
}
