//! Reading fixed fields from bytes without a panic.

use crate::error::{Header, ParseError, Problem};

/// A cursor over the bytes of one header or option; offsets in its errors count from the first of these
/// bytes.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    header: Header,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(header: Header, bytes: &'a [u8]) -> Self {
        Self { header, bytes, at: 0 }
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(found) = rest.first_chunk::<N>() else {
            return Err(self.error(Problem::Truncated { needed: N, available: rest.len() }));
        };
        self.at += N;
        Ok(*found)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ParseError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ParseError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes not yet read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// An error at the next byte.
    pub(crate) const fn error(&self, problem: Problem) -> ParseError {
        ParseError::new(self.header, self.at, problem)
    }
}

/// Bytes from hexadecimal digits with any spaces, for tests.
#[cfg(test)]
pub(crate) fn from_hex(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}
