//! A small pickler, so that tests can write the files they need.

/// A Python value.
#[derive(Clone, Debug, PartialEq)]
pub enum Python {
    None,
    Bool(bool),
    Int(i64),
    /// 2^63 or more.
    Large(u64),
    Float(f64),
    Text(String),
    List(Vec<Python>),
    Tuple(Vec<Python>),
    Dict(Vec<(Python, Python)>),
}

impl From<i64> for Python {
    fn from(number: i64) -> Self {
        Python::Int(number)
    }
}

impl From<bool> for Python {
    fn from(truth: bool) -> Self {
        Python::Bool(truth)
    }
}

impl From<&str> for Python {
    fn from(text: &str) -> Self {
        Python::Text(text.to_owned())
    }
}

impl From<Vec<Python>> for Python {
    fn from(items: Vec<Python>) -> Self {
        Python::List(items)
    }
}

/// A dict with string keys.
pub fn dict<const N: usize>(entries: [(&str, Python); N]) -> Python {
    Python::Dict(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// A list.
pub fn list<const N: usize>(items: [Python; N]) -> Python {
    Python::List(items.into())
}

impl Python {
    /// The value of a dict's key.
    #[track_caller]
    pub fn at(&mut self, key: &str) -> &mut Python {
        let Python::Dict(entries) = self else { panic!("{key}: not a dict") };
        let wanted = Python::from(key);
        &mut entries.iter_mut().find(|(key, _)| *key == wanted).expect("the key is there").1
    }

    /// An item of a list.
    #[track_caller]
    pub fn item(&mut self, index: usize) -> &mut Python {
        let Python::List(items) = self else { panic!("{index}: not a list") };
        &mut items[index]
    }

    /// Removes a dict's key.
    #[track_caller]
    pub fn remove(&mut self, key: &str) {
        let Python::Dict(entries) = self else { panic!("{key}: not a dict") };
        let wanted = Python::from(key);
        entries.retain(|(key, _)| *key != wanted);
    }

    /// Gives a dict one more entry.
    #[track_caller]
    pub fn add(&mut self, key: &str, value: impl Into<Python>) {
        let Python::Dict(entries) = self else { panic!("{key}: not a dict") };
        entries.push((key.into(), value.into()));
    }

    /// Calls `change` on all that this value holds, then on itself.
    pub fn walk(&mut self, change: &mut dyn FnMut(&mut Python)) {
        match self {
            Python::List(items) | Python::Tuple(items) => items.iter_mut().for_each(|item| item.walk(change)),
            Python::Dict(entries) => entries.iter_mut().for_each(|(_, value)| value.walk(change)),
            _ => {}
        }
        change(self);
    }

    /// This value as a pickle of protocol 4 in which nothing is shared.
    pub fn pickle(&self) -> Vec<u8> {
        let mut bytes = vec![0x80, 4];
        self.write(&mut bytes, &mut |_, _| false);
        bytes.push(b'.');
        bytes
    }

    /// This value as a pickle of protocol 4 in which equal frames are one dict, taken from the memo, as in PyTorch's.
    pub fn pickle_with_shared_frames(&self) -> Vec<u8> {
        self.pickle_with_shared("filename", false)
    }

    /// The same with the trace entries in the memo, the last one first.
    pub fn pickle_with_entries_made_backwards(&self) -> Vec<u8> {
        self.pickle_with_shared("action", true)
    }

    fn pickle_with_shared(&self, has: &str, is_backwards: bool) -> Vec<u8> {
        let mut bytes = vec![0x80, 4];
        let mut known: Vec<Python> = Vec::new();
        self.clone().walk(&mut |value| {
            let is_shared = matches!(value, Python::Dict(entries) if entries.iter().any(|(key, _)| *key == has.into()));
            if is_shared && !known.contains(value) {
                known.push(value.clone());
            }
        });
        if is_backwards {
            known.reverse();
        }
        for (index, value) in known.iter().enumerate() {
            value.write(&mut bytes, &mut |_, _| false);
            bytes.extend(b"r");
            bytes.extend((1001 + index as u32).to_le_bytes());
            bytes.push(b'0');
        }
        self.write(&mut bytes, &mut |value, bytes| match known.iter().position(|known| known == value) {
            Some(index) => {
                bytes.push(b'j');
                bytes.extend((1001 + index as u32).to_le_bytes());
                true
            }
            None => false,
        });
        bytes.push(b'.');
        bytes
    }

    /// Writes this value, or what `shared` writes in its place.
    fn write(&self, bytes: &mut Vec<u8>, shared: &mut dyn FnMut(&Python, &mut Vec<u8>) -> bool) {
        if shared(self, bytes) {
            return;
        }
        match self {
            Python::None => bytes.push(b'N'),
            Python::Bool(truth) => bytes.push(if *truth { 0x88 } else { 0x89 }),
            Python::Int(number) => {
                bytes.extend([0x8a, 8]);
                bytes.extend(number.to_le_bytes());
            }
            Python::Large(number) => {
                bytes.extend([0x8a, 9]);
                bytes.extend(number.to_le_bytes());
                bytes.push(0);
            }
            Python::Float(number) => {
                bytes.push(b'G');
                bytes.extend(number.to_be_bytes());
            }
            Python::Text(text) => {
                bytes.push(b'X');
                bytes.extend((text.len() as u32).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
            Python::List(items) => {
                bytes.extend(b"]\x94(");
                items.iter().for_each(|item| item.write(bytes, shared));
                bytes.push(b'e');
            }
            Python::Tuple(items) => {
                bytes.push(b'(');
                items.iter().for_each(|item| item.write(bytes, shared));
                bytes.extend(b"t\x94");
            }
            Python::Dict(entries) => {
                bytes.extend(b"}\x94(");
                for (key, value) in entries {
                    key.write(bytes, shared);
                    value.write(bytes, shared);
                }
                bytes.push(b'u');
            }
        }
    }
}

pub const BASE: i64 = 0x7f2a_4000_0000;

/// A frame.
pub fn frame(file: &str, function: &str, line: i64) -> Python {
    dict([("name", function.into()), ("filename", file.into()), ("line", line.into())])
}

/// A trace entry as torch 2.11 writes it.
pub fn entry(action: &str, address: i64, size: i64) -> Python {
    dict([
        ("action", action.into()),
        (if action == "oom" { "device_free" } else { "addr" }, address.into()),
        ("size", size.into()),
        ("stream", 0.into()),
        ("time_us", 1_760_000_000_000_000.into()),
        ("compile_context", "N/A".into()),
        ("user_metadata", "".into()),
        ("pool_id", Python::Tuple(vec![0.into(), 0.into()])),
        ("frames", list([frame("train.py", "step", 12), frame("train.py", "main", 40)])),
    ])
}

/// A block as torch 2.11 writes it.
pub fn block(address: i64, size: i64, state: &str) -> Python {
    dict([
        ("address", address.into()),
        ("size", size.into()),
        ("requested_size", (size - 12).into()),
        ("state", state.into()),
        ("frames", list([frame("train.py", "step", 12)])),
    ])
}

/// A segment as torch 2.11 writes it.
pub fn segment(address: i64, total_size: i64, blocks: Vec<Python>) -> Python {
    dict([
        ("device", 0.into()),
        ("address", address.into()),
        ("total_size", total_size.into()),
        ("allocated_size", 512.into()),
        ("active_size", 512.into()),
        ("requested_size", 500.into()),
        ("stream", 0.into()),
        ("segment_type", "small".into()),
        ("segment_pool_id", Python::Tuple(vec![0.into(), 0.into()])),
        ("is_expandable", false.into()),
        ("frames", list([frame("train.py", "step", 12)])),
        ("blocks", blocks.into()),
    ])
}

/// A snapshot as torch 2.11 writes it.
pub fn snapshot() -> Python {
    let blocks = vec![block(BASE, 512, "active_allocated"), block(BASE + 512, (2 << 20) - 512, "inactive")];
    dict([
        ("segments", list([segment(BASE, 2 << 20, blocks)])),
        (
            "device_traces",
            list([list([
                entry("segment_alloc", BASE, 2 << 20),
                entry("alloc", BASE, 500),
                entry("alloc", BASE + 512, 500),
                entry("free_requested", BASE + 512, 500),
                entry("free_completed", BASE + 512, 500),
                entry("oom", 123, 1 << 40),
                entry("snapshot", 0, 0),
            ])]),
        ),
        ("allocator_settings", dict([("PYTORCH_CUDA_ALLOC_CONF", "".into()), ("max_split_size", (-1).into())])),
        (
            "external_annotations",
            list([dict([
                ("name", "step".into()),
                ("stage", "START".into()),
                ("device", 0.into()),
                ("time_us", 7.into()),
            ])]),
        ),
    ])
}
