//! Answers on disk, one file per installed library and compute capability.
//!
//! A line is `version 91900 ;`, or the key of a question with its answer: `… = 4096 65 2 4 ;` for one plan, `… = 4096 512 0 ;` for several, or `… = none ;`
//! where cuDNN has no plan. A line without its end was cut off, and is skipped as everything else that is no such line.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use vramfit_cudnn::convolution::CudnnVersion;

use crate::protocol::{Question, Reply};

/// A file that has grown beyond this many bytes is started again. Reading one of that size takes some 20 ms.
const LIMIT: u64 = 8 << 20;
/// To be raised when the same question would get another answer from the same library.
const REVISION: u32 = 2;

const VERSION: &str = "version";
const NO_PLAN: &str = "none";
const END: &str = " ;";

/// The answers of one library for one compute capability.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    file: Option<PathBuf>,
    version: Option<CudnnVersion>,
    answers: HashMap<Box<str>, Reply>,
}

/// The name of a library's file: another path, size or modification time is another library.
fn name(library: &Path, device_version: u32) -> String {
    let mut hasher = DefaultHasher::new();
    REVISION.hash(&mut hasher);
    let path = fs::canonicalize(library).unwrap_or_else(|_| library.to_owned());
    path.hash(&mut hasher);
    if let Ok(data) = fs::metadata(&path) {
        data.len().hash(&mut hasher);
        data.modified().ok().hash(&mut hasher);
    }
    format!("{device_version}-{:016x}.txt", hasher.finish())
}

impl Cache {
    /// Reads the file of a library in a folder; without a folder nothing is kept.
    pub(crate) fn open(folder: Option<&Path>, library: &Path, device_version: u32) -> Cache {
        let Some(folder) = folder else { return Cache::default() };
        let file = folder.join(name(library, device_version));
        if fs::metadata(&file).is_ok_and(|data| data.len() > LIMIT) {
            // Failing that, it is read as it is.
            let _ = fs::remove_file(&file);
        }
        let mut cache = Cache::default();
        for line in fs::read(&file).unwrap_or_default().split(|byte| *byte == b'\n') {
            // What is no text is no line of ours.
            let _ = std::str::from_utf8(line).ok().and_then(|line| cache.read(line));
        }
        cache.file = Some(file);
        cache
    }

    /// `None` where the line is not one of the cache's.
    fn read(&mut self, line: &str) -> Option<()> {
        let line = line.strip_suffix(END)?;
        if let Some(version) = line.strip_prefix(VERSION) {
            self.version = Some(CudnnVersion(version.trim_start().parse().ok()?));
            return Some(());
        }
        let (key, answer) = line.split_once(" = ")?;
        let reply = match answer {
            NO_PLAN => Reply::new(),
            answer => answer.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?,
        };
        self.answers.insert(key.into(), reply);
        Some(())
    }

    /// The version of the library whose answers these are.
    pub(crate) fn version(&self) -> Option<CudnnVersion> {
        self.version
    }

    /// The answer to a question.
    pub(crate) fn get(&self, question: &Question) -> Option<Reply> {
        self.answers.get(question.key().as_str()).cloned()
    }

    /// Remembers the version.
    pub(crate) fn set_version(&mut self, version: CudnnVersion) {
        if self.version != Some(version) {
            self.version = Some(version);
            self.append(&format!("{VERSION} {}", version.0));
        }
    }

    /// Remembers an answer.
    pub(crate) fn insert(&mut self, question: &Question, reply: &Reply) {
        let key = question.key();
        let sizes: Vec<String> = reply.iter().map(u64::to_string).collect();
        let answer = if sizes.is_empty() { NO_PLAN.to_owned() } else { sizes.join(" ") };
        self.append(&format!("{key} = {answer}"));
        self.answers.insert(key.into(), reply.clone());
    }

    /// A line is written at once, so that lines of two processes do not mix. A disk that cannot be written only costs time.
    fn append(&self, line: &str) {
        let Some(file) = &self.file else { return };
        let text = format!("{line}{END}\n");
        let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
        let _ =
            folder.and_then(|()| OpenOptions::new().create(true).append(true).open(file)?.write_all(text.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use vramfit_cudnn::convolution::{ConvolutionPass, ConvolutionProblem};
    use vramfit_graph::dims::Dims;
    use vramfit_graph::dtype::Dtype;
    use vramfit_graph::format::Format;

    use super::*;

    fn question(batch: i64) -> Question {
        let sides = |first: [i64; 2]| Dims::from([first[0], first[1], 56, 56]);
        Question::first(&ConvolutionProblem {
            pass: ConvolutionPass::WeightGradient,
            dtype: Dtype::Bfloat16,
            format: Format::ChannelsLast,
            image: sides([batch, 64]),
            result: sides([batch, 128]),
            weight: Dims::from([128, 64, 3, 3]),
            stride: Dims::from([1, 1]),
            padding: Dims::from([1, 1]),
            dilation: Dims::from([1, 1]),
            groups: 1,
        })
        .unwrap()
    }

    const NINE: CudnnVersion = CudnnVersion(91_900);

    /// A library in a folder of its own, and a folder for its answers.
    struct Files {
        _folder: tempfile::TempDir,
        library: PathBuf,
        answers: PathBuf,
    }

    impl Files {
        fn new() -> Files {
            let folder = tempfile::tempdir().unwrap();
            let (library, answers) = (folder.path().join("libcudnn.so.9"), folder.path().join("answers"));
            fs::write(&library, b"one").unwrap();
            Files { _folder: folder, library, answers }
        }

        fn cache(&self) -> Cache {
            Cache::open(Some(&self.answers), &self.library, 860)
        }

        fn file(&self) -> PathBuf {
            self.answers.join(name(&self.library, 860))
        }
    }

    #[test]
    fn answers_are_found_again_for_the_same_library_and_capability_only() {
        let files = Files::new();
        let mut cache = files.cache();
        cache.set_version(NINE);
        cache.insert(&question(8), &vec![4096]);
        cache.insert(&question(9), &vec![]);
        let again = files.cache();
        assert_eq!((again.version(), again.get(&question(8))), (Some(NINE), Some(vec![4096])));
        assert_eq!((again.get(&question(9)), again.get(&question(10))), (Some(vec![]), None));
        assert_eq!(Cache::open(Some(&files.answers), &files.library, 890).get(&question(8)), None);
        fs::write(&files.library, b"other").unwrap();
        assert_eq!(files.cache().get(&question(8)), None);
    }

    #[test]
    fn lines_that_are_not_answers_are_skipped() {
        let files = Files::new();
        let mut cache = files.cache();
        cache.set_version(NINE);
        cache.insert(&question(8), &vec![1]);
        let cut = format!("\n{} = 12\nversion 9\nversion x ;\n= ;\n \n", question(8).key());
        let damage = [cut.as_bytes(), b"\xff\xfe\x00 = 7 ;\n"].concat();
        OpenOptions::new().append(true).open(files.file()).unwrap().write_all(&damage).unwrap();
        cache.insert(&question(9), &vec![2]);
        let again = files.cache();
        assert_eq!((again.version(), again.get(&question(8))), (Some(NINE), Some(vec![1])));
        assert_eq!(again.get(&question(9)), Some(vec![2]));
    }

    #[test]
    fn caches_that_write_at_once_lose_nothing() {
        let files = Files::new();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let mut cache = files.cache();
                scope.spawn(move || {
                    cache.set_version(NINE);
                    for batch in 0..50 {
                        cache.insert(&question(1000 * writer + batch), &vec![batch.unsigned_abs()]);
                    }
                });
            }
        });
        let again = files.cache();
        for (writer, batch) in (0..4).flat_map(|writer| (0..50).map(move |batch| (writer, batch))) {
            assert_eq!(again.get(&question(1000 * writer + batch)), Some(vec![batch.unsigned_abs()]));
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_only_forgets() {
        let files = Files::new();
        // A file where the folder would be.
        fs::write(&files.answers, b"").unwrap();
        let mut cache = files.cache();
        cache.set_version(NINE);
        cache.insert(&question(8), &vec![1]);
        assert_eq!((cache.version(), cache.get(&question(8))), (Some(NINE), Some(vec![1])));
        assert_eq!(files.cache().get(&question(8)), None);
    }

    #[test]
    fn a_file_that_has_grown_too_large_is_started_again() {
        let files = Files::new();
        fs::create_dir_all(&files.answers).unwrap();
        fs::File::create(files.file()).unwrap().set_len(LIMIT + 1).unwrap();
        files.cache().insert(&question(8), &vec![1]);
        assert!(fs::metadata(files.file()).unwrap().len() < LIMIT);
        assert_eq!(files.cache().get(&question(8)), Some(vec![1]));
    }
}
