//! Results of the parsers of first bytes.

/// Reason why first bytes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// A value with the number of bytes of its message, or `None` while the message is incomplete.
pub type Parsed<T> = Result<Option<(T, usize)>, Malformed>;
