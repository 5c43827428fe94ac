//! The path of a value in a snapshot, in Python's notation: `device_traces[0][17].size`.

use std::fmt;

use super::key::Key;

/// The path from the root to a value; formatted only for an error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, Key),
    Name(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn key(&'a self, key: Key) -> Path<'a> {
        Path::Key(self, key)
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => formatter.write_str("snapshot"),
            Path::Key(Path::Root, key) => formatter.write_str(key.name()),
            Path::Key(parent, key) => write!(formatter, "{parent}.{}", key.name()),
            Path::Name(parent, name) => write!(formatter, "{parent}.{name}"),
            Path::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_in_python() {
        let traces = Path::Root.key(Key::DeviceTraces);
        let trace = traces.index(0);
        let event = trace.index(17);
        assert_eq!(event.key(Key::Size).to_string(), "device_traces[0][17].size");
        assert_eq!(Path::Root.index(3).to_string(), "snapshot[3]");
    }
}
