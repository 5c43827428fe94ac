//! Element types and their sizes.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    /// One byte, true or false.
    Bool,
    /// Unsigned, one byte.
    Uint8,
    /// Signed, one byte.
    Int8,
    /// Signed, two bytes.
    Int16,
    /// Signed, four bytes.
    Int32,
    /// Signed, eight bytes.
    Int64,
    /// Half precision.
    Float16,
    /// Half precision with the exponent of single.
    Bfloat16,
    /// Single precision.
    Float32,
    /// Double precision.
    Float64,
    /// Two single-precision numbers.
    Complex64,
    /// Two double-precision numbers.
    Complex128,
    /// Eight-bit floating point, four bits of exponent.
    Float8E4m3fn,
    /// Eight-bit floating point, five bits of exponent.
    Float8E5m2,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Dtype; 14] = [
        Dtype::Bool,
        Dtype::Uint8,
        Dtype::Int8,
        Dtype::Int16,
        Dtype::Int32,
        Dtype::Int64,
        Dtype::Float16,
        Dtype::Bfloat16,
        Dtype::Float32,
        Dtype::Float64,
        Dtype::Complex64,
        Dtype::Complex128,
        Dtype::Float8E4m3fn,
        Dtype::Float8E5m2,
    ];

    /// PyTorch's name for it, without `torch.`.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::Uint8 => "uint8",
            Dtype::Int8 => "int8",
            Dtype::Int16 => "int16",
            Dtype::Int32 => "int32",
            Dtype::Int64 => "int64",
            Dtype::Float16 => "float16",
            Dtype::Bfloat16 => "bfloat16",
            Dtype::Float32 => "float32",
            Dtype::Float64 => "float64",
            Dtype::Complex64 => "complex64",
            Dtype::Complex128 => "complex128",
            Dtype::Float8E4m3fn => "float8_e4m3fn",
            Dtype::Float8E5m2 => "float8_e5m2",
        }
    }

    /// The name on vramfit's command line, such as `fp32`; PyTorch's where there is none shorter.
    pub fn short_name(self) -> &'static str {
        match self {
            Dtype::Float16 => "fp16",
            Dtype::Bfloat16 => "bf16",
            Dtype::Float32 => "fp32",
            Dtype::Float64 => "fp64",
            _ => self.name(),
        }
    }

    /// The type PyTorch calls `name`.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Dtype::Bool | Dtype::Uint8 | Dtype::Int8 | Dtype::Float8E4m3fn | Dtype::Float8E5m2 => 1,
            Dtype::Int16 | Dtype::Float16 | Dtype::Bfloat16 => 2,
            Dtype::Int32 | Dtype::Float32 => 4,
            Dtype::Int64 | Dtype::Float64 | Dtype::Complex64 => 8,
            Dtype::Complex128 => 16,
        }
    }

    /// Whether gradients can flow through it.
    pub fn is_differentiable(self) -> bool {
        matches!(
            self,
            Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64 | Dtype::Complex64 | Dtype::Complex128
        )
    }

    /// Whether its numbers are complex.
    pub fn is_complex(self) -> bool {
        matches!(self, Dtype::Complex64 | Dtype::Complex128)
    }

    /// The type of the real parts of its numbers.
    pub fn of_real_part(self) -> Dtype {
        match self {
            Dtype::Complex64 => Dtype::Float32,
            Dtype::Complex128 => Dtype::Float64,
            real => real,
        }
    }

    /// Whether it is one of the two half-precision types.
    pub fn is_half(self) -> bool {
        matches!(self, Dtype::Float16 | Dtype::Bfloat16)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
