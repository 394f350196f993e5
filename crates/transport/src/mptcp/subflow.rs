//! A subflow: a TCP block, the mappings of what it carries, and its part of the handshake.

use super::keys::Key;
use super::mapping::{Mapping, Mappings, Received};
use crate::blocked::{Blocked, Cause};
use crate::tcp::{State, Tcb};
use multipath::path_manager::Pair;
use multipath::time::Time;
use std::collections::VecDeque;

/// Option bytes of a DSS with mapping (8-byte sequence number, 4-byte acknowledgement), padded.
pub(super) const DSS_DATA: u32 = 24;
/// Option bytes of a DSS that only acknowledges (4 bytes).
pub(super) const DSS_ACK: u32 = 8;

/// How a subflow began, and how far its handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// No Multipath TCP: the connection's only subflow.
    Plain,
    /// `MP_CAPABLE`; confirmed once the other side has shown that it saw our keys.
    Capable { confirmed: bool },
    /// `MP_JOIN`, connecting side. After the SYN/ACK the code to send is known; confirmed by the fourth segment.
    Joining { nonce: u32, proof: Option<[u8; 20]>, confirmed: bool, resend_at: Option<Time> },
    /// `MP_JOIN`, listening side. Confirmed by the third segment's code.
    Joined { nonces: (u32, u32), confirmed: bool },
}

#[derive(Debug)]
pub(super) struct Subflow {
    pub block: Tcb,
    pub pair: Pair,
    pub handshake: Handshake,
    /// Either side wants it used only when no other is.
    pub backup: bool,
    /// The connection no longer uses it.
    pub dead: bool,
    /// This side sent, or is about to send, a FIN on it.
    pub closing: bool,
    /// `PathUp` was reported.
    pub announced: bool,
    /// Congestion control counts it in its sums.
    pub counted: bool,
    /// Sent mappings that the subflow has not acknowledged, ascending.
    pub sent: VecDeque<Mapping>,
    /// Positions on it are offsets of the data, in both directions: plain TCP could go on with it.
    pub identical: bool,
    /// Received mappings that are not used up.
    pub mappings: Mappings,
    /// Bytes that came without a mapping since the last ones that had one.
    pub unmapped: u64,
    /// Data bytes this path brought that were new to the connection.
    pub new: u64,
    /// With a redundant scheduler: where this path's own reading of the data stands.
    pub cursor: u64,
    /// When a subflow between these addresses may be tried again, once this one is dead.
    pub retry_at: Option<Time>,
    /// It was given up while its address was gone: the peer is still to be told by an RST.
    pub reset_pending: bool,
    /// The keys went out since the last SYN/ACK.
    pub keys_sent: bool,
    /// The peer cannot know yet that it is a backup: a join says so, the connection's first handshake does not.
    pub priority_pending: bool,
    /// Data sequence number of a mapping whose checksum was wrong: the RST that ends this subflow carries it.
    pub failed: Option<u64>,
    /// Last penalisation.
    pub penalised_at: Option<Time>,
    /// How long data waited that it did not take.
    pub blocked: Blocked<Cause, 2>,
}

impl Subflow {
    pub fn new(mut block: Tcb, pair: Pair, handshake: Handshake, backup: bool) -> Self {
        block.share_window(DSS_DATA, DSS_ACK);
        Self {
            block,
            pair,
            handshake,
            backup,
            dead: false,
            closing: false,
            announced: false,
            counted: true,
            sent: VecDeque::new(),
            identical: true,
            mappings: Mappings::default(),
            unmapped: 0,
            new: 0,
            cursor: 0,
            retry_at: None,
            reset_pending: false,
            keys_sent: false,
            priority_pending: false,
            failed: None,
            penalised_at: None,
            blocked: Blocked::default(),
        }
    }

    /// The handshake is complete, as far as sending data is concerned.
    pub fn is_confirmed(&self) -> bool {
        match self.handshake {
            Handshake::Plain | Handshake::Capable { .. } => true,
            Handshake::Joining { confirmed, .. } | Handshake::Joined { confirmed, .. } => confirmed,
        }
    }

    /// It has carried data, one way or the other.
    pub fn has_worked(&self) -> bool {
        let counters = self.block.counters();
        counters.bytes_acked > 0 || counters.bytes_received > 0
    }

    /// New data may be scheduled on it: open and not believed to have failed.
    pub fn is_usable(&self) -> bool {
        !self.dead
            && !self.closing
            && self.block.is_open()
            && self.is_confirmed()
            && self.block.attempts() == 0
    }

    /// Segments for it are its own business: it lives, or waits for strays.
    pub fn answers(&self) -> bool {
        !self.dead || self.block.state() == State::TimeWait
    }

    /// It can still carry acknowledgements and control options.
    pub fn is_alive(&self) -> bool {
        !self.dead && self.block.is_synchronised() && !self.block.is_over()
    }

    /// Drops mappings that the subflow has acknowledged.
    pub fn prune(&mut self) {
        let acked = self.block.acknowledged();
        while self.sent.front().is_some_and(|m| m.end() <= acked) {
            self.sent.pop_front();
        }
    }

    /// The data offset of a position that was sent.
    pub fn data_of(&self, position: u64) -> Option<u64> {
        let index = self.sent.partition_point(|m| m.end() <= position);
        let mapping = self.sent.get(index)?;
        (mapping.start <= position).then(|| mapping.data + (position - mapping.start))
    }

    /// Data leaves on it.
    pub fn carry(&mut self, mapping: Mapping) {
        self.identical &= mapping.start == mapping.data;
        self.sent.push_back(mapping);
    }

    /// Remembers a mapping that arrived.
    pub fn learn(&mut self, received: Received) {
        self.identical &= received.mapping.start == received.mapping.data;
        self.mappings.learn(received, self.block.config().receive_buffer);
    }
}

/// Who is who in a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub local: Key,
    pub remote: Option<Key>,
}
