//! Lists of tensors as Python holds them, and the groups that operators over lists work on.

use std::rc::Rc;

use vramfit_graph::dtype::Dtype;

use vramfit_eager::autograd::Context;
use vramfit_eager::autograd::Tensor;
use vramfit_eager::memory::Storage;
use vramfit_graph::layout::Layout;

/// A weight that has a gradient.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its place among the optimizer's weights.
    pub index: usize,
    /// What a new tensor like its gradient is.
    pub layout: Rc<Layout>,
}

impl Item {
    /// A new tensor like the gradient.
    pub fn like(&self, context: &mut Context) -> Tensor {
        context.empty(Rc::clone(&self.layout))
    }
}

/// A list or tuple of Python's: its tensors go from its end.
#[derive(Debug)]
pub struct List<Held>(pub Vec<Held>);

impl List<Storage> {
    /// A new tensor for each item, as operators over lists return them; of such nothing but their memory is asked.
    pub fn like(context: &mut Context, group: &[&Item]) -> List<Storage> {
        List(group.iter().map(|item| context.piece(item.layout.bytes())).collect())
    }
}

impl<Held> Drop for List<Held> {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// As `_group_tensors_by_device_and_dtype`: its hash table gives the groups back from the one made last on.
pub fn groups(items: &[Item]) -> Vec<Vec<&Item>> {
    let mut groups: Vec<(Dtype, Vec<&Item>)> = Vec::new();
    for item in items {
        let dtype = item.layout.dtype;
        match groups.iter_mut().find(|(found, _)| *found == dtype) {
            Some((_, group)) => group.push(item),
            None => groups.push((dtype, vec![item])),
        }
    }
    groups.into_iter().rev().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_from_the_one_made_last_on() {
        let item = |index, dtype| Item { index, layout: Rc::new(Layout::contiguous(dtype, &[3])) };
        let items = [item(0, Dtype::Float32), item(1, Dtype::Bfloat16), item(2, Dtype::Float32)];
        let found: Vec<Vec<usize>> =
            groups(&items).iter().map(|group| group.iter().map(|item| item.index).collect()).collect();
        assert_eq!(found, [vec![1], vec![0, 2]]);
    }
}
