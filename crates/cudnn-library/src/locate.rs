//! Finds the cuDNN of a path, of a Python environment or of the system. Nothing is run or loaded for that.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The library's file names, the most specific first.
const LIBRARIES: &[&str] = &["libcudnn.so.9", "libcudnn.so", "cudnn64_9.dll", "libcudnn.so.8"];

/// Folders of a `site-packages` with a cuDNN: of the `nvidia-cudnn` wheels, and of torch itself.
const PACKAGE_FOLDERS: &[&str] = &["nvidia/cudnn/lib", "nvidia/cudnn/bin", "torch/lib"];

/// Folders beside the package of cuDNN that have a cuBLASLt.
const CUBLAS_FOLDERS: &[&str] = &["cublas/lib", "cu13/lib", "cublas/bin", "cu13/bin/x86_64", "../torch/lib"];

/// Folders of a system with libraries, beside those that the loader is configured with.
const SYSTEM_FOLDERS: &[&str] = &[
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/cuda/lib64",
    "usr/local/cuda/lib",
];

/// The library at a path, which may be the library itself, its folder, a `site-packages` or a Python environment.
pub fn locate(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    let packages = std::iter::once(path.to_owned()).chain(site_packages(path));
    let folders = packages.flat_map(|packages| PACKAGE_FOLDERS.iter().map(move |folder| packages.join(folder)));
    // conda has no package folder of its own for it; or the path is the packages' common folder `nvidia`.
    let own = ["", "lib", "cudnn/lib", "cudnn/bin"].map(|folder| path.join(folder));
    folders.chain(own).find_map(|folder| library_in(&folder))
}

/// Whether a file begins as the shared libraries of Linux or Windows do.
pub fn is_shared_library(file: &Path) -> bool {
    let mut start = [0; 4];
    // What is no plain file, such as a pipe, could be waited for without end.
    let is_read = file.is_file() && fs::File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok();
    is_read && (start == *b"\x7fELF" || start.starts_with(b"MZ"))
}

fn library_in(folder: &Path) -> Option<PathBuf> {
    LIBRARIES.iter().map(|name| folder.join(name)).find(|file| file.is_file())
}

/// The cuBLASLt libraries next to a cuDNN. PyTorch's wheels have it in a package of its own.
pub(crate) fn cublas_libraries(cudnn: &Path) -> Vec<PathBuf> {
    // Library and package may be links, with cuBLASLt on either side.
    let real = fs::canonicalize(cudnn).ok();
    let folders = [Some(cudnn), real.as_deref()].into_iter().flatten().flat_map(|library| {
        let packages = library.ancestors().nth(3).unwrap_or(library);
        let own = library.parent().map(Path::to_owned);
        CUBLAS_FOLDERS.iter().map(|folder| packages.join(folder)).chain(own)
    });
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let is_cublas = |name: &str| name.starts_with("libcublasLt.so") || name.starts_with("cublasLt64_");
    files.filter(|file| is_cublas(&file.file_name().to_string_lossy())).map(|file| file.path()).collect()
}

/// The folders that may be the `site-packages` of a Python environment.
fn site_packages(environment: &Path) -> Vec<PathBuf> {
    let mut found = vec![environment.join("Lib/site-packages")];
    for folder in ["lib", "lib64", "local/lib"] {
        let Ok(entries) = fs::read_dir(environment.join(folder)) else { continue };
        let pythons = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
        let mut pythons: Vec<PathBuf> = pythons.map(|entry| entry.path()).collect();
        pythons.sort();
        for python in pythons.iter().rev() {
            found.extend(["site-packages", "dist-packages"].map(|name| python.join(name)));
        }
    }
    found
}

/// The first cuDNN of the active Python environment, of the Pythons on the `PATH`, of the user's packages and of the system.
pub fn search() -> Option<PathBuf> {
    search_in(|name| env::var_os(name), Path::new("/"))
}

fn search_in(variable: impl Fn(&str) -> Option<OsString>, root: &Path) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from);
    let folders = |name: &str| variable(name).map_or_else(Vec::new, |value| env::split_paths(&value).collect());
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder);
    let pythons = folders("PATH").into_iter().flat_map(|folder| python_prefixes(&folder));
    let user = folder("HOME").map(|home| home.join(".local"));
    let system = SYSTEM_FOLDERS.iter().map(|folder| root.join(folder));
    let all = environments.chain(pythons).chain(user).chain(folders("LD_LIBRARY_PATH"));
    // A relative path would make the answer depend on the current folder, and load what a stranger put there.
    all.chain(loader_folders(root)).chain(system).filter(|path| path.is_absolute()).find_map(|path| locate(&path))
}

/// The environments that the Python in a folder of the `PATH` may belong to. A link is followed too: uv and others link to it.
fn python_prefixes(folder: &Path) -> Vec<PathBuf> {
    let python = ["python3", "python", "python.exe"].iter().map(|name| folder.join(name)).find(|file| file.is_file());
    let files = python.into_iter().flat_map(|python| [Some(python.clone()), fs::canonicalize(python).ok()]).flatten();
    files.filter_map(|file| file.parent()?.parent().map(Path::to_owned)).collect()
}

/// The folders that the system's loader is configured with.
fn loader_folders(root: &Path) -> Vec<PathBuf> {
    let parts = fs::read_dir(root.join("etc/ld.so.conf.d")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = parts.collect();
    files.sort();
    files.insert(0, root.join("etc/ld.so.conf"));
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let lines = texts.flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>());
    lines.filter(|line| line.starts_with('/')).map(|line| root.join(line.trim_start_matches('/'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packages of a Python environment.
    fn packages_of(environment: &Path, python: &str) -> PathBuf {
        environment.join("lib").join(python).join("site-packages")
    }

    /// An empty library, with its folders.
    fn put(library: &Path) -> PathBuf {
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        fs::write(library, b"").unwrap();
        library.to_owned()
    }

    #[test]
    fn a_library_is_found_by_file_folder_packages_and_environment() {
        let root = tempfile::tempdir().unwrap();
        let packages = packages_of(root.path(), "python3.11");
        let library = put(&packages.join("nvidia/cudnn/lib/libcudnn.so.9"));
        for path in [library.as_path(), library.parent().unwrap(), &packages, root.path()] {
            assert_eq!(locate(path), Some(library.clone()), "{}", path.display());
        }
        assert_eq!(locate(&root.path().join("nowhere")), None);
        assert_eq!(locate(&root.path().join("lib")), None);
        let conda = tempfile::tempdir().unwrap();
        let library = put(&conda.path().join("lib/libcudnn.so.9"));
        assert_eq!(locate(conda.path()), Some(library));
    }

    #[test]
    fn the_active_environment_comes_before_pythons_on_the_path_and_these_before_the_system() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let search = || {
            let variable = |name: &str| match name {
                "VIRTUAL_ENV" => Some(at("active").into_os_string()),
                "PATH" => Some(env::join_paths([at("empty"), at("conda/bin")]).unwrap()),
                "HOME" => Some(at("home").into_os_string()),
                _ => None,
            };
            search_in(variable, root.path())
        };
        assert_eq!(search(), None);
        let everywhere = [
            at("usr/lib64/libcudnn.so"),
            at("opt/cuda/libcudnn.so.9"),
            packages_of(&at("home/.local"), "python3.9").join("torch/lib/libcudnn.so.9"),
            packages_of(&at("conda"), "python3.12").join("nvidia/cudnn/lib/libcudnn.so.9"),
            packages_of(&at("active"), "python3.12").join("nvidia/cudnn/lib/libcudnn.so.9"),
        ];
        fs::create_dir_all(at("etc/ld.so.conf.d")).unwrap();
        fs::write(at("etc/ld.so.conf.d/cuda.conf"), "# CUDA\n/opt/cuda\n").unwrap();
        put(&at("conda/bin/python3"));
        for path in everywhere {
            let library = put(&path);
            assert_eq!(search(), Some(library));
        }
    }

    #[test]
    fn a_relative_path_is_not_searched() {
        let relative = |name: &str| (name == "VIRTUAL_ENV").then(|| OsString::from("."));
        assert_eq!(search_in(relative, Path::new("/nowhere")), None);
        assert_eq!(search_in(|name| (name == "PATH").then(|| OsString::from("")), Path::new("/nowhere")), None);
    }

    #[cfg(unix)]
    #[test]
    fn cublas_is_found_beside_the_package_the_library_or_what_these_link_to() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let cudnn = put(&at("one/nvidia/cudnn/lib/libcudnn.so.9"));
        assert!(cublas_libraries(&cudnn).is_empty());
        put(&at("blas/cu13/lib/libcublasLt.so.13"));
        put(&at("blas/cu13/lib/libcublas.so.13"));
        // Packages that are links.
        fs::create_dir_all(at("joined/nvidia")).unwrap();
        symlink(at("blas/cu13"), at("joined/nvidia/cu13")).unwrap();
        symlink(at("one/nvidia/cudnn"), at("joined/nvidia/cudnn")).unwrap();
        let joined = cublas_libraries(&at("joined/nvidia/cudnn/lib/libcudnn.so.9"));
        assert_eq!(joined, [at("joined/nvidia/cu13/lib/libcublasLt.so.13")]);
        // A library that is a link out of its package.
        let beside = put(&at("one/nvidia/cublas/lib/libcublasLt.so.12"));
        fs::create_dir_all(at("lib")).unwrap();
        symlink(&cudnn, at("lib/libcudnn.so.9")).unwrap();
        assert_eq!(cublas_libraries(&at("lib/libcudnn.so.9")), [fs::canonicalize(beside).unwrap()]);
    }

    #[cfg(unix)]
    #[test]
    fn a_linked_python_leads_to_its_own_packages() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        let environment = root.join("share");
        let python = put(&environment.join("bin/python3"));
        let library = put(&packages_of(&environment, "python3.12").join("torch/lib/libcudnn.so.9"));
        fs::create_dir_all(root.join("bin")).unwrap();
        std::os::unix::fs::symlink(python, root.join("bin/python3")).unwrap();
        let variable = |name: &str| (name == "PATH").then(|| root.join("bin").into_os_string());
        assert_eq!(search_in(variable, Path::new("/nowhere")), Some(library));
    }
}
