//! Frames that links carry, and records of dropped ones.

use anabranch_base::time::Time;

/// A unit that a link carries: a packet, or a handle of one.
pub trait Frame {
    /// Length of the IP packet, bytes.
    fn wire_len(&self) -> u32;

    /// True if routers may split the frame into IP fragments. A link carries such a frame whole, at any length,
    /// because its fragments would be consecutive.
    fn may_fragment(&self) -> bool {
        false
    }

    /// True if the frame carries data of an application. Only loss models that count such packets use this.
    fn has_data(&self) -> bool {
        true
    }

    /// True if the frame's ECN field is ECT(0), ECT(1) or CE (RFC 3168 §5).
    fn ecn_capable(&self) -> bool;

    /// Sets the frame's ECN field to CE, "congestion experienced".
    fn mark(&mut self);

    /// A hash of the packet's flow (addresses, protocol and ports), uniform over all bits. Packets of one flow have
    /// equal hashes. Only queues that separate flows call this
    /// ([`Link::needs_flow_hash`](crate::Link::needs_flow_hash)).
    fn flow(&self) -> u32;
}

/// The reason why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// The queue was full.
    Queue,
    /// Active queue management, before the queue was full.
    Aqm,
    /// Lost by the loss model.
    Loss,
    /// The link was or went down.
    Down,
    /// Larger than the link's MTU.
    Mtu,
    /// Dropped because the queue got a lower limit.
    Changed,
}

impl DropCause {
    /// All causes, in order.
    pub const ALL: [Self; 6] = [Self::Queue, Self::Aqm, Self::Loss, Self::Down, Self::Mtu, Self::Changed];

    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Aqm => "aqm",
            Self::Loss => "loss",
            Self::Down => "down",
            Self::Mtu => "mtu",
            Self::Changed => "changed",
        }
    }
}

/// A frame that will not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<F> {
    /// Time of the drop.
    pub at: Time,
    /// The frame.
    pub frame: F,
    /// The reason.
    pub cause: DropCause,
}

/// Counts of the frames that a link has dropped and marked since the start, and the dropped frames that the caller has
/// not taken yet.
#[derive(Clone, Debug)]
pub struct Drops<F> {
    frames: Vec<Dropped<F>>,
    counts: [u64; 6],
    marks: u64,
}

impl<F> Default for Drops<F> {
    fn default() -> Self {
        Self { frames: Vec::new(), counts: [0; 6], marks: 0 }
    }
}

impl<F> Drops<F> {
    /// Records a dropped frame.
    pub fn drop(&mut self, at: Time, frame: F, cause: DropCause) {
        self.counts[cause as usize] += 1;
        self.frames.push(Dropped { at, frame, cause });
    }

    /// Frames dropped since the start, by cause in the order of [`DropCause::ALL`].
    pub const fn counts(&self) -> [u64; 6] {
        self.counts
    }

    /// Frames marked since the start.
    pub const fn marks(&self) -> u64 {
        self.marks
    }

    /// True if no frame waits to be taken.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The frames dropped since the last call.
    pub fn take(&mut self) -> Vec<Dropped<F>> {
        core::mem::take(&mut self.frames)
    }
}

impl<F: Frame> Drops<F> {
    /// Marks a frame with "congestion experienced" instead of dropping it.
    pub fn mark(&mut self, frame: &mut F) {
        frame.mark();
        self.marks += 1;
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Frame;

    /// A frame of tests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct TestFrame {
        pub id: u32,
        pub len: u32,
        pub flow: u32,
        pub data: bool,
        pub ecn: bool,
        pub marked: bool,
    }

    impl TestFrame {
        /// A frame of flow 0 with data that is not ECN-capable.
        pub(crate) const fn new(id: u32, len: u32) -> Self {
            Self { id, len, flow: 0, data: true, ecn: false, marked: false }
        }
    }

    impl Frame for TestFrame {
        fn wire_len(&self) -> u32 {
            self.len
        }

        fn has_data(&self) -> bool {
            self.data
        }

        fn ecn_capable(&self) -> bool {
            self.ecn
        }

        fn mark(&mut self) {
            self.marked = true;
        }

        fn flow(&self) -> u32 {
            self.flow
        }
    }
}
