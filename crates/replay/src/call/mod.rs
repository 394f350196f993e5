//! Calls of a host, and of its connections by their applications.

use super::fields::{Fields, Malformed, Put};
use super::settings;
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Reliability, StreamChange, Write};
use anabranch_endpoint::{Address, Ends};
use anabranch_host::{Backlog, ConnectionId, Listening, Protocol, Transport};
use anabranch_multipath::PathId;
use core::net::IpAddr;

/// Longest MTU that a host accepts, bytes, and the least: IPv4's for hosts (RFC 791 §3.2).
const MTUS: core::ops::RangeInclusive<u32> = 576..=65_575;
/// Maximum number of addresses of a host or of a peer.
const MAX_ADDRESSES: usize = 1024;

/// The remote end of a new connection, and the local one if the caller has chosen it.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestedEnds {
    /// Any local address, and these addresses and this port of the peer.
    Remote(Vec<IpAddr>, u16),
    /// The local end that the caller has chosen, and the remote end.
    Ends(Ends),
}

/// A call, with the result that it had.
#[derive(Clone, Debug)]
pub enum Call {
    /// Opens a connection. The result is the connection, `None` if it was refused.
    Connect { protocol: Protocol, between: RequestedEnds, got: Option<ConnectionId> },
    /// Listens on a port. The result is whether it was accepted.
    Listen { listening: Listening, accepted: bool },
    /// Closes a listener.
    StopListening(Transport, u16),
    /// Accepts a connection.
    Accept { at: (Transport, u16), got: ConnectionId },
    /// Gives the application of a connection access to it.
    Touch(ConnectionId),
    /// Writes; the result is the number of accepted bytes.
    Write { id: ConnectionId, write: Write, accepted: u64 },
    /// Reads up to `max` bytes; the result is the length of the delivery.
    Read { id: ConnectionId, max: u64, got: Option<u64> },
    /// Ends writing.
    Close(ConnectionId),
    /// Aborts a connection.
    Abort(ConnectionId),
    /// Requests a change of streams. The result is whether it was accepted.
    ChangeStreams { id: ConnectionId, change: StreamChange, accepted: bool },
    /// Releases a connection.
    Forget(ConnectionId),
    /// Makes a path the primary path. The result is whether there is such a path.
    SetPrimary { id: ConnectionId, path: PathId, done: bool },
    /// Makes a subflow a backup or a usual one. The result is whether there is such a subflow.
    SetBackup { id: ConnectionId, path: PathId, backup: bool, done: bool },
    /// Adds an address or changes it.
    AddAddress(Address),
    /// Removes an address.
    RemoveAddress(IpAddr),
    /// Processes timers that are due.
    Timeout,
    /// Drains the output.
    Drive,
}

impl Call {
    /// The number of the call's kind.
    const fn kind(&self) -> u8 {
        match self {
            Self::Connect { .. } => 1,
            Self::Listen { .. } => 2,
            Self::StopListening(..) => 3,
            Self::Accept { .. } => 4,
            Self::Touch(_) => 5,
            Self::Write { .. } => 6,
            Self::Read { .. } => 7,
            Self::Close(_) => 8,
            Self::Abort(_) => 9,
            Self::ChangeStreams { .. } => 10,
            Self::Forget(_) => 11,
            Self::SetPrimary { .. } => 12,
            Self::SetBackup { .. } => 13,
            Self::AddAddress(_) => 14,
            Self::RemoveAddress(_) => 15,
            Self::Timeout => 16,
            Self::Drive => 17,
        }
    }

    /// The number of the last kind.
    pub const LAST_KIND: u8 = 17;

    /// Appends the call. False if it contains settings that keys cannot express; then the rest is missing.
    pub fn put(&self, out: &mut Vec<u8>) -> bool {
        out.push(self.kind());
        match self {
            Self::Connect { protocol, between, got } => {
                put_between(between, out);
                put_id(*got, out);
                return settings::put(protocol, out);
            }
            Self::Listen { listening, accepted } => {
                put_place((listening.protocol.transport(), listening.port), out);
                out.put_number(listening.backlog.complete as u64);
                out.put_number(listening.backlog.incomplete as u64);
                out.put_flag(*accepted);
                return settings::put(&listening.protocol, out);
            }
            Self::StopListening(transport, port) => put_place((*transport, *port), out),
            Self::Accept { at, got } => {
                put_place(*at, out);
                put_id(Some(*got), out);
            }
            Self::Touch(id) | Self::Close(id) | Self::Abort(id) | Self::Forget(id) => put_id(Some(*id), out),
            Self::Write { id, write, accepted } => {
                put_id(Some(*id), out);
                put_write(write, out);
                out.put_number(*accepted);
            }
            Self::Read { id, max, got } => {
                put_id(Some(*id), out);
                out.put_number(*max);
                out.put_flag(got.is_some());
                out.put_number(got.unwrap_or_default());
            }
            Self::ChangeStreams { id, change, accepted } => {
                put_id(Some(*id), out);
                put_change(change, out);
                out.put_flag(*accepted);
            }
            Self::SetPrimary { id, path, done } => {
                put_id(Some(*id), out);
                out.push(path.0);
                out.put_flag(*done);
            }
            Self::SetBackup { id, path, backup, done } => {
                put_id(Some(*id), out);
                out.push(path.0);
                out.put_flag(*backup);
                out.put_flag(*done);
            }
            Self::AddAddress(address) => put_address(*address, out),
            Self::RemoveAddress(ip) => out.put_address(*ip),
            Self::Timeout | Self::Drive => {}
        }
        true
    }

    /// The next call, whose kind has been read.
    pub fn read(kind: u8, fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        Ok(match kind {
            1 => {
                let (between, got) = (read_between(fields)?, read_id(fields)?);
                Self::Connect { between, got, protocol: settings::read(fields)? }
            }
            2 => {
                let (transport, port) = read_place(fields)?;
                let backlog = Backlog { complete: fields.small()?, incomplete: fields.small()? };
                let accepted = fields.flag()?;
                let protocol = settings::read(fields)?;
                if protocol.transport() != transport {
                    return Err(Malformed);
                }
                Self::Listen { listening: Listening { protocol, port, backlog }, accepted }
            }
            3 => {
                let (transport, port) = read_place(fields)?;
                Self::StopListening(transport, port)
            }
            4 => Self::Accept { at: read_place(fields)?, got: some_id(fields)? },
            5 => Self::Touch(some_id(fields)?),
            6 => Self::Write { id: some_id(fields)?, write: read_write(fields)?, accepted: fields.number()? },
            7 => {
                let (id, max) = (some_id(fields)?, fields.number()?);
                let (is_some, len) = (fields.flag()?, fields.number()?);
                Self::Read { id, max, got: is_some.then_some(len) }
            }
            8 => Self::Close(some_id(fields)?),
            9 => Self::Abort(some_id(fields)?),
            10 => {
                let (id, change) = (some_id(fields)?, read_change(fields)?);
                Self::ChangeStreams { id, change, accepted: fields.flag()? }
            }
            11 => Self::Forget(some_id(fields)?),
            12 => {
                Self::SetPrimary { id: some_id(fields)?, path: PathId(fields.byte()?), done: fields.flag()? }
            }
            13 => {
                let (id, path) = (some_id(fields)?, PathId(fields.byte()?));
                Self::SetBackup { id, path, backup: fields.flag()?, done: fields.flag()? }
            }
            14 => Self::AddAddress(read_address(fields)?),
            15 => Self::RemoveAddress(fields.address()?),
            16 => Self::Timeout,
            17 => Self::Drive,
            _ => return Err(Malformed),
        })
    }
}

/// Zero stands for no connection.
fn put_id(id: Option<ConnectionId>, out: &mut Vec<u8>) {
    out.put_number(id.map_or(0, ConnectionId::to_number));
}

fn read_id(fields: &mut Fields<'_>) -> Result<Option<ConnectionId>, Malformed> {
    match fields.number()? {
        0 => Ok(None),
        number => ConnectionId::from_number(number).map(Some).ok_or(Malformed),
    }
}

fn some_id(fields: &mut Fields<'_>) -> Result<ConnectionId, Malformed> {
    read_id(fields)?.ok_or(Malformed)
}

fn put_place((transport, port): (Transport, u16), out: &mut Vec<u8>) {
    out.push(match transport {
        Transport::Tcp => 0,
        Transport::Sctp => 1,
        Transport::Udp => 2,
    });
    out.put_number(port.into());
}

fn read_place(fields: &mut Fields<'_>) -> Result<(Transport, u16), Malformed> {
    let transport = match fields.byte()? {
        0 => Transport::Tcp,
        1 => Transport::Sctp,
        2 => Transport::Udp,
        _ => return Err(Malformed),
    };
    Ok((transport, fields.small()?))
}

/// Appends an address of a host.
pub fn put_address(address: Address, out: &mut Vec<u8>) {
    out.put_address(address.ip);
    out.put_number(address.mtu.into());
    out.put_flag(address.backup);
}

/// The next address of a host.
pub fn read_address(fields: &mut Fields<'_>) -> Result<Address, Malformed> {
    let address = Address { ip: fields.address()?, mtu: fields.small()?, backup: fields.flag()? };
    if MTUS.contains(&address.mtu) { Ok(address) } else { Err(Malformed) }
}

/// The next addresses of a host.
pub fn read_addresses(fields: &mut Fields<'_>) -> Result<Vec<Address>, Malformed> {
    let addresses = fields.list(read_address)?;
    if addresses.len() <= MAX_ADDRESSES { Ok(addresses) } else { Err(Malformed) }
}

fn put_between(between: &RequestedEnds, out: &mut Vec<u8>) {
    let (local, port, remote, remote_port) = match between {
        RequestedEnds::Remote(remote, port) => (&[][..], 0, remote, *port),
        RequestedEnds::Ends(ends) => (&ends.local[..], ends.local_port, &ends.remote, ends.remote_port),
    };
    out.put_flag(matches!(between, RequestedEnds::Ends(_)));
    out.put_list(local.iter().copied(), put_address);
    out.put_number(port.into());
    out.put_list(remote.iter(), |&address, out| out.put_address(address));
    out.put_number(remote_port.into());
}

fn read_between(fields: &mut Fields<'_>) -> Result<RequestedEnds, Malformed> {
    let has_ends = fields.flag()?;
    let (local, local_port) = (read_addresses(fields)?, fields.small()?);
    let (remote, remote_port) = (fields.list(Fields::address)?, fields.small()?);
    if remote.len() > MAX_ADDRESSES {
        return Err(Malformed);
    }
    if !has_ends {
        return Ok(RequestedEnds::Remote(remote, remote_port));
    }
    if local.is_empty() || remote.is_empty() || local[0].ip.is_ipv4() != remote[0].is_ipv4() {
        return Err(Malformed);
    }
    Ok(RequestedEnds::Ends(Ends { local, local_port, remote, remote_port }))
}

fn put_write(write: &Write, out: &mut Vec<u8>) {
    out.put_number(write.len);
    out.put_number(write.stream.into());
    out.put_flag(write.unordered);
    out.put_number(write.ppid.into());
    let (kind, limit) = match write.reliability {
        Reliability::Full => (0, 0),
        Reliability::Lifetime(lifetime) => (1, lifetime.as_nanos()),
        Reliability::Retransmissions(number) => (2, number.into()),
        Reliability::Priority(priority) => (3, priority.into()),
    };
    out.push(kind);
    out.put_number(limit);
}

fn read_write(fields: &mut Fields<'_>) -> Result<Write, Malformed> {
    let (len, stream, unordered, ppid) = (fields.number()?, fields.small()?, fields.flag()?, fields.small()?);
    let kind = fields.byte()?;
    let reliability = match kind {
        0 if fields.number()? == 0 => Reliability::Full,
        1 => Reliability::Lifetime(Duration::from_nanos(fields.number()?)),
        2 => Reliability::Retransmissions(fields.small()?),
        3 => Reliability::Priority(fields.small()?),
        _ => return Err(Malformed),
    };
    Ok(Write { len, stream, unordered, ppid, reliability })
}

fn put_change(change: &StreamChange, out: &mut Vec<u8>) {
    let put = |kind: u8, numbers: &[u16], out: &mut Vec<u8>| {
        out.push(kind);
        out.put_list(numbers.iter(), |&number, out| out.put_number(number.into()));
    };
    match change {
        StreamChange::ResetOutgoing(streams) => put(0, streams, out),
        StreamChange::ResetIncoming(streams) => put(1, streams, out),
        StreamChange::ResetAll => put(2, &[], out),
        StreamChange::AddOutgoing(number) => put(3, &[*number], out),
        StreamChange::AddIncoming(number) => put(4, &[*number], out),
    }
}

fn read_change(fields: &mut Fields<'_>) -> Result<StreamChange, Malformed> {
    let kind = fields.byte()?;
    let numbers = fields.list(Fields::small)?;
    match (kind, numbers.as_slice()) {
        (0, _) => Ok(StreamChange::ResetOutgoing(numbers.into())),
        (1, _) => Ok(StreamChange::ResetIncoming(numbers.into())),
        (2, []) => Ok(StreamChange::ResetAll),
        (3, &[number]) => Ok(StreamChange::AddOutgoing(number)),
        (4, &[number]) => Ok(StreamChange::AddIncoming(number)),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests;
