//! A short list of sizes, kept in place.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// How many sizes are kept without a heap allocation.
const INLINE: usize = 6;

/// The sizes or strides of a tensor: a slice of numbers that needs no heap allocation up to six dimensions.
#[derive(Clone)]
pub struct Dims(Storage);

#[derive(Clone)]
enum Storage {
    Inline { length: u8, values: [i64; INLINE] },
    Heap(Vec<i64>),
}

impl Dims {
    /// No dimension: the shape of a scalar.
    pub const EMPTY: Dims = Dims(Storage::Inline { length: 0, values: [0; INLINE] });

    /// As many dimensions of this size.
    pub fn filled(size: i64, length: usize) -> Dims {
        if length <= INLINE {
            Dims(Storage::Inline { length: length as u8, values: [size; INLINE] })
        } else {
            Dims(Storage::Heap(vec![size; length]))
        }
    }

    /// The sizes.
    pub fn as_slice(&self) -> &[i64] {
        match &self.0 {
            Storage::Inline { length, values } => &values[..usize::from(*length)],
            Storage::Heap(values) => values,
        }
    }

    /// Adds a dimension after the last.
    pub fn push(&mut self, size: i64) {
        match &mut self.0 {
            Storage::Inline { length, values } => {
                let count = usize::from(*length);
                if count < INLINE {
                    values[count] = size;
                    *length += 1;
                } else {
                    let mut all = Vec::with_capacity(2 * INLINE);
                    all.extend_from_slice(values);
                    all.push(size);
                    self.0 = Storage::Heap(all);
                }
            }
            Storage::Heap(values) => values.push(size),
        }
    }
}

impl Deref for Dims {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        self.as_slice()
    }
}

impl DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [i64] {
        match &mut self.0 {
            Storage::Inline { length, values } => &mut values[..usize::from(*length)],
            Storage::Heap(values) => values,
        }
    }
}

impl Default for Dims {
    fn default() -> Dims {
        Dims::EMPTY
    }
}

impl From<&[i64]> for Dims {
    fn from(sizes: &[i64]) -> Dims {
        if sizes.len() <= INLINE {
            let mut values = [0; INLINE];
            values[..sizes.len()].copy_from_slice(sizes);
            Dims(Storage::Inline { length: sizes.len() as u8, values })
        } else {
            Dims(Storage::Heap(sizes.to_vec()))
        }
    }
}

impl<const LENGTH: usize> From<[i64; LENGTH]> for Dims {
    fn from(sizes: [i64; LENGTH]) -> Dims {
        Dims::from(sizes.as_slice())
    }
}

impl From<Vec<i64>> for Dims {
    fn from(sizes: Vec<i64>) -> Dims {
        Dims::from(sizes.as_slice())
    }
}

impl FromIterator<i64> for Dims {
    fn from_iter<Sizes: IntoIterator<Item = i64>>(sizes: Sizes) -> Dims {
        let mut dims = Dims::EMPTY;
        dims.extend(sizes);
        dims
    }
}

impl Extend<i64> for Dims {
    fn extend<Sizes: IntoIterator<Item = i64>>(&mut self, sizes: Sizes) {
        for size in sizes {
            self.push(size);
        }
    }
}

impl<'a> IntoIterator for &'a Dims {
    type Item = &'a i64;
    type IntoIter = std::slice::Iter<'a, i64>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

impl PartialEq for Dims {
    fn eq(&self, other: &Dims) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Dims {}

impl PartialEq<[i64]> for Dims {
    fn eq(&self, other: &[i64]) -> bool {
        self.as_slice() == other
    }
}

impl<const LENGTH: usize> PartialEq<[i64; LENGTH]> for Dims {
    fn eq(&self, other: &[i64; LENGTH]) -> bool {
        self.as_slice() == other
    }
}

impl std::hash::Hash for Dims {
    fn hash<Hasher: std::hash::Hasher>(&self, state: &mut Hasher) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::Dims;

    #[test]
    fn any_number_of_dimensions_is_kept() {
        for length in 0..20 {
            let sizes: Vec<i64> = (0..length).map(|size| size * 3 - 1).collect();
            let dims: Dims = sizes.iter().copied().collect();
            assert_eq!(dims.as_slice(), sizes);
            assert_eq!(Dims::from(sizes.as_slice()), dims);
            assert_eq!(Dims::from(sizes), dims);
            assert_eq!(Dims::filled(7, length as usize).as_slice(), vec![7; length as usize]);
        }
    }

    #[test]
    fn sizes_can_be_changed_in_place() {
        let mut dims = Dims::from([2, 3, 4]);
        dims.swap(0, 2);
        dims[1] = 9;
        assert_eq!(dims, [4, 9, 2]);
        assert_eq!(format!("{dims:?}"), "[4, 9, 2]");
    }
}
