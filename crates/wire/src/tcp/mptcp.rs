//! Multipath TCP options (RFC 8684 §3). `Dss` is on nearly every segment and lives inline; the others are rare.

use core::net::IpAddr;

/// The Multipath TCP options of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Data sequence signal.
    pub dss: Option<Dss>,
    /// Every other Multipath TCP option, in order.
    pub others: Vec<Control>,
}

impl Options {
    /// Bytes with every option filled up to whole words.
    pub(super) fn aligned_len(&self) -> u32 {
        let dss = self.dss.map_or(0, |dss| dss.wire_len().next_multiple_of(4));
        if self.others.is_empty() {
            return dss;
        }
        dss + self.others.iter().map(|option| option.wire_len().next_multiple_of(4)).sum::<u32>()
    }

    /// Bytes without padding.
    pub(super) fn dense_len(&self) -> u32 {
        self.dss.map_or(0, |dss| dss.wire_len()) + self.others.iter().map(Control::wire_len).sum::<u32>()
    }
}

/// Data Sequence Signal (RFC 8684 §3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dss {
    /// Next data sequence number expected.
    pub data_ack: Option<DataNumber>,
    /// Which data sequence numbers the payload carries.
    pub mapping: Option<Mapping>,
    /// `DATA_FIN`: the mapping's last number is the end of the data stream.
    pub data_fin: bool,
}

impl Dss {
    /// Length of the option, bytes, without padding: 4 to 28.
    pub const fn wire_len(&self) -> u32 {
        let ack = match self.data_ack {
            Some(number) => number.wire_len(),
            None => 0,
        };
        let mapping = match self.mapping {
            Some(mapping) => mapping.dsn.wire_len() + 6 + 2 * mapping.checksum.is_some() as u32,
            None => 0,
        };
        4 + ack + mapping
    }
}

/// A data sequence number or acknowledgement as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataNumber {
    /// The low 32 bits.
    Short(u32),
    /// All 64 bits.
    Long(u64),
}

impl DataNumber {
    /// Length in bytes: 4 or 8.
    pub const fn wire_len(self) -> u32 {
        match self {
            Self::Short(_) => 4,
            Self::Long(_) => 8,
        }
    }
}

/// A mapping from subflow to data sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First data sequence number.
    pub dsn: DataNumber,
    /// Subflow sequence number of the first byte, relative to the initial sequence number (the first data byte is 1).
    pub subflow_seq: u32,
    /// Length in bytes; 0 stands for an infinite mapping (RFC 8684 §3.7). A `DATA_FIN` counts one.
    pub len: u16,
    /// Checksum over pseudo-header and data, if negotiated.
    pub checksum: Option<u16>,
}

/// Multipath TCP options other than DSS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// `MP_CAPABLE` (RFC 8684 §3.1).
    Capable(Capable),
    /// `MP_JOIN` (RFC 8684 §3.2).
    Join(Join),
    /// `ADD_ADDR` (RFC 8684 §3.4.1).
    AddAddress(AddAddress),
    /// `REMOVE_ADDR` (RFC 8684 §3.4.2): the address identifiers.
    RemoveAddress(Vec<u8>),
    /// `MP_PRIO` (RFC 8684 §3.3.8).
    Priority {
        /// The subflow becomes a backup (true) or regular (false).
        backup: bool,
    },
    /// `MP_FAIL` (RFC 8684 §3.7): the data sequence number of the failed mapping.
    Fail {
        /// Data sequence number at which the failure was found.
        dsn: u64,
    },
    /// `MP_FASTCLOSE` (RFC 8684 §3.5): the receiver's key.
    FastClose {
        /// Key of the host that receives the option.
        receiver_key: u64,
    },
    /// `MP_TCPRST` (RFC 8684 §3.6).
    Reset {
        /// The U, V, W and T bits.
        flags: u8,
        /// Reason code.
        reason: u8,
    },
}

impl Control {
    /// Length of the option, bytes, without padding.
    pub const fn wire_len(&self) -> u32 {
        match self {
            Self::Capable(capable) => capable.wire_len(),
            Self::Join(join) => join.wire_len(),
            Self::AddAddress(add) => add.wire_len(),
            Self::RemoveAddress(ids) => 3 + ids.len() as u32,
            Self::Priority { .. } => 3,
            Self::Fail { .. } | Self::FastClose { .. } => 12,
            Self::Reset { .. } => 4,
        }
    }
}

/// `MP_CAPABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capable {
    /// Protocol version, 1.
    pub version: u8,
    /// A: checksums required.
    pub checksum_required: bool,
    /// C: the sender will not accept subflows to this address and port.
    pub no_join_here: bool,
    /// H: HMAC-SHA256.
    pub hmac_sha256: bool,
    /// The sender's key: in SYN/ACK and later.
    pub sender_key: Option<u64>,
    /// The receiver's key: in the third segment and with data.
    pub receiver_key: Option<u64>,
    /// With the first data: data-level length, and the checksum if required.
    pub data: Option<CapableData>,
}

impl Capable {
    /// Length of the option, bytes: 4 on a SYN, 12 on a SYN/ACK, 20 on the third segment, 22 or 24 with data.
    pub const fn wire_len(&self) -> u32 {
        let data = match self.data {
            Some(data) => 2 + 2 * data.checksum.is_some() as u32,
            None => 0,
        };
        4 + 8 * self.sender_key.is_some() as u32 + 8 * self.receiver_key.is_some() as u32 + data
    }
}

/// What `MP_CAPABLE` says about the first data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapableData {
    /// Data-level length.
    pub len: u16,
    /// Checksum, if required.
    pub checksum: Option<u16>,
}

/// `MP_JOIN` in its three forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// On a SYN.
    Syn {
        /// Use this subflow as a backup.
        backup: bool,
        /// Identifier of the sender's address.
        address_id: u8,
        /// Token of the receiver.
        token: u32,
        /// Nonce.
        nonce: u32,
    },
    /// On a SYN/ACK.
    SynAck {
        /// Use this subflow as a backup.
        backup: bool,
        /// Identifier of the sender's address.
        address_id: u8,
        /// Leftmost 64 bits of the HMAC.
        hmac: u64,
        /// Nonce.
        nonce: u32,
    },
    /// On the third segment.
    Ack {
        /// Leftmost 160 bits of the HMAC.
        hmac: [u8; 20],
    },
}

impl Join {
    /// Length of the option, bytes: 12, 16 or 24.
    pub const fn wire_len(&self) -> u32 {
        match self {
            Self::Syn { .. } => 12,
            Self::SynAck { .. } => 16,
            Self::Ack { .. } => 24,
        }
    }
}

/// `ADD_ADDR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddAddress {
    /// Identifier of the address.
    pub address_id: u8,
    /// The address.
    pub address: IpAddr,
    /// A port other than the connection's.
    pub port: Option<u16>,
    /// Rightmost 64 bits of the HMAC; `None` marks the echo.
    pub hmac: Option<u64>,
}

impl AddAddress {
    /// Length of the option, bytes: 8 to 30.
    pub const fn wire_len(&self) -> u32 {
        let address = match self.address {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 16,
        };
        4 + address + 2 * self.port.is_some() as u32 + 8 * self.hmac.is_some() as u32
    }
}
