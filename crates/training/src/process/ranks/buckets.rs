//! `compute_bucket_assignment_by_size`: which tensors travel together.

use std::collections::BTreeMap;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::dtype::Dtype;

/// Bytes that one broadcast carries.
const BROADCAST: u64 = 250 << 20;
/// How many broadcasts are under way at once.
const IN_FLIGHT: usize = 2;

/// A bucket that is being filled.
#[derive(Default)]
struct Open {
    tensors: Vec<usize>,
    bytes: u64,
    /// How many buckets of its type have been closed.
    closed: usize,
}

/// The indexes of the tensors of each bucket. A bucket has one type, and is closed when it has reached the limit: the first of a
/// type has the first limit, and so on; the last limit stays.
pub(super) fn by_size(tensors: &[(Dtype, u64)], limits: &[u64]) -> Vec<Vec<usize>> {
    let mut open: BTreeMap<Dtype, Open> = BTreeMap::new();
    let mut closed = Vec::new();
    for (index, &(dtype, bytes)) in tensors.iter().enumerate() {
        let bucket = open.entry(dtype).or_default();
        bucket.tensors.push(index);
        bucket.bytes += bytes;
        if bucket.bytes >= limits[bucket.closed.min(limits.len() - 1)] {
            closed.push(std::mem::take(&mut bucket.tensors));
            *bucket = Open { closed: bucket.closed + 1, ..Open::default() };
        }
    }
    closed.extend(open.into_values().map(|bucket| bucket.tensors).filter(|tensors| !tensors.is_empty()));
    closed
}

/// The same, sorted by the first tensor of each.
pub(super) fn by_size_in_order(tensors: &[(Dtype, u64)], limits: &[u64]) -> Vec<Vec<usize>> {
    let mut buckets = by_size(tensors, limits);
    buckets.sort_by_key(|bucket| bucket.first().copied());
    buckets
}

/// A tensor's type and bytes.
pub(super) fn size_of(tensor: &Tensor) -> (Dtype, u64) {
    (tensor.dtype(), tensor.layout().elements() as u64 * tensor.dtype().bytes())
}

/// `_broadcast_coalesced`: tensors are broadcast in buckets, each a copy of its tensors.
pub(super) fn broadcast(context: &Context, tensors: &[Tensor]) {
    let sizes: Vec<(Dtype, u64)> = tensors.iter().map(size_of).collect();
    let mut in_flight = std::collections::VecDeque::new();
    for bucket in by_size_in_order(&sizes, &[BROADCAST]) {
        if in_flight.len() >= IN_FLIGHT {
            in_flight.pop_front();
        }
        let copied = |index: &usize| bucket.len() > 1 || !tensors[*index].layout().is_contiguous();
        let bytes = bucket.iter().filter(|index| copied(index)).map(|&index| sizes[index].1).sum();
        in_flight.push_back(context.storage(bytes));
    }
    while in_flight.pop_front().is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_closes_when_it_reaches_its_limit_and_the_last_limit_stays() {
        let sizes: Vec<(Dtype, u64)> = [4, 4, 1, 9, 1, 1].map(|bytes| (Dtype::Float32, bytes)).into();
        assert_eq!(by_size(&sizes, &[1, 5]), [vec![0], vec![1, 2], vec![3], vec![4, 5]]);
    }

    #[test]
    fn types_travel_apart() {
        let sizes = [(Dtype::Float32, 4), (Dtype::Bfloat16, 2), (Dtype::Float32, 4)];
        assert_eq!(by_size_in_order(&sizes, &[u64::MAX]), [vec![0, 2], vec![1]]);
    }
}
