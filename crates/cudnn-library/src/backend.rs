//! The few functions of cuDNN's backend API that a question needs.
//!
//! Descriptors are opaque pointers that the library allocates; [`Descriptor`] destroys its own.

#![allow(unsafe_code, reason = "cuDNN is a C library")]

use std::ffi::c_void;
use std::path::Path;
use std::ptr;
use std::rc::Rc;

use libloading::Library;

use crate::locate::cublas_libraries;

type Raw = *mut c_void;
type Status = i32;

type Version = unsafe extern "C" fn() -> usize;
type Create = unsafe extern "C" fn(i32, *mut Raw) -> Status;
type Finalize = unsafe extern "C" fn(Raw) -> Status;
type Set = unsafe extern "C" fn(Raw, i32, i32, i64, *const c_void) -> Status;
type Get = unsafe extern "C" fn(Raw, i32, i32, i64, *mut i64, *mut c_void) -> Status;

/// The kinds of descriptors.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(crate) enum Kind {
    Convolution = 1,
    Engine = 2,
    EngineConfig = 3,
    EngineHeuristics = 4,
    ExecutionPlan = 5,
    KnobChoice = 7,
    Forward = 10,
    WeightGradient = 11,
    InputGradient = 12,
    OperationGraph = 15,
    Tensor = 17,
    DeviceProperties = 38,
}

/// The types of attributes.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
enum Attribute {
    Int64 = 3,
    Float = 4,
    Boolean = 2,
    DataType = 1,
    ConvolutionMode = 7,
    HeuristicMode = 8,
    Knob = 9,
    NumericalNote = 11,
    Descriptor = 15,
    Char = 24,
}

/// A status other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cuDNN answered with status {0}")]
pub(crate) struct Refused(pub(crate) Status);

fn checked(status: Status) -> Result<(), Refused> {
    if status == 0 { Ok(()) } else { Err(Refused(status)) }
}

/// Loads cuBLASLt. cuDNN looks it up by name when it compares plans, and ends the process if it is not there. A cuBLASLt that is
/// not next to cuDNN may still be found by the loader.
pub(crate) fn load_dependencies(cudnn: &Path) {
    cublas_libraries(cudnn).iter().for_each(|library| keep_loaded(library));
}

/// Loads a library for the rest of the process, if it is there.
pub(crate) fn keep_loaded(path: &Path) {
    // SAFETY: a library of the same installation as the cuDNN that the user wants to ask.
    if let Ok(library) = unsafe { Library::new(path) } {
        std::mem::forget(library);
    }
}

/// cuDNN, loaded into this process.
#[derive(Clone)]
pub(crate) struct Backend(Rc<Functions>);

struct Functions {
    create: Create,
    destroy: Finalize,
    finalize: Finalize,
    set: Set,
    get: Get,
    version: usize,
    /// Keeps the functions valid.
    _library: Library,
}

impl Backend {
    /// Loads the library. This runs its initialisers: only a path that the user trusts may be given.
    pub(crate) fn load(path: &Path) -> Result<Backend, libloading::Error> {
        // SAFETY: the types are those of cudnn_graph.h, unchanged since cuDNN 8; the library outlives the functions.
        unsafe {
            let library = Library::new(path)?;
            let version: Version = *library.get(b"cudnnGetVersion\0")?;
            Ok(Backend(Rc::new(Functions {
                create: *library.get(b"cudnnBackendCreateDescriptor\0")?,
                destroy: *library.get(b"cudnnBackendDestroyDescriptor\0")?,
                finalize: *library.get(b"cudnnBackendFinalize\0")?,
                set: *library.get(b"cudnnBackendSetAttribute\0")?,
                get: *library.get(b"cudnnBackendGetAttribute\0")?,
                version: version(),
                _library: library,
            })))
        }
    }

    /// Such as 91900 for 9.19.0.
    pub(crate) fn version(&self) -> usize {
        self.0.version
    }

    /// A new descriptor.
    pub(crate) fn descriptor(&self, kind: Kind) -> Result<Descriptor, Refused> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a valid place for a pointer.
        checked(unsafe { (self.0.create)(kind as i32, &raw mut raw) })?;
        Ok(Descriptor { raw, backend: self.clone() })
    }
}

/// An object of the library.
pub(crate) struct Descriptor {
    raw: Raw,
    backend: Backend,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the library made it, and nothing uses it afterwards. There is nothing to do about a failure.
        unsafe { (self.backend.0.destroy)(self.raw) };
    }
}

impl Descriptor {
    fn set<T>(&self, name: i32, kind: Attribute, values: &[T]) -> Result<(), Refused> {
        // SAFETY: the callers below pair each type of attribute with its type in C.
        checked(unsafe {
            (self.backend.0.set)(self.raw, name, kind as i32, values.len() as i64, values.as_ptr().cast())
        })
    }

    /// Sets integers.
    pub(crate) fn set_integers(&self, name: i32, values: &[i64]) -> Result<(), Refused> {
        self.set(name, Attribute::Int64, values)
    }

    /// Sets a single-precision number.
    pub(crate) fn set_float(&self, name: i32, value: f32) -> Result<(), Refused> {
        self.set(name, Attribute::Float, &[value])
    }

    /// Sets a truth value.
    pub(crate) fn set_boolean(&self, name: i32, value: bool) -> Result<(), Refused> {
        self.set(name, Attribute::Boolean, &[value])
    }

    /// Sets an element type, given as cuDNN's number.
    pub(crate) fn set_data_type(&self, name: i32, value: i32) -> Result<(), Refused> {
        self.set(name, Attribute::DataType, &[value])
    }

    /// Sets convolution or cross-correlation, given as cuDNN's number.
    pub(crate) fn set_convolution_mode(&self, name: i32, value: i32) -> Result<(), Refused> {
        self.set(name, Attribute::ConvolutionMode, &[value])
    }

    /// Sets the heuristic to ask, given as cuDNN's number.
    pub(crate) fn set_heuristic_mode(&self, name: i32, value: i32) -> Result<(), Refused> {
        self.set(name, Attribute::HeuristicMode, &[value])
    }

    /// Sets a text.
    pub(crate) fn set_text(&self, name: i32, text: &str) -> Result<(), Refused> {
        self.set(name, Attribute::Char, text.as_bytes())
    }

    /// Sets another descriptor.
    pub(crate) fn set_descriptor(&self, name: i32, other: &Descriptor) -> Result<(), Refused> {
        self.set(name, Attribute::Descriptor, &[other.raw])
    }

    /// Completes the descriptor.
    pub(crate) fn finalize(&self) -> Result<(), Refused> {
        // SAFETY: the descriptor is alive.
        checked(unsafe { (self.backend.0.finalize)(self.raw) })
    }

    fn get<T>(&self, name: i32, kind: Attribute, room: &mut [T]) -> Result<usize, Refused> {
        let mut count = 0;
        // cuDNN says how many values there are only where there is no place for any.
        let place = if room.is_empty() { ptr::null_mut() } else { room.as_mut_ptr().cast() };
        // SAFETY: there is room for as many values as are requested.
        checked(unsafe {
            (self.backend.0.get)(self.raw, name, kind as i32, room.len() as i64, &raw mut count, place)
        })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// An integer.
    pub(crate) fn integer(&self, name: i32) -> Result<i64, Refused> {
        let mut value = [0];
        self.get(name, Attribute::Int64, &mut value)?;
        Ok(value[0])
    }

    /// A setting of an engine, as cuDNN's number.
    pub(crate) fn knob(&self, name: i32) -> Result<i32, Refused> {
        let mut value = [0];
        self.get(name, Attribute::Knob, &mut value)?;
        Ok(value[0])
    }

    /// The numerical notes of an engine, as cuDNN's numbers.
    pub(crate) fn notes(&self, name: i32) -> Result<Vec<i32>, Refused> {
        let mut notes = [0; 16];
        let count = self.get(name, Attribute::NumericalNote, &mut notes)?;
        Ok(notes[..count.min(notes.len())].to_vec())
    }

    /// How many descriptors an attribute has.
    pub(crate) fn count(&self, name: i32) -> Result<usize, Refused> {
        let mut none: [Raw; 0] = [];
        self.get(name, Attribute::Descriptor, &mut none)
    }

    /// Up to `limit` descriptors of this kind.
    pub(crate) fn descriptors(&self, name: i32, kind: Kind, limit: usize) -> Result<Vec<Descriptor>, Refused> {
        let mut made = Vec::with_capacity(limit);
        for _ in 0..limit {
            made.push(self.backend.descriptor(kind)?);
        }
        let mut raw: Vec<Raw> = made.iter().map(|descriptor| descriptor.raw).collect();
        let count = self.get(name, Attribute::Descriptor, &mut raw)?;
        made.truncate(count);
        Ok(made)
    }
}
