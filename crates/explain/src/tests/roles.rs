//! What memory is for.

use super::{explained, recorded};
use crate::roles::Role;
use crate::synthetic::Training;

#[test]
fn a_workspace_of_cublas_is_not_the_line_that_multiplied_first() {
    let explanation = explained(&recorded(&Training::default()));
    let library: Vec<_> = explanation.peak.holders.iter().filter(|holder| holder.role == Role::Library).collect();
    let [holder] = library[..] else { panic!("one holder, found {library:?}") };
    assert_eq!((holder.owner, holder.blocks, holder.largest), (None, 2, 8_519_680));
}

#[test]
fn tensors_as_large_as_a_workspace_are_tensors() {
    let alike = Training { activation: 8_519_680, parameters: 8_519_680, ..Training::default() };
    let explanation = explained(&recorded(&alike));
    let library = explanation.peak.holders.iter().find(|holder| holder.role == Role::Library);
    assert!(library.is_none_or(|holder| holder.blocks <= 2), "{library:?}");
}

#[test]
fn a_workspace_among_gradients_of_its_size_is_what_outlives_the_steps() {
    let alike = Training { activation: 8_519_680, ..Training::default() };
    let explanation = explained(&recorded(&alike));
    let library = explanation.peak.holders.iter().find(|holder| holder.role == Role::Library);
    let Some(holder) = library else { panic!("found {:?}", explanation.peak.holders) };
    assert_eq!(
        (holder.blocks, holder.largest),
        (1, 8_519_680),
        "that of the backward pass; the forward pass makes tensors of the size"
    );
}
