//! Results of parsing the first bytes of a client.

/// Reason why the first bytes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// A parsed value and the number of its bytes, or `None` while bytes are missing.
pub type Parsed<T> = Result<Option<(T, usize)>, Malformed>;
