//! Replay of a host's calls.

use super::call::{Call, RequestedEnds};
use super::difference::{Difference, Place, Sent, compare};
use super::error::ReplayError;
use super::fields::Malformed;
use super::image::Image;
use super::record::Record;
use super::stream::Reader;
use super::tape::digest_of;
use anabranch_base::time::Time;
use anabranch_endpoint::{Address, Bytes, Event, Placement, Secrets, Socket};
use anabranch_host::{ConnectionId, Host, HostDriver, Limits};
use anabranch_wire::checksum::Checksum;
use anabranch_wire::{Buffer, Content, Packet, Payload};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;

/// A host that repeats recorded calls.
pub struct ReplayedHost {
    host: Host,
    has_data: bool,
    /// The bytes of connections, in a recording with data.
    bytes: BTreeMap<ConnectionId, Data>,
    /// Packets that the host sent after the last call and that the recording does not have yet.
    sent: VecDeque<Sent>,
    /// The last packet that arrived.
    arrived: Vec<u8>,
}

/// The bytes of a connection.
#[derive(Default)]
struct Data {
    bytes: Bytes,
    /// Number of bytes of accepted writes.
    accepted: u64,
}

impl ReplayedHost {
    /// A new host.
    pub fn new(has_data: bool, key: [u8; 32], addresses: Vec<Address>, limits: Limits) -> Self {
        let host = Host::new(addresses, limits, Secrets::new(key));
        let (bytes, sent) = (BTreeMap::new(), VecDeque::new());
        Self { host, has_data, bytes, sent, arrived: Vec::new() }
    }

    /// Replays all records until the end or the first difference.
    pub fn replay<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<Option<Difference>, ReplayError> {
        // An arrival waits for the next record, which may have its checksums.
        let mut arrival = None;
        loop {
            let (at, arrivals) = (reader.now(), reader.counts().arrivals);
            let record = reader.read();
            if let Some(image) = arrival.take() {
                let sums = if let Ok(Some(Record::Sums(sums))) = &record { &sums[..] } else { &[] };
                let results = self.arrive(at, image, sums).map_err(|Malformed| reader.damaged())?;
                if let Some((recorded, replayed)) = results {
                    let place = Place::Call { number: arrivals, name: "arrival" };
                    return Ok(Some(Difference { at, place, recorded, replayed }));
                }
                if let Ok(Some(Record::Sums(_))) = record {
                    continue;
                }
            }
            let record = record?;
            let (at, number) = (reader.now(), reader.counts().sent);
            if let Some(Record::Sent(image, digest)) = record {
                if digest.is_some() != self.has_data {
                    return Err(reader.damaged());
                }
                let recorded = Sent { image, digest };
                let difference = compare(number, at, Some(&recorded), self.sent.pop_front().as_ref());
                if difference.is_some() {
                    return Ok(difference);
                }
                continue;
            }
            if let Some(surplus) = self.sent.pop_front() {
                return Ok(compare(number + 1, at, None, Some(&surplus)));
            }
            let difference = match record {
                None => return Ok(None),
                Some(Record::Call(call)) => self.call(at, reader.counts().calls, *call),
                Some(Record::Arrival(image)) => {
                    arrival = Some(image);
                    Ok(None)
                }
                Some(Record::Data(id, data)) => self.write(id, &data).map(|()| None),
                Some(Record::Sums(_) | Record::Sent(..) | Record::Clock | Record::End(_)) => Err(Malformed),
            };
            if let Some(difference) = difference.map_err(|Malformed| reader.damaged())? {
                return Ok(Some(difference));
            }
        }
    }

    /// Repeats the call with this number, and compares its result.
    fn call(&mut self, at: Time, number: u64, call: Call) -> Result<Option<Difference>, Malformed> {
        let place = Place::Call { number, name: name_of(&call) };
        let results = self.repeat(at, call)?;
        Ok(results.map(|(recorded, replayed)| Difference { at, place, recorded, replayed }))
    }

    /// Repeats an arrival.
    fn arrive(&mut self, now: Time, image: Image, sums: &[u16]) -> Result<Results, Malformed> {
        let packet = image.parse().ok_or(Malformed)?;
        self.arrived = image.bytes;
        let recorded = (!self.has_data).then_some(sums);
        let content = Summed { buffer: Buffer(&self.arrived), recorded, count: Cell::new(0) };
        let connection = self.host.handle_packet(now, packet, &content);
        let count = content.count.get();
        // The recorded host placed the payload at once, too, or drove the connection next.
        if let Some(id) = connection {
            let Self { host, has_data, bytes, sent, arrived } = self;
            host.place(id, &mut Outlet { has_data: *has_data, arrived, bytes, sent, ended: Vec::new() });
        }
        Ok(recorded.and_then(|sums| differ(sums.len(), count, |sums| format!("{sums} checksums of payload"))))
    }

    /// Repeats a call.
    fn repeat(&mut self, now: Time, call: Call) -> Result<Results, Malformed> {
        let connection = |id: Option<ConnectionId>| id.map_or("refused".to_owned(), |_| format!("{id:?}"));
        Ok(match call {
            Call::Connect { protocol, between, got } => {
                let new = match between {
                    RequestedEnds::Remote(remote, port) => self.host.connect(now, &protocol, (&remote, port)),
                    RequestedEnds::Ends(ends) => self.host.connect_from(now, &protocol, ends),
                };
                differ(got, new.ok(), connection)
            }
            Call::Listen { listening, accepted } => {
                differ(accepted, self.host.listen(listening).is_ok(), acceptance)
            }
            Call::StopListening(transport, port) => {
                self.host.stop_listening(now, transport, port);
                None
            }
            Call::Accept { at, got } => differ(Some(got), self.host.accept(at.0, at.1), connection),
            Call::Touch(id) => {
                let endpoint = self.host.endpoint_mut(id);
                if let (Some(endpoint), Some(data)) = (endpoint.as_deref(), self.bytes.get_mut(&id)) {
                    data.bytes.release(endpoint);
                }
                differ(true, endpoint.is_some(), |is_there| {
                    if is_there { "open" } else { "closed" }.to_owned()
                })
            }
            Call::SetPrimary { id, path, done } => differ(done, self.host.set_primary(id, path), acceptance),
            Call::SetBackup { id, path, backup, done } => {
                differ(done, self.host.set_backup(now, id, (path, backup)), acceptance)
            }
            Call::Forget(id) => {
                self.host.forget(now, id);
                self.bytes.remove(&id);
                None
            }
            Call::AddAddress(address) => {
                self.host.add_address(now, address);
                None
            }
            Call::RemoveAddress(ip) => {
                self.host.remove_address(now, ip);
                None
            }
            Call::Timeout => {
                self.host.handle_timeout(now);
                None
            }
            Call::Drive => {
                self.drive(now)?;
                None
            }
            of_connection => self.call_of_connection(now, of_connection)?,
        })
    }

    /// Repeats a call of an application, which follows a [`Call::Touch`].
    fn call_of_connection(&mut self, now: Time, call: Call) -> Result<Results, Malformed> {
        let Self { host, bytes, has_data, .. } = self;
        let (Call::Write { id, .. }
        | Call::Read { id, .. }
        | Call::Close(id)
        | Call::Abort(id)
        | Call::ChangeStreams { id, .. }) = call
        else {
            return Err(Malformed);
        };
        let endpoint = host.endpoint_mut(id).ok_or(Malformed)?;
        Ok(match call {
            Call::Write { write, accepted, .. } => {
                let new = endpoint.write(now, write);
                if *has_data {
                    bytes.entry(id).or_default().accepted += new;
                }
                differ(accepted, new, |bytes| format!("{bytes} bytes accepted"))
            }
            Call::Read { max, got, .. } => {
                let new = if *has_data {
                    let bytes = &mut bytes.entry(id).or_default().bytes;
                    Socket { endpoint, bytes, now }.read(max, &mut Vec::new())
                } else {
                    endpoint.read(now, max)
                };
                let len = new.map(|delivery| delivery.len);
                differ(got, len, |len| len.map_or("nothing".to_owned(), |len| format!("{len} bytes")))
            }
            Call::ChangeStreams { change, accepted, .. } => {
                let new = endpoint.change_streams(now, change);
                differ(accepted, new, acceptance)
            }
            Call::Abort(_) => {
                endpoint.abort(now);
                None
            }
            _ => {
                endpoint.close(now);
                None
            }
        })
    }

    /// Keeps the bytes of earlier writes.
    fn write(&mut self, id: ConnectionId, written: &[u8]) -> Result<(), Malformed> {
        let Data { bytes, accepted } = self.bytes.get_mut(&id).ok_or(Malformed)?;
        if !self.has_data || bytes.sent.written() + written.len() as u64 > *accepted {
            return Err(Malformed);
        }
        bytes.sent.write(written);
        Ok(())
    }

    /// Drains the host. Bytes of all writes have to precede it, since it may send them.
    fn drive(&mut self, now: Time) -> Result<(), Malformed> {
        let Self { host, has_data, bytes, sent, arrived } = self;
        if bytes.values().any(|data| data.bytes.sent.written() < data.accepted) {
            return Err(Malformed);
        }
        let mut outlet = Outlet { has_data: *has_data, arrived, bytes, sent, ended: Vec::new() };
        host.drive(now, &mut outlet);
        for id in outlet.ended {
            if host.endpoint(id).is_none() {
                self.bytes.remove(&id);
            }
        }
        Ok(())
    }
}

/// Two different results of a call, as texts: the recorded one and that of the replay.
type Results = Option<(String, String)>;

fn differ<T: PartialEq + Copy>(recorded: T, replayed: T, text: impl Fn(T) -> String) -> Results {
    (recorded != replayed).then(|| (text(recorded), text(replayed)))
}

/// The result of a call that a host accepts or refuses, as text.
fn acceptance(accepted: bool) -> String {
    if accepted { "accepted" } else { "refused" }.to_owned()
}

/// The name of a call in messages.
const fn name_of(call: &Call) -> &'static str {
    match call {
        Call::Connect { .. } => "connect",
        Call::Listen { .. } => "listen",
        Call::StopListening(..) => "stop_listening",
        Call::Accept { .. } => "accept",
        Call::Touch(_) => "application",
        Call::Write { .. } => "write",
        Call::Read { .. } => "read",
        Call::Close(_) => "close",
        Call::Abort(_) => "abort",
        Call::ChangeStreams { .. } => "change_streams",
        Call::Forget(_) => "forget",
        Call::SetPrimary { .. } => "set_primary",
        Call::SetBackup { .. } => "set_backup",
        Call::AddAddress(_) => "add_address",
        Call::RemoveAddress(_) => "remove_address",
        Call::Timeout => "timeout",
        Call::Drive => "drive",
    }
}

/// The payload of an arrival: its bytes, or the sums that were recorded instead of them.
struct Summed<'a> {
    buffer: Buffer<'a>,
    /// `None`: the buffer has the real bytes.
    recorded: Option<&'a [u16]>,
    /// Number of sums computed.
    count: Cell<usize>,
}

impl Content for Summed<'_> {
    fn sum(&self, payload: Payload) -> Checksum {
        let at = self.count.replace(self.count.get() + 1);
        let Some(recorded) = self.recorded else { return self.buffer.sum(payload) };
        // Bytes whose checksum is the recorded sum. Their number is odd if the payload's length is odd.
        let [high, low] = (!recorded.get(at).copied().unwrap_or_default()).to_be_bytes();
        Checksum::new().bytes(&[high, low, 0][..2 + payload.len as usize % 2])
    }

    fn copy(&self, payload: Payload, out: &mut [u8]) {
        self.buffer.copy(payload, out);
    }
}

/// Receives the output of the host.
struct Outlet<'a> {
    has_data: bool,
    arrived: &'a [u8],
    bytes: &'a mut BTreeMap<ConnectionId, Data>,
    sent: &'a mut VecDeque<Sent>,
    ended: Vec<ConnectionId>,
}

impl HostDriver for Outlet<'_> {
    fn place(&mut self, connection: ConnectionId, placement: Placement) {
        if self.has_data {
            self.bytes.entry(connection).or_default().bytes.place(placement, Buffer(self.arrived));
        }
    }

    fn forget(&mut self, connection: ConnectionId, run: (u64, u32)) {
        if let Some(data) = self.bytes.get_mut(&connection) {
            data.bytes.fragments.forget(run);
        }
    }

    fn transmit(&mut self, connection: Option<ConnectionId>, packet: Packet) {
        let data = connection.and_then(|id| self.bytes.get(&id));
        let digest = self.has_data.then(|| {
            digest_of(&packet, &mut |payload, out| match data {
                Some(data) => data.bytes.fill(payload, out),
                None => out.fill(0),
            })
        });
        self.sent.push_back(Sent { image: Image::of(&packet), digest });
    }

    fn event(&mut self, connection: ConnectionId, event: Event) {
        if matches!(event, Event::Closed(_)) {
            self.ended.push(connection);
        }
    }
}
