//! The header of a table of recorded answers: what the table holds, which GPU and cuDNN answered, and checksums.
//!
//! `validation/workspace_grid/table.py` writes it and lists its fields.

use flate2::Crc;
use thiserror::Error;

use crate::GpuIdentity;

const MAGIC: &[u8] = b"VFCUDNN\0";
const HEADER: usize = 64;
/// The header's last four bytes are the checksum of those before.
const CHECKED: usize = 60;
const NAME: std::ops::Range<usize> = 34..CHECKED;

/// What a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Workspaces of layers at every batch size.
    Series,
    /// Decision trees for all other layers.
    Trees,
    /// Workspaces of common layers by compute capability.
    ByCapability,
    /// Recorded recurrent layers.
    #[cfg(test)]
    Recurrent,
}

impl TableKind {
    fn tag(self) -> &'static [u8] {
        match self {
            TableKind::Series => b"SERS",
            TableKind::Trees => b"TREE",
            TableKind::ByCapability => b"CAPS",
            #[cfg(test)]
            TableKind::Recurrent => b"RECU",
        }
    }

    /// The only format version that this build reads.
    fn version(self) -> u32 {
        match self {
            TableKind::Series => 3,
            TableKind::Trees => 2,
            _ => 1,
        }
    }
}

/// Why bytes cannot be used as a table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// It does not begin as a table does.
    #[error("not a cuDNN table")]
    NotATable,
    /// The header's checksum does not match.
    #[error("the table's header is damaged")]
    DamagedHeader,
    /// The table holds something other than what was expected.
    #[error("the table is of another kind than expected")]
    WrongKind,
    /// The format is newer or older than what this build reads.
    #[error("the table has format version {found}, but this build reads {supported}")]
    UnsupportedVersion {
        /// The table's version.
        found: u32,
        /// The version that can be read.
        supported: u32,
    },
    /// The payload is not as long as the header says.
    #[error("the table's payload has {found} bytes instead of {expected}")]
    WrongLength {
        /// Bytes after the header.
        found: usize,
        /// Bytes according to the header.
        expected: usize,
    },
    /// The payload's own counts do not fit its length.
    #[error("the table's payload is malformed")]
    Malformed,
    /// Two tables that belong together come from different GPUs or cuDNN versions.
    #[error("the tables were recorded on different GPUs or with different versions of cuDNN")]
    DifferentSources,
}

/// Whose answers a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSource<'t> {
    /// The GPU.
    pub gpu: GpuIdentity,
    /// The GPU's name.
    pub gpu_name: &'t str,
    /// The version of cuDNN, as `cudnnGetVersion` returns it.
    pub cudnn: u32,
}

/// A table whose header has been checked. The payload's checksum is not verified here: at 9 MB that takes milliseconds, and the crate's
/// tests do it. So readers of a payload must not trust it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'t> {
    pub source: TableSource<'t>,
    pub payload: &'t [u8],
    #[cfg(test)]
    payload_checksum: u32,
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Two bytes, little endian.
pub(crate) fn half_word(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_le_bytes(*bytes)))
}

/// Four bytes, little endian.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

impl<'t> Table<'t> {
    /// Checks the header and the length.
    pub fn read(bytes: &'t [u8], kind: TableKind) -> Result<Table<'t>, TableError> {
        if !bytes.starts_with(MAGIC) {
            return Err(TableError::NotATable);
        }
        let (header, payload) = bytes.split_at_checked(HEADER).ok_or(TableError::DamagedHeader)?;
        let number = |at: usize| word(header, at).ok_or(TableError::DamagedHeader);
        let half = |at: usize| half_word(header, at).ok_or(TableError::DamagedHeader);
        if number(CHECKED)? != checksum(&header[..CHECKED]) || half(14)? != HEADER {
            return Err(TableError::DamagedHeader);
        }
        if &header[8..12] != kind.tag() {
            return Err(TableError::WrongKind);
        }
        let (found, supported) = (half(12)? as u32, kind.version());
        if found != supported {
            return Err(TableError::UnsupportedVersion { found, supported });
        }
        let expected = number(16)? as usize;
        if payload.len() != expected {
            return Err(TableError::WrongLength { found: payload.len(), expected });
        }
        let gpu = GpuIdentity {
            compute_capability: (header[28], header[29]),
            multiprocessors: half(30)? as i64,
            threads_per_multiprocessor: half(32)? as i64,
        };
        let gpu_name = str::from_utf8(&header[NAME]).map_err(|_| TableError::DamagedHeader)?.trim_end_matches('\0');
        let source = TableSource { gpu, gpu_name, cudnn: number(24)? };
        Ok(Table {
            source,
            payload,
            #[cfg(test)]
            payload_checksum: number(20)?,
        })
    }
}

#[cfg(test)]
impl Table<'_> {
    /// Whether the payload has the checksum that the header names.
    pub fn is_intact(&self) -> bool {
        checksum(self.payload) == self.payload_checksum
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table of the H200 with this payload.
    pub(crate) fn table_of(kind: TableKind, payload: &[u8]) -> Vec<u8> {
        let mut bytes = [MAGIC, kind.tag()].concat();
        bytes.extend([kind.version() as u16, 64].into_iter().flat_map(u16::to_le_bytes));
        bytes.extend([payload.len() as u32, checksum(payload), 91_900].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend([9, 0]);
        bytes.extend([132_u16, 2048].into_iter().flat_map(u16::to_le_bytes));
        bytes.extend(b"NVIDIA H200");
        bytes.resize(CHECKED, 0);
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Table<'_>, TableError> {
        Table::read(bytes, TableKind::Series)
    }

    #[test]
    fn a_complete_table_says_whose_answers_it_holds() {
        let bytes = table_of(TableKind::Series, b"payload");
        let table = read(&bytes).unwrap();
        assert_eq!(
            (table.payload, table.source.gpu_name, table.source.cudnn),
            (&b"payload"[..], "NVIDIA H200", 91_900)
        );
        let gpu = GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };
        assert!(table.source.gpu == gpu && table.is_intact());
    }

    #[test]
    fn a_truncated_table_is_refused_at_every_length() {
        let bytes = table_of(TableKind::Series, b"payload");
        for length in 0..bytes.len() {
            let expected = match length {
                0..8 => TableError::NotATable,
                8..64 => TableError::DamagedHeader,
                _ => TableError::WrongLength { found: length - 64, expected: 7 },
            };
            assert_eq!(read(&bytes[..length]).unwrap_err(), expected, "{length} bytes");
        }
        let longer = [&bytes[..], b"!"].concat();
        assert_eq!(read(&longer).unwrap_err(), TableError::WrongLength { found: 8, expected: 7 });
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let bytes = table_of(TableKind::Series, b"payload");
        for bit in 0..HEADER * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 64 { TableError::NotATable } else { TableError::DamagedHeader };
            assert_eq!(read(&damaged).unwrap_err(), expected, "bit {bit}");
        }
    }

    #[test]
    fn a_damaged_payload_fails_its_checksum() {
        let mut bytes = table_of(TableKind::Series, b"payload");
        bytes[70] ^= 1;
        assert!(!read(&bytes).unwrap().is_intact());
    }

    #[test]
    fn another_kind_and_another_version_are_refused() {
        let trees = table_of(TableKind::Trees, b"");
        assert_eq!(read(&trees).unwrap_err(), TableError::WrongKind);
        let mut newer = table_of(TableKind::Series, b"");
        newer[12] = 4;
        let header = checksum(&newer[..CHECKED]).to_le_bytes();
        newer[CHECKED..].copy_from_slice(&header);
        assert_eq!(read(&newer).unwrap_err(), TableError::UnsupportedVersion { found: 4, supported: 3 });
    }
}
