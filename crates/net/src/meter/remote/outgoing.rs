//! The messages of an application, with their headers.

use super::frame::Header;
use crate::meter::speaker::SharedApplication;
use anabranch_base::time::Time;
use anabranch_scenario::workload::Step;

/// The next action of a writer.
pub enum Next {
    /// Write a message with this header.
    Message(Header),
    /// End writing.
    Close,
    /// Wait for the application.
    Idle,
}

/// Numbers the messages of an application, and splits those that exceed a maximum length.
pub struct Outgoing {
    tag: u32,
    max_message: u64,
    number: u32,
    /// Length and time of the rest of a split message.
    rest: Option<(u64, Time)>,
}

impl Outgoing {
    /// The messages of a test with this tag, of at most `max_message` bytes each.
    pub const fn new(tag: u32, max_message: u64) -> Self {
        Self { tag, max_message, number: 0, rest: None }
    }

    /// The next action; a message counts as accepted.
    pub fn next(&mut self, application: &SharedApplication, now: Time) -> Next {
        let rest = self.rest.take();
        match rest.map_or_else(|| application.poll(now), |(len, born)| Step::Write { len, born }) {
            Step::Write { len: whole, born } => {
                let len = whole.min(self.max_message);
                application.accepted(len);
                self.rest = (len < whole).then_some((whole - len, born));
                let header = Header { tag: self.tag, number: self.number, len, born };
                self.number = self.number.wrapping_add(1);
                Next::Message(header)
            }
            Step::Close => Next::Close,
            Step::Idle => Next::Idle,
        }
    }
}
