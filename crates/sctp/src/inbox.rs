//! Messages, or parts of large ones, that the application can read. They remain readable after the end of the
//! association.

use anabranch_endpoint::endpoint::Delivery;
use std::collections::VecDeque;

/// The fragments of a message, in order, as runs of consecutive TSNs: first TSN and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fragments {
    /// Consecutive TSNs, as always with DATA.
    Run(u64, u32),
    /// Several runs, with TSNs of other messages between them.
    Scattered(Box<[(u64, u32)]>),
}

impl Fragments {
    /// Groups these TSNs into runs; there must be at least one.
    pub fn of(tsns: impl IntoIterator<Item = u64>) -> Self {
        let mut runs: Vec<(u64, u32)> = Vec::new();
        for tsn in tsns {
            match runs.last_mut() {
                Some((first, count)) if *first + u64::from(*count) == tsn => *count += 1,
                _ => runs.push((tsn, 1)),
            }
        }
        match runs[..] {
            [(first, count)] => Self::Run(first, count),
            _ => Self::Scattered(runs.into()),
        }
    }
}

impl Fragments {
    /// The runs.
    pub fn into_runs(self) -> Vec<(u64, u32)> {
        match self {
            Self::Run(first, count) => vec![(first, count)],
            Self::Scattered(runs) => runs.into(),
        }
    }
}

/// A complete message, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub len: u64,
    pub stream: u16,
    pub unordered: bool,
    pub ppid: u32,
    pub fragments: Fragments,
    /// True if the next part of this kind in the stream continues this message.
    pub more: bool,
    /// True for an empty part that ends a message whose rest was abandoned.
    pub aborted: bool,
}

/// Messages that can be read.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    ready: VecDeque<Message>,
    bytes: u64,
    delivered: u64,
    fresh: bool,
    /// Fragments of the last message read.
    last: Vec<(u64, u32)>,
}

impl Inbox {
    pub fn push(&mut self, message: Message) {
        self.fresh |= self.ready.is_empty();
        self.bytes += message.len;
        self.ready.push_back(message);
    }

    pub fn pop(&mut self) -> Option<Delivery> {
        let Message { len, stream, unordered, ppid, fragments, more, aborted } = self.ready.pop_front()?;
        let offset = self.delivered;
        self.bytes -= len;
        self.delivered += len;
        self.last.clear();
        match fragments {
            Fragments::Run(first, count) => self.last.push((first, count)),
            Fragments::Scattered(runs) => self.last.extend_from_slice(&runs),
        }
        Some(Delivery { offset, len, stream, unordered, ppid, more, aborted })
    }

    /// Fragments of the last message read, in order, as runs of TSNs.
    pub fn last(&self) -> &[(u64, u32)] {
        &self.last
    }

    /// Bytes that can be read.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that have been read.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns true once after the inbox has become non-empty.
    pub fn take_fresh(&mut self) -> bool {
        core::mem::take(&mut self.fresh)
    }
}
