//! The distinct types of all variants.

use hashbrown::HashMap;

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Size, Type};

/// The distinct types of all variants.
#[derive(Default)]
pub(super) struct TypeTable {
    pub(super) rows: Vec<Type>,
    known: HashMap<(Dtype, u32), u32>,
    shapes: HashMap<(Vec<Size>, Option<Vec<Size>>), u32>,
}

impl TypeTable {
    pub(super) fn shape(&mut self, shape: &[Size], strides: Option<&[Size]>) -> u32 {
        let next = self.shapes.len() as u32;
        *self.shapes.entry((shape.to_vec(), strides.map(<[Size]>::to_vec))).or_insert(next)
    }

    pub(super) fn number(&mut self, dtype: Dtype, shape: u32, sizes: &[Size], strides: Option<&[Size]>) -> u32 {
        *self.known.entry((dtype, shape)).or_insert_with(|| {
            self.rows.push(Type { dtype, shape: sizes.to_vec(), strides: strides.map(<[Size]>::to_vec) });
            self.rows.len() as u32 - 1
        })
    }
}
