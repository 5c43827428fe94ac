//! The keys of a snapshot that are read; others are ignored.

use crate::intern::Strings;
use crate::read::pickle::Value;
use crate::snapshot::StringId;

macro_rules! keys {
    ($($key:ident = $name:literal,)*) => {
        /// A key that is read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Key {
            $(
                #[doc = $name]
                $key,
            )*
        }

        impl Key {
            const ALL: &[Key] = &[$(Key::$key),*];

            /// The key as PyTorch writes it.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Key::$key => $name,)*
                }
            }
        }
    };
}

keys! {
    Action = "action",
    Addr = "addr",
    Address = "address",
    AllocatorSettings = "allocator_settings",
    Blocks = "blocks",
    CompileContext = "compile_context",
    Device = "device",
    DeviceFree = "device_free",
    DeviceTraces = "device_traces",
    ExternalAnnotations = "external_annotations",
    Filename = "filename",
    Frames = "frames",
    History = "history",
    IsExpandable = "is_expandable",
    Line = "line",
    Name = "name",
    PoolId = "pool_id",
    RealSize = "real_size",
    RequestedSize = "requested_size",
    SegmentPoolId = "segment_pool_id",
    SegmentType = "segment_type",
    Segments = "segments",
    Size = "size",
    Stage = "stage",
    State = "state",
    Stream = "stream",
    TimeUs = "time_us",
    TotalSize = "total_size",
    UserMetadata = "user_metadata",
}

impl Key {
    /// A table in which the keys are the first strings after the empty one, so that their ids are known.
    pub(crate) fn strings() -> Strings {
        let mut strings = Strings::default();
        for key in Key::ALL {
            strings.intern(key.name());
        }
        strings
    }

    /// The key that `value` is, if it is one that is read.
    #[inline]
    pub(crate) fn of(value: Value) -> Option<Key> {
        Key::from_id(value.as_text()?)
    }

    /// The key that `id` names in a table begun by [`Key::strings`].
    #[inline]
    fn from_id(id: StringId) -> Option<Key> {
        Key::ALL.get((id.0 as usize).wrapping_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_by_the_id_of_its_name() {
        let mut strings = Key::strings();
        for &key in Key::ALL {
            assert_eq!(Key::from_id(strings.intern(key.name())), Some(key));
        }
        assert_eq!(Key::from_id(strings.intern("")), None);
        assert_eq!(Key::from_id(strings.intern("forward_frames")), None);
    }
}
