//! Lets cuDNN name the engines that use cuBLASLt on a machine without a GPU.
//!
//! cuDNN looks functions of cuBLASLt up with `dlsym`. Without a GPU a handle of cuBLASLt cannot be created, and cuDNN leaves the engines out
//! that use it: those of most pointwise layers. [`install`] replaces `dlsym` in cuDNN's libraries, in this process only, and answers three
//! names with functions of this file: creating and destroying a handle, and finding an algorithm. The one that is found needs no workspace.
//! So the workspace of such a plan is cuDNN's own part of it. All other functions are those of the installed cuBLASLt.

#![allow(unsafe_code, reason = "the tables of loaded libraries are changed")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libc::{PT_DYNAMIC, dl_phdr_info};

use crate::backend::keep_loaded;

/// The library of cuDNN that has the engines which use cuBLASLt. cuDNN loads it when it makes its first plan.
const ENGINES: &str = "libcudnn_engines_precompiled.so.9";
/// The start of the file names of cuDNN's libraries.
const CUDNN: &str = "libcudnn";

// Tags of a dynamic section, and relocations that hold the address of a function, from elf.h.
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
#[cfg(target_arch = "x86_64")]
const FUNCTION_ADDRESSES: [u64; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const FUNCTION_ADDRESSES: [u64; 2] = [1025, 1026];

/// An entry of a dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// An entry of a relocation table.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// An entry of a symbol table.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
struct HeuristicResult {
    algorithm: [u64; 8],
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// Replaces `dlsym` in the libraries of a loaded cuDNN. `false` if none of them has it.
pub(crate) fn install(cudnn: &Path) -> bool {
    keep_loaded(&cudnn.with_file_name(ENGINES));
    let mut replaced = 0_usize;
    // SAFETY: the callback has the type that `dl_iterate_phdr` wants, and `replaced` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(replace_in), (&raw mut replaced).cast()) };
    replaced > 0
}

/// Replaces `dlsym` in one loaded object if it belongs to cuDNN.
unsafe extern "C" fn replace_in(object: *mut dl_phdr_info, _size: usize, replaced: *mut c_void) -> c_int {
    // SAFETY: the loader passes a loaded object whose tables are mapped, and `install` its counter.
    unsafe {
        let object = &*object;
        let name = CStr::from_ptr(object.dlpi_name).to_string_lossy();
        if name.rsplit('/').next().is_some_and(|file| file.starts_with(CUDNN)) {
            let places = Tables::of(object).map(|tables| tables.places_of(c"dlsym")).unwrap_or_default();
            *replaced.cast::<usize>() += places.into_iter().filter(|place| write(*place)).count();
        }
    }
    0
}

/// Where a loaded object has its tables.
#[derive(Default)]
struct Tables {
    base: u64,
    strings: u64,
    symbols: u64,
    /// Addresses and bytes of its relocation tables.
    relocations: [(u64, u64); 2],
}

impl Tables {
    /// # Safety
    /// The object must be loaded.
    unsafe fn of(object: &dl_phdr_info) -> Option<Tables> {
        // SAFETY: a loaded object has as many headers as it says, and its dynamic section ends with a tag of zero.
        unsafe {
            let headers = std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum));
            let dynamic = headers.iter().find(|header| header.p_type == PT_DYNAMIC)?;
            let base = object.dlpi_addr;
            // glibc has replaced offsets in the file by addresses; other loaders leave them.
            let address = |value: u64| if value < base { base + value } else { value };
            let mut tables = Tables { base, ..Tables::default() };
            let mut entry = (base + dynamic.p_vaddr) as *const Dynamic;
            while (*entry).tag != 0 {
                let value = (*entry).value;
                match (*entry).tag {
                    DT_STRTAB => tables.strings = address(value),
                    DT_SYMTAB => tables.symbols = address(value),
                    DT_RELA => tables.relocations[0].0 = address(value),
                    DT_RELASZ => tables.relocations[0].1 = value,
                    DT_JMPREL => tables.relocations[1].0 = address(value),
                    DT_PLTRELSZ => tables.relocations[1].1 = value,
                    _ => {}
                }
                entry = entry.add(1);
            }
            (tables.strings != 0 && tables.symbols != 0).then_some(tables)
        }
    }

    /// The places that hold the address of a function.
    ///
    /// # Safety
    /// The tables must be those of a loaded object.
    unsafe fn places_of(&self, function: &CStr) -> Vec<*mut *const c_void> {
        let mut places = Vec::new();
        for (address, bytes) in self.relocations.into_iter().filter(|(address, _)| *address != 0) {
            let count = bytes as usize / size_of::<Relocation>();
            // SAFETY: the tables are mapped for as long as the object is loaded, which is to the end of the process.
            unsafe {
                for relocation in std::slice::from_raw_parts(address as *const Relocation, count) {
                    let symbol = (self.symbols as *const Symbol).add((relocation.info >> 32) as usize);
                    let name = CStr::from_ptr((self.strings + u64::from((*symbol).name)) as *const c_char);
                    if FUNCTION_ADDRESSES.contains(&(relocation.info & 0xffff_ffff)) && name == function {
                        places.push((self.base + relocation.offset) as *mut *const c_void);
                    }
                }
            }
        }
        places
    }
}

/// Writes the address of [`find`] to a place that may be read-only by now. `false` if that is not possible.
///
/// # Safety
/// The place must be an entry of a loaded object's table of addresses.
unsafe fn write(place: *mut *const c_void) -> bool {
    // SAFETY: the pages of the place belong to a loaded object's data, and stay readable.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE).max(1) as usize;
        let start = place as usize / page * page;
        let bytes = place as usize + size_of::<*const c_void>() - start;
        if libc::mprotect(start as *mut c_void, bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        place.write(find as *const c_void);
    }
    true
}

/// `dlsym`, except for three names.
unsafe extern "C" fn find(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller passes what `dlsym` takes.
    unsafe {
        match CStr::from_ptr(name).to_bytes() {
            b"cublasLtCreate" => create as *mut c_void,
            b"cublasLtDestroy" => destroy as *mut c_void,
            b"cublasLtMatmulAlgoGetHeuristic" => find_algorithm as *mut c_void,
            _ => libc::dlsym(library, name),
        }
    }
}

/// What the handle points to. Nothing reads it.
static HANDLE: u64 = 0;

unsafe extern "C" fn create(handle: *mut *const c_void) -> c_int {
    // SAFETY: the caller passes a place for a handle.
    unsafe { *handle = (&raw const HANDLE).cast() };
    0
}

unsafe extern "C" fn destroy(_handle: *mut c_void) -> c_int {
    0
}

#[allow(clippy::too_many_arguments, reason = "the function of cuBLASLt has these")]
unsafe extern "C" fn find_algorithm(
    _handle: *mut c_void,
    _operation: *mut c_void,
    _a: *mut c_void,
    _b: *mut c_void,
    _c: *mut c_void,
    _d: *mut c_void,
    _preference: *mut c_void,
    wanted: c_int,
    results: *mut HeuristicResult,
    found: *mut c_int,
) -> c_int {
    let is_wanted = wanted > 0 && !results.is_null();
    // SAFETY: the caller passes room for `wanted` results, and a place for their number.
    unsafe {
        if is_wanted {
            ptr::write_bytes(results, 0, 1);
            (*results).waves = 1.0;
        }
        *found = c_int::from(is_wanted);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_functions_are_replaced_and_others_found_as_before() {
        let look_up = |name: &CStr| unsafe { find(libc::RTLD_DEFAULT, name.as_ptr()) };
        assert_eq!(look_up(c"cublasLtCreate"), create as *mut c_void);
        assert_eq!(look_up(c"getpid"), libc::getpid as *mut c_void);
        assert!(look_up(c"cublasLtNothing").is_null());
    }

    #[test]
    fn the_one_algorithm_that_is_found_needs_no_workspace() {
        let result = || HeuristicResult { algorithm: [7; 8], workspace: 7, state: 7, waves: 7.0, reserved: [7; 4] };
        let mut results = [result(), result()];
        let (mut found, null) = (7, ptr::null_mut());
        let status = unsafe {
            find_algorithm(null, null, null, null, null, null, null, 2, results.as_mut_ptr(), &raw mut found)
        };
        assert_eq!((status, found), (0, 1));
        assert_eq!((results[0].workspace, results[0].state, results[1].workspace), (0, 0, 7));
        unsafe { find_algorithm(null, null, null, null, null, null, null, 0, ptr::null_mut(), &raw mut found) };
        assert_eq!(found, 0);
    }

    unsafe extern "C" fn collect(object: *mut dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
        let tables = unsafe { Tables::of(&*object) };
        let places = tables.map(|tables| unsafe { tables.places_of(c"write") }).unwrap_or_default();
        unsafe { (*found.cast::<Vec<*mut *const c_void>>()).extend(places) };
        0
    }

    #[test]
    fn places_of_a_function_hold_its_address() {
        let mut places: Vec<*mut *const c_void> = Vec::new();
        unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut places).cast()) };
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"write".as_ptr()) }.cast_const();
        assert!(places.iter().any(|place| unsafe { **place } == address), "{places:?}");
    }

    #[test]
    fn a_process_without_cudnn_is_left_alone() {
        assert!(!install(Path::new("missing/libcudnn.so.9")));
    }
}
