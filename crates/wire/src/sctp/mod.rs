//! SCTP packets (RFC 9260): the common header and the chunks, one chunk a file.
//!
//! A chunk is a plain value with an exact `wire_len()`; DATA carries its payload as a range of the sender's stream,
//! so the chunks that a busy association exchanges own no heap memory (a SACK with gaps owns its list of gaps).

pub mod abort;
pub mod asconf;
pub mod cause;
pub mod cookie;
pub mod data;
pub mod ecn;
pub mod error;
pub mod forward_tsn;
pub mod heartbeat;
pub mod idata;
pub mod init;
pub mod nr_sack;
pub mod parameter;
pub mod sack;
pub mod shutdown;
pub mod unknown;

pub use abort::Abort;
pub use asconf::{Asconf, AsconfAck};
pub use cause::Cause;
pub use cookie::CookieEcho;
pub use data::{Data, DataFlags};
pub use ecn::{CongestionEcho, CongestionReduced};
pub use error::Error;
pub use forward_tsn::{ForwardTsn, IForwardTsn, Skipped, SkippedMessage};
pub use heartbeat::Heartbeat;
pub use idata::IData;
pub use init::Init;
pub use nr_sack::NrSack;
pub use parameter::{AddressType, Parameter};
pub use sack::{Duplicates, GapBlock, Sack, SackFlags};
pub use shutdown::{Shutdown, ShutdownComplete};
pub use unknown::{Action, Unknown};

/// UDP port of SCTP over UDP (RFC 6951 §4.1).
pub const UDP_PORT: u16 = 9899;

/// Length of the common header, bytes (RFC 9260 §3.1).
pub const HEADER_LEN: u32 = 12;

/// Length of a chunk's header, bytes: type, flags, length (RFC 9260 §3.2).
pub const CHUNK_HEADER_LEN: u32 = 4;

/// The length with the zero bytes that fill chunks and parameters up to a multiple of 4 (RFC 9260 §3.2).
pub const fn padded(len: u32) -> u32 {
    (len + 3) & !3
}

/// An SCTP packet: common header and chunks.
///
/// Which chunks may share a packet is the protocol core's matter; any order of chunks is a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Verification tag: the receiver's initiate tag, 0 in a packet with INIT.
    pub verification_tag: u32,
    /// Chunks, in order.
    pub chunks: Vec<Chunk>,
}

impl Packet {
    /// Bytes on the wire: the common header and all chunks with their padding, without IP (and UDP) header.
    pub fn wire_len(&self) -> u32 {
        HEADER_LEN + self.chunks.iter().map(Chunk::wire_len).sum::<u32>()
    }
}

/// A chunk (RFC 9260 §3.3; RFC 3758, 5061, 8260 and the NR-SACK draft where named).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// `DATA`, type 0 (§3.3.1).
    Data(Data),
    /// `INIT`, type 1 (§3.3.2).
    Init(Init),
    /// `INIT ACK`, type 2 (§3.3.3); the same fields as `INIT`, other parameters.
    InitAck(Init),
    /// `SACK`, type 3 (§3.3.4).
    Sack(Sack),
    /// `HEARTBEAT`, type 4 (§3.3.5).
    Heartbeat(Heartbeat),
    /// `HEARTBEAT ACK`, type 5 (§3.3.6); returns the information of the `HEARTBEAT`.
    HeartbeatAck(Heartbeat),
    /// `ABORT`, type 6 (§3.3.7).
    Abort(Abort),
    /// `SHUTDOWN`, type 7 (§3.3.8).
    Shutdown(Shutdown),
    /// `SHUTDOWN ACK`, type 8 (§3.3.9).
    ShutdownAck,
    /// `ERROR`, type 9 (§3.3.10).
    Error(Error),
    /// `COOKIE ECHO`, type 10 (§3.3.11).
    CookieEcho(CookieEcho),
    /// `COOKIE ACK`, type 11 (§3.3.12).
    CookieAck,
    /// `ECNE`, type 12 (RFC 4960 appendix A): explicit congestion notification echo.
    CongestionEcho(CongestionEcho),
    /// `CWR`, type 13 (RFC 4960 appendix A): congestion window reduced.
    CongestionReduced(CongestionReduced),
    /// `SHUTDOWN COMPLETE`, type 14 (§3.3.13).
    ShutdownComplete(ShutdownComplete),
    /// `NR-SACK`, type 0x10 (draft-natarajan-tsvwg-sctp-nrsack §4). Boxed, to keep the others small.
    NrSack(Box<NrSack>),
    /// `I-DATA`, type 0x40 (RFC 8260 §2.1).
    IData(IData),
    /// `ASCONF ACK`, type 0x80 (RFC 5061 §4.1.2).
    AsconfAck(AsconfAck),
    /// `FORWARD TSN`, type 0xC0 (RFC 3758 §3.2).
    ForwardTsn(ForwardTsn),
    /// `ASCONF`, type 0xC1 (RFC 5061 §4.1.1). Boxed, to keep the others small.
    Asconf(Box<Asconf>),
    /// `I-FORWARD-TSN`, type 0xC2 (RFC 8260 §2.3.1).
    IForwardTsn(IForwardTsn),
    /// Any other type, kept as it came.
    Unknown(Unknown),
}

// The simulator moves millions of chunks a second; a chunk stays within a cache line.
const _: () = assert!(size_of::<Chunk>() <= 48);

/// Chunk type numbers.
pub mod kind {
    /// `DATA`.
    pub const DATA: u8 = 0;
    /// `INIT`.
    pub const INIT: u8 = 1;
    /// `INIT ACK`.
    pub const INIT_ACK: u8 = 2;
    /// `SACK`.
    pub const SACK: u8 = 3;
    /// `HEARTBEAT`.
    pub const HEARTBEAT: u8 = 4;
    /// `HEARTBEAT ACK`.
    pub const HEARTBEAT_ACK: u8 = 5;
    /// `ABORT`.
    pub const ABORT: u8 = 6;
    /// `SHUTDOWN`.
    pub const SHUTDOWN: u8 = 7;
    /// `SHUTDOWN ACK`.
    pub const SHUTDOWN_ACK: u8 = 8;
    /// `ERROR`.
    pub const ERROR: u8 = 9;
    /// `COOKIE ECHO`.
    pub const COOKIE_ECHO: u8 = 10;
    /// `COOKIE ACK`.
    pub const COOKIE_ACK: u8 = 11;
    /// `ECNE`.
    pub const CONGESTION_ECHO: u8 = 12;
    /// `CWR`.
    pub const CONGESTION_REDUCED: u8 = 13;
    /// `SHUTDOWN COMPLETE`.
    pub const SHUTDOWN_COMPLETE: u8 = 14;
    /// `NR-SACK`.
    pub const NR_SACK: u8 = 0x10;
    /// `I-DATA`.
    pub const I_DATA: u8 = 0x40;
    /// `ASCONF ACK`.
    pub const ASCONF_ACK: u8 = 0x80;
    /// `FORWARD TSN`.
    pub const FORWARD_TSN: u8 = 0xc0;
    /// `ASCONF`.
    pub const ASCONF: u8 = 0xc1;
    /// `I-FORWARD-TSN`.
    pub const I_FORWARD_TSN: u8 = 0xc2;
}

impl Chunk {
    /// The chunk type number, as in [`kind`].
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Data(_) => kind::DATA,
            Self::Init(_) => kind::INIT,
            Self::InitAck(_) => kind::INIT_ACK,
            Self::Sack(_) => kind::SACK,
            Self::Heartbeat(_) => kind::HEARTBEAT,
            Self::HeartbeatAck(_) => kind::HEARTBEAT_ACK,
            Self::Abort(_) => kind::ABORT,
            Self::Shutdown(_) => kind::SHUTDOWN,
            Self::ShutdownAck => kind::SHUTDOWN_ACK,
            Self::Error(_) => kind::ERROR,
            Self::CookieEcho(_) => kind::COOKIE_ECHO,
            Self::CookieAck => kind::COOKIE_ACK,
            Self::CongestionEcho(_) => kind::CONGESTION_ECHO,
            Self::CongestionReduced(_) => kind::CONGESTION_REDUCED,
            Self::ShutdownComplete(_) => kind::SHUTDOWN_COMPLETE,
            Self::NrSack(_) => kind::NR_SACK,
            Self::IData(_) => kind::I_DATA,
            Self::AsconfAck(_) => kind::ASCONF_ACK,
            Self::ForwardTsn(_) => kind::FORWARD_TSN,
            Self::Asconf(_) => kind::ASCONF,
            Self::IForwardTsn(_) => kind::I_FORWARD_TSN,
            Self::Unknown(unknown) => unknown.kind,
        }
    }

    /// What the length field of the chunk says: header and value in bytes, without the padding behind them.
    pub fn length(&self) -> u32 {
        match self {
            Self::Data(data) => data.length(),
            Self::Sack(sack) => sack.length(),
            Self::NrSack(sack) => sack.length(),
            Self::IData(data) => data.length(),
            Self::Init(init) | Self::InitAck(init) => init.length(),
            Self::Heartbeat(heartbeat) | Self::HeartbeatAck(heartbeat) => heartbeat.length(),
            Self::Abort(abort) => abort.length(),
            Self::Error(error) => error.length(),
            Self::CookieEcho(echo) => echo.length(),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete(_) => CHUNK_HEADER_LEN,
            Self::Shutdown(_) | Self::CongestionEcho(_) | Self::CongestionReduced(_) => CHUNK_HEADER_LEN + 4,
            Self::ForwardTsn(forward) => forward.length(),
            Self::IForwardTsn(forward) => forward.length(),
            Self::Asconf(asconf) => asconf.length(),
            Self::AsconfAck(ack) => ack.length(),
            Self::Unknown(unknown) => unknown.length(),
        }
    }

    /// Bytes on the wire, padding included.
    pub fn wire_len(&self) -> u32 {
        padded(self.length())
    }
}
