//! The bytes of a pickle, through a buffer.
//!
//! A length field alone allocates nothing: the buffer grows only as bytes arrive.

use std::io::{ErrorKind, Read};

use super::error::ReadError;
use super::opcode;

/// How many bytes are read from the source at once: few at first, so that a small file takes a small buffer.
const FIRST_CHUNK: usize = 4 * 1024;
const LARGEST_CHUNK: usize = 256 * 1024;

/// Where the bytes come from, and what is known about them.
pub(crate) struct Source<'a> {
    /// The bytes, decompressed.
    pub(crate) reader: Box<dyn Read + 'a>,
    /// Whether they come out of a gzip decoder.
    pub(crate) is_gzip: bool,
    /// How many there are, where that is known.
    pub(crate) length: Option<u64>,
    /// How many there may be at most.
    pub(crate) limit: u64,
}

/// The bytes of a pickle.
pub(crate) struct Input<'a> {
    source: Source<'a>,
    buffer: Vec<u8>,
    /// Where in the buffer the current opcode begins; bytes before it are not needed any more.
    opcode: usize,
    /// The next byte to return.
    position: usize,
    /// The end of the bytes in the buffer.
    end: usize,
    /// The offset of the buffer's first byte in the file.
    base: u64,
    is_finished: bool,
}

impl<'a> Input<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        Input { source, buffer: Vec::new(), opcode: 0, position: 0, end: 0, base: 0, is_finished: false }
    }

    /// How many bytes are in the buffer.
    #[inline]
    pub(crate) fn available(&self) -> usize {
        self.end - self.position
    }

    /// The first bytes, up to `length`, before any was read.
    pub(crate) fn peek(&mut self, length: usize) -> Result<&[u8], ReadError> {
        while self.end < length && !self.is_finished {
            self.top_up()?;
        }
        Ok(&self.buffer[..self.end.min(length)])
    }

    /// The next opcode, or `None` at the end of the file.
    #[inline]
    pub(crate) fn next_opcode(&mut self) -> Result<Option<u8>, ReadError> {
        self.opcode = self.position;
        if self.position == self.end {
            self.top_up()?;
            if self.position == self.end {
                return Ok(None);
            }
        }
        let byte = self.buffer[self.position];
        self.position += 1;
        Ok(Some(byte))
    }

    /// The next bytes, as far as they are in the buffer.
    #[inline]
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.position..self.end]
    }

    /// Skips `length` of the bytes in the buffer.
    #[inline]
    pub(crate) fn advance(&mut self, length: usize) {
        debug_assert!(length <= self.available());
        self.position += length;
    }

    /// The next `N` bytes.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        if self.available() < N {
            self.require(N)?;
        }
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.buffer[self.position..self.position + N]);
        self.position += N;
        Ok(bytes)
    }

    /// The next `length` bytes.
    #[inline]
    pub(crate) fn slice(&mut self, length: usize) -> Result<&[u8], ReadError> {
        if self.available() < length {
            self.require(length)?;
        }
        let start = self.position;
        self.position += length;
        Ok(&self.buffer[start..self.position])
    }

    /// Whether the source has no bytes beyond the buffer.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Where the current opcode begins in the file.
    pub(crate) fn opcode_offset(&self) -> u64 {
        self.base + self.opcode as u64
    }

    /// The current opcode's name.
    pub(crate) fn opcode_name(&self) -> &'static str {
        self.buffer.get(self.opcode).and_then(|&byte| opcode::name(byte)).unwrap_or("?")
    }

    /// The offset of the next byte in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Upper bound of the bytes that follow: to the end of the file if known, else to the limit.
    pub(crate) fn remaining(&self) -> u64 {
        self.source.length.unwrap_or(self.source.limit).saturating_sub(self.offset())
    }

    /// Reads more from the source, between two opcodes.
    #[cold]
    pub(crate) fn top_up(&mut self) -> Result<(), ReadError> {
        if self.is_finished {
            return Ok(());
        }
        self.opcode = self.position;
        self.keep_only_opcode();
        self.read_more(self.chunk())
    }

    #[cold]
    fn require(&mut self, needed: usize) -> Result<(), ReadError> {
        while self.available() < needed {
            if self.is_finished {
                return Err(ReadError::Truncated {
                    offset: self.base + self.end as u64,
                    opcode: self.opcode_name(),
                    start: self.opcode_offset(),
                });
            }
            self.keep_only_opcode();
            // At most doubles what has arrived, so that memory follows the bytes and not the length field.
            self.read_more((needed - self.available()).min(self.end).max(self.chunk()))?;
        }
        Ok(())
    }

    /// How many bytes to read next.
    fn chunk(&self) -> usize {
        (2 * self.buffer.len()).clamp(FIRST_CHUNK, LARGEST_CHUNK)
    }

    /// Drops the bytes before the current opcode.
    fn keep_only_opcode(&mut self) {
        let done = self.opcode;
        if done > 0 {
            self.buffer.copy_within(done..self.end, 0);
            self.opcode -= done;
            self.position -= done;
            self.end -= done;
            self.base += done as u64;
        }
    }

    fn read_more(&mut self, wanted: usize) -> Result<(), ReadError> {
        if self.buffer.len() < self.end + wanted {
            self.buffer.resize(self.end + wanted, 0);
        }
        let count = loop {
            match self.source.reader.read(&mut self.buffer[self.end..]) {
                Ok(count) => break count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.base + self.end as u64;
                    let is_damage = matches!(
                        source.kind(),
                        ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                    );
                    return Err(if self.source.is_gzip && is_damage {
                        ReadError::Gzip { offset, source }
                    } else {
                        ReadError::Io(source)
                    });
                }
            }
        };
        self.end += count;
        self.is_finished = count == 0;
        if self.base + self.end as u64 > self.source.limit {
            return Err(ReadError::TooLarge { limit: self.source.limit });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;
    use std::rc::Rc;

    use super::*;

    /// A source of zeros that gives so many bytes at a time, notes what it is asked for, and fails after its end.
    struct Zeros {
        left: usize,
        at_once: usize,
        asked: Rc<RefCell<Vec<usize>>>,
    }

    impl Read for Zeros {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.asked.borrow_mut().push(buffer.len());
            if self.left == 0 {
                return Err(io::Error::other("asked after the end"));
            }
            let count = buffer.len().min(self.at_once).min(self.left);
            buffer[..count].fill(0);
            self.left -= count;
            Ok(count)
        }
    }

    fn input(left: usize, at_once: usize) -> (Input<'static>, Rc<RefCell<Vec<usize>>>) {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let reader = Box::new(Zeros { left, at_once, asked: Rc::clone(&asked) });
        (Input::new(Source { reader, is_gzip: false, length: None, limit: 1 << 30 }), asked)
    }

    #[test]
    fn no_more_is_read_than_is_needed() {
        let (mut input, asked) = input(8, 8);
        assert_eq!(input.peek(8).expect("eight bytes are there"), [0; 8]);
        assert_eq!(input.array::<8>().expect("they are in the buffer"), [0; 8]);
        assert_eq!((asked.borrow().len(), input.available(), input.offset()), (1, 0, 8));
        assert!(input.top_up().is_err());
    }

    #[test]
    fn reads_begin_small_and_double_up_to_a_limit() {
        let (mut input, asked) = input(1 << 22, usize::MAX);
        while input.offset() < 1 << 22 {
            let there = input.available().max(1);
            input.slice(there).expect("there is more");
            input.opcode = input.position;
        }
        let asked = asked.borrow();
        assert_eq!(asked[..4], [4 << 10, 8 << 10, 16 << 10, 32 << 10]);
        assert_eq!(asked.iter().max(), Some(&(256 << 10)));
        // What was returned is not kept.
        assert_eq!(input.buffer.len(), 256 << 10);
    }

    #[test]
    fn a_long_field_takes_memory_only_as_bytes_arrive() {
        let (mut input, asked) = input(10_000, usize::MAX);
        assert!(input.slice(1 << 28).is_err());
        assert!(asked.borrow().iter().all(|&length| length <= 32 << 10), "{asked:?}");
    }

    #[test]
    fn the_end_is_known_once_nothing_more_comes() {
        let reader = Box::new(&[7u8, 8][..]);
        let mut input = Input::new(Source { reader, is_gzip: false, length: Some(2), limit: 100 });
        assert_eq!((input.next_opcode().expect("a byte"), input.is_finished(), input.remaining()), (Some(7), false, 1));
        assert_eq!(input.next_opcode().expect("a byte"), Some(8));
        assert_eq!((input.next_opcode().expect("the end"), input.is_finished(), input.remaining()), (None, true, 0));
        assert_eq!((input.opcode_offset(), input.opcode_name()), (2, "?"));
    }

    #[test]
    fn a_field_that_ends_with_the_source_says_where() {
        let reader = Box::new(&[b'J', 1, 2][..]);
        let mut input = Input::new(Source { reader, is_gzip: false, length: None, limit: 100 });
        assert_eq!(input.next_opcode().expect("an opcode"), Some(b'J'));
        let Err(ReadError::Truncated { offset, opcode, start }) = input.array::<4>() else { panic!("too few bytes") };
        assert_eq!((offset, opcode, start), (3, "BININT", 0));
    }

    /// Ten bytes, then an error of this kind, then the end.
    struct Failing(Option<ErrorKind>, bool);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if !std::mem::replace(&mut self.1, true) {
                buffer[..10].fill(0);
                return Ok(10);
            }
            self.0.take().map_or(Ok(0), |kind| Err(kind.into()))
        }
    }

    fn failing(kind: ErrorKind, is_gzip: bool) -> Result<(), ReadError> {
        let reader = Box::new(Failing(Some(kind), false));
        let mut input = Input::new(Source { reader, is_gzip, length: None, limit: 100 });
        input.slice(10).expect("ten bytes come first");
        input.top_up()
    }

    #[test]
    fn an_error_is_one_of_compression_only_where_there_is_some() {
        let found = failing(ErrorKind::InvalidData, true);
        assert!(matches!(found, Err(ReadError::Gzip { offset: 10, .. })), "{found:?}");
        assert!(matches!(failing(ErrorKind::InvalidData, false), Err(ReadError::Io(_))));
        assert!(matches!(failing(ErrorKind::PermissionDenied, true), Err(ReadError::Io(_))));
        assert!(failing(ErrorKind::Interrupted, false).is_ok(), "an interrupted read is tried again");
    }

    #[test]
    fn a_source_may_have_its_limit_and_no_byte_more() {
        let read = |count: usize| {
            let reader = Box::new(io::repeat(0).take(count as u64));
            let mut input = Input::new(Source { reader, is_gzip: false, length: None, limit: 10 });
            input.slice(count).map(<[u8]>::len)
        };
        assert_eq!(read(10).expect("as many as allowed"), 10);
        assert!(matches!(read(11), Err(ReadError::TooLarge { limit: 10 })));
    }
}
