//! Releases of PyTorch: which one was measured, and which cuDNN the wheels of the others bring.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A release of PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TorchRelease {
    major: u32,
    minor: u32,
}

/// A text that is no version of PyTorch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("found {found:?}, needed a version of PyTorch such as 2.8 or 2.11.0")]
pub struct NotATorchRelease {
    found: String,
}

impl TorchRelease {
    /// The release whose source the rules follow, and with which everything was measured.
    pub const MEASURED: TorchRelease = TorchRelease { major: 2, minor: 11 };

    /// The cuDNN that the release's wheel on PyPI requires, if that is known.
    pub fn cudnn(self) -> Option<&'static str> {
        match (self.major, self.minor) {
            (2, 4..=6) => Some("9.1.0"),
            (2, 7) => Some("9.5.1"),
            (2, 8..=10) => Some("9.10.2"),
            (2, 11) => Some("9.19.0"),
            (2, 12) => Some("9.20.0"),
            _ => None,
        }
    }
}

impl fmt::Display for TorchRelease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for TorchRelease {
    type Err = NotATorchRelease;

    /// Reads `2.8`, and `2.8.0+cu128` as `torch.__version__` has it.
    fn from_str(text: &str) -> Result<TorchRelease, NotATorchRelease> {
        let failed = || NotATorchRelease { found: text.to_owned() };
        let mut numbers = text.split(['.', '+', 'a', 'r']).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major @ 1..)), Some(Ok(minor))) => Ok(TorchRelease { major, minor }),
            _ => Err(failed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_people_and_torch_write_it() {
        for text in ["2.8", "2.8.0", "2.8.1+cu128", "2.8.0a0+git1234"] {
            assert_eq!(text.parse(), Ok(TorchRelease { major: 2, minor: 8 }), "{text}");
        }
        for text in ["", "2", "v2.8", "two.eight", "2.", "0.4.1", "2.-1"] {
            assert_eq!(text.parse::<TorchRelease>(), Err(NotATorchRelease { found: text.to_owned() }));
        }
    }

    #[test]
    fn releases_know_the_cudnn_of_their_wheels() {
        let cudnn = |text: &str| text.parse::<TorchRelease>().unwrap().cudnn();
        assert_eq!(cudnn("2.6"), Some("9.1.0"));
        assert_eq!(cudnn("2.10.0"), Some("9.10.2"));
        assert_eq!(TorchRelease::MEASURED.cudnn(), Some("9.19.0"));
        assert_eq!(cudnn("1.13"), None);
    }
}
