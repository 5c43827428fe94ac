//! Python lists of tensors, and the groups of tensors that `foreach` operators work on.

use std::rc::Rc;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Storage;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

/// A weight that has a gradient.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its index among the optimizer's weights.
    pub index: usize,
    /// The layout of a new tensor like its gradient.
    pub layout: Rc<Layout>,
}

impl Item {
    /// A new tensor like the gradient.
    pub fn like(&self, context: &mut Context) -> Tensor {
        context.empty(Rc::clone(&self.layout))
    }
}

/// A Python list or tuple: it frees its tensors from its end.
#[derive(Debug)]
pub struct List<Item>(pub Vec<Item>);

impl List<Storage> {
    /// A new tensor for each item, as a `foreach` operator returns them; only their memory matters.
    pub fn like(context: &mut Context, group: &[&Item]) -> List<Storage> {
        List(group.iter().map(|item| context.storage(item.layout.bytes())).collect())
    }
}

impl<Item> Drop for List<Item> {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// `_group_tensors_by_device_and_dtype`: its hash table returns the newest group first.
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
    fn the_newest_group_comes_first() {
        let item = |index, dtype| Item { index, layout: Rc::new(Layout::contiguous(dtype, &[3])) };
        let items = [item(0, Dtype::Float32), item(1, Dtype::Bfloat16), item(2, Dtype::Float32)];
        let found: Vec<Vec<usize>> =
            groups(&items).iter().map(|group| group.iter().map(|item| item.index).collect()).collect();
        assert_eq!(found, [vec![1], vec![0, 2]]);
    }
}
