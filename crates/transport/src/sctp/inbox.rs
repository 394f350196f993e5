//! Messages that are whole and in turn, until the application reads them. They outlive the association.

use crate::endpoint::Delivery;
use std::collections::VecDeque;

/// Messages to be read.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    ready: VecDeque<Delivery>,
    bytes: u64,
    delivered: u64,
    fresh: bool,
}

impl Inbox {
    pub fn push(&mut self, message: Delivery) {
        self.fresh |= self.ready.is_empty();
        self.bytes += message.len;
        self.ready.push_back(message);
    }

    pub fn pop(&mut self) -> Option<Delivery> {
        let message = self.ready.pop_front()?;
        self.bytes -= message.len;
        self.delivered += message.len;
        Some(message)
    }

    /// Bytes that can be read.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that have been read.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// True once after the inbox stopped being empty.
    pub fn take_fresh(&mut self) -> bool {
        core::mem::take(&mut self.fresh)
    }
}
