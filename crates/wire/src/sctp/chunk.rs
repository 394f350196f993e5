//! One type over all chunks, their numbers, and the header that they share (RFC 9260 §3.2).

use super::{
    Abort, Asconf, AsconfAck, Auth, CHUNK_HEADER_LEN, CongestionEcho, CongestionReduced, CookieEcho, Data,
    Error, ForwardTsn, Heartbeat, IData, IForwardTsn, Init, NetworkControl, NrSack, Pad, Reconfig, Sack,
    Shutdown, ShutdownComplete, Unknown, kind, padded, tlv,
};
use crate::error::{Header, ParseError, Problem};
use crate::payload::Payload;
use crate::seq::Serial;

/// A chunk (RFC 9260 §3.3; RFC 3758, 4820, 4895, 5061, 6525, 8260 and the NR-SACK draft where named).
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
    /// `AUTH`, type 0x0F (RFC 4895 §4.1). Boxed, to keep the others small.
    Auth(Box<Auth>),
    /// `NR-SACK`, type 0x10 (draft-natarajan-tsvwg-sctp-nrsack §4). Boxed, to keep the others small.
    NrSack(Box<NrSack>),
    /// `I-DATA`, type 0x40 (RFC 8260 §2.1).
    IData(IData),
    /// `ASCONF ACK`, type 0x80 (RFC 5061 §4.1.2).
    AsconfAck(AsconfAck),
    /// `RE-CONFIG`, type 0x82 (RFC 6525 §3.1).
    Reconfig(Reconfig),
    /// `PAD`, type 0x84 (RFC 4820 §3).
    Pad(Pad),
    /// Network control, type 190: experimental. Boxed, to keep the others small.
    NetworkControl(Box<NetworkControl>),
    /// `FORWARD TSN`, type 0xC0 (RFC 3758 §3.2).
    ForwardTsn(ForwardTsn),
    /// `ASCONF`, type 0xC1 (RFC 5061 §4.1.1). Boxed, to keep the others small.
    Asconf(Box<Asconf>),
    /// `I-FORWARD-TSN`, type 0xC2 (RFC 8260 §2.3.1).
    IForwardTsn(IForwardTsn),
    /// Any other type, kept unchanged.
    Unknown(Unknown),
}

// The simulator moves millions of chunks a second, so a chunk must fit into a cache line.
const _: () = assert!(size_of::<Chunk>() <= 48);

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
            Self::Auth(_) => kind::AUTH,
            Self::NrSack(_) => kind::NR_SACK,
            Self::IData(_) => kind::I_DATA,
            Self::AsconfAck(_) => kind::ASCONF_ACK,
            Self::Reconfig(_) => kind::RECONFIG,
            Self::Pad(_) => kind::PAD,
            Self::NetworkControl(_) => kind::NETWORK_CONTROL,
            Self::ForwardTsn(_) => kind::FORWARD_TSN,
            Self::Asconf(_) => kind::ASCONF,
            Self::IForwardTsn(_) => kind::I_FORWARD_TSN,
            Self::Unknown(unknown) => unknown.kind,
        }
    }

    /// The value of the chunk's length field: bytes of header and value, without the padding behind them.
    #[inline]
    pub fn length(&self) -> u32 {
        match self {
            Self::Data(data) => data.length(),
            other => other.length_of_others(),
        }
    }

    /// The length field of all chunks except DATA, which is the most frequent chunk.
    fn length_of_others(&self) -> u32 {
        match self {
            Self::Data(data) => data.length(),
            Self::Sack(sack) => sack.length(),
            Self::Auth(auth) => auth.length(),
            Self::Pad(pad) => pad.length(),
            Self::NrSack(sack) => sack.length(),
            Self::IData(data) => data.length(),
            Self::Init(init) | Self::InitAck(init) => init.length(),
            Self::Heartbeat(heartbeat) | Self::HeartbeatAck(heartbeat) => heartbeat.length(),
            Self::Abort(abort) => abort.length(),
            Self::Error(error) => error.length(),
            Self::CookieEcho(echo) => echo.length(),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete(_) => CHUNK_HEADER_LEN,
            Self::Shutdown(_) | Self::CongestionReduced(_) => CHUNK_HEADER_LEN + 4,
            Self::CongestionEcho(echo) => echo.length(),
            Self::NetworkControl(_) => NetworkControl::LEN,
            Self::ForwardTsn(forward) => forward.length(),
            Self::IForwardTsn(forward) => forward.length(),
            Self::Asconf(asconf) => asconf.length(),
            Self::AsconfAck(ack) => ack.length(),
            Self::Reconfig(reconfig) => reconfig.length(),
            Self::Unknown(unknown) => unknown.length(),
        }
    }

    /// Bytes on the wire, padding included.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        padded(self.length())
    }
}

impl Chunk {
    /// The user data of `DATA` or `I-DATA`.
    pub const fn payload(&self) -> Option<Payload> {
        match self {
            Self::Data(data) => Some(data.payload),
            Self::IData(data) => Some(data.payload),
            _ => None,
        }
    }

    /// The transmission sequence number of `DATA` or `I-DATA`.
    pub const fn tsn(&self) -> Option<Serial> {
        match self {
            Self::Data(data) => Some(data.tsn),
            Self::IData(data) => Some(data.tsn),
            _ => None,
        }
    }

    /// The user data of `DATA` or `I-DATA`, to be changed: a parser does not know its stream offset.
    pub const fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            Self::Data(data) => Some(&mut data.payload),
            Self::IData(data) => Some(&mut data.payload),
            _ => None,
        }
    }

    /// The chunk as bytes without padding, as [`Cause::UnrecognizedChunk`](super::Cause::UnrecognizedChunk)
    /// contains it.
    pub fn to_bytes(&self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(self.wire_len() as usize);
        self.emit(&mut out, &mut |payload, bytes| payload.fill(bytes));
        out.truncate(self.length() as usize);
        out.into_boxed_slice()
    }

    /// Appends the chunk and its padding to `out`; `fill` supplies the bytes of a payload.
    pub(super) fn emit(&self, out: &mut Vec<u8>, fill: &mut dyn FnMut(Payload, &mut [u8])) {
        let start = out.len();
        let length = u16::try_from(self.length()).expect("a chunk has at most 65,535 bytes");
        out.extend_from_slice(&[self.kind(), self.flags()]);
        out.extend_from_slice(&length.to_be_bytes());
        match self {
            Self::Data(data) => data.emit(out, fill),
            Self::Sack(sack) => sack.emit(out),
            Self::Auth(auth) => auth.emit(out),
            Self::Pad(pad) => out.resize(out.len() + usize::from(pad.len), 0),
            Self::NrSack(sack) => sack.emit(out),
            Self::IData(data) => data.emit(out, fill),
            Self::Init(init) | Self::InitAck(init) => init.emit(out),
            Self::Heartbeat(heartbeat) | Self::HeartbeatAck(heartbeat) => heartbeat.emit(out),
            Self::Abort(abort) => abort.emit(out),
            Self::Error(error) => error.emit(out),
            Self::CookieEcho(echo) => out.extend_from_slice(&echo.cookie),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete(_) => {}
            Self::Shutdown(shutdown) => shutdown.emit(out),
            Self::CongestionEcho(echo) => echo.emit(out),
            Self::CongestionReduced(reduced) => reduced.emit(out),
            Self::NetworkControl(control) => control.emit(out),
            Self::ForwardTsn(forward) => forward.emit(out),
            Self::IForwardTsn(forward) => forward.emit(out),
            Self::Asconf(asconf) => asconf.emit(out),
            Self::AsconfAck(ack) => ack.emit(out),
            Self::Reconfig(reconfig) => reconfig.emit(out),
            Self::Unknown(unknown) => out.extend_from_slice(&unknown.value),
        }
        tlv::pad(out, start);
    }

    /// The flags field.
    const fn flags(&self) -> u8 {
        match self {
            Self::Data(data) => data.flags.0,
            Self::IData(data) => data.flags.0,
            Self::Sack(sack) => sack.flags.0,
            Self::NrSack(nr_sack) => nr_sack.sack.flags.0,
            Self::Abort(abort) => abort.reflected_tag as u8,
            Self::ShutdownComplete(complete) => complete.reflected_tag as u8,
            Self::NetworkControl(control) => control.flags(),
            Self::Unknown(unknown) => unknown.flags,
            _ => 0,
        }
    }

    /// Reads the chunk at the start of `bytes`. Returns it, its payload's offset being an index into `bytes`,
    /// and the bytes behind its padding. `None` if the bytes end within the chunk or its padding.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, &[u8])>, ParseError> {
        const HEADER: usize = CHUNK_HEADER_LEN as usize;
        let Some((&[kind, flags, high, low], _)) = bytes.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let header = Header::SctpChunk(kind);
        let length = u16::from_be_bytes([high, low]);
        let Some(_) = length.checked_sub(HEADER as u16) else {
            return Err(ParseError::new(header, 2, Problem::Length(length.into())));
        };
        // The padding belongs to the packet even behind its last chunk (RFC 9260 §3.2).
        let taken = padded(length.into()) as usize;
        let Some((chunk, behind)) = bytes.split_at_checked(taken) else { return Ok(None) };
        let value = &chunk[HEADER..length.into()];
        let mut chunk = Self::parse_value(kind, flags, value).map_err(|error| error.shifted(HEADER))?;
        if let Some(payload) = chunk.payload_mut() {
            payload.offset = (HEADER + value.len()) as u64 - u64::from(payload.len);
        }
        Ok(Some((chunk, behind)))
    }

    /// Reads a chunk that a capture cut, and returns true if a part of its fields is missing. The payload of `DATA` or
    /// `I-DATA` has the length that it had on the wire; `SACK` and `NR-SACK` lack the gap blocks that were not kept.
    pub(super) fn parse_cut(bytes: &[u8]) -> Option<(Self, bool)> {
        const HEADER: usize = CHUNK_HEADER_LEN as usize;
        let (&[kind, flags, high, low], value) = bytes.split_first_chunk::<HEADER>()?;
        match kind {
            kind::DATA | kind::I_DATA => {}
            kind::SACK => return Some((Self::Sack(Sack::parse_cut(flags, value)?), true)),
            kind::NR_SACK => return Some((Self::NrSack(Box::new(NrSack::parse_cut(flags, value)?)), true)),
            _ => return None,
        }
        let length = u32::from(u16::from_be_bytes([high, low]));
        let mut chunk = Self::parse_value(kind, flags, value).ok()?;
        let missing = length.checked_sub(bytes.len() as u32)?;
        chunk.payload_mut()?.len += missing;
        Some((chunk, false))
    }

    /// Reads the value of a chunk.
    fn parse_value(kind: u8, flags: u8, value: &[u8]) -> Result<Self, ParseError> {
        let empty = |chunk| match value.len() {
            0 => Ok(chunk),
            _ => Err(tlv::wrong_length(Header::SctpChunk(kind), value)),
        };
        let reflected_tag = flags & 1 != 0;
        Ok(match kind {
            kind::DATA => Self::Data(Data::parse(flags, value)?),
            kind::SACK => Self::Sack(Sack::parse(flags, value)?),
            kind::AUTH => Self::Auth(Box::new(Auth::parse(value)?)),
            kind::RECONFIG => Self::Reconfig(Reconfig::parse(value)?),
            kind::PAD => Self::Pad(Pad { len: value.len() as u16 }),
            kind::NR_SACK => Self::NrSack(Box::new(NrSack::parse(flags, value)?)),
            kind::I_DATA => Self::IData(IData::parse(flags, value)?),
            kind::INIT => Self::Init(Init::parse(kind, value)?),
            kind::INIT_ACK => Self::InitAck(Init::parse(kind, value)?),
            kind::HEARTBEAT => Self::Heartbeat(Heartbeat::parse(kind, value)?),
            kind::HEARTBEAT_ACK => Self::HeartbeatAck(Heartbeat::parse(kind, value)?),
            kind::ABORT => Self::Abort(Abort::parse(reflected_tag, value)?),
            kind::SHUTDOWN => Self::Shutdown(Shutdown::parse(value)?),
            kind::SHUTDOWN_ACK => empty(Self::ShutdownAck)?,
            kind::ERROR => Self::Error(Error::parse(value)?),
            kind::COOKIE_ECHO => Self::CookieEcho(CookieEcho { cookie: value.into() }),
            kind::COOKIE_ACK => empty(Self::CookieAck)?,
            kind::CONGESTION_ECHO => Self::CongestionEcho(CongestionEcho::parse(value)?),
            kind::CONGESTION_REDUCED => Self::CongestionReduced(CongestionReduced::parse(value)?),
            kind::SHUTDOWN_COMPLETE => empty(Self::ShutdownComplete(ShutdownComplete { reflected_tag }))?,
            kind::ASCONF_ACK => Self::AsconfAck(AsconfAck::parse(value)?),
            kind::FORWARD_TSN => Self::ForwardTsn(ForwardTsn::parse(value)?),
            kind::ASCONF => Self::Asconf(Box::new(Asconf::parse(value)?)),
            kind::I_FORWARD_TSN => Self::IForwardTsn(IForwardTsn::parse(value)?),
            // An invalid chunk is skipped like one of an unknown type: its packet is valid.
            kind::NETWORK_CONTROL => match NetworkControl::parse(flags, value) {
                Some(control) => Self::NetworkControl(Box::new(control)),
                None => Self::Unknown(Unknown { kind, flags, value: value.into() }),
            },
            _ => Self::Unknown(Unknown { kind, flags, value: value.into() }),
        })
    }
}
