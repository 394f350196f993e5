//! Arguments, answers and errors of the stack.

use crate::errors::input_error_at;
use anabranch_endpoint::{Event, Reason, Reliability, StreamChange};
use anabranch_host::{HostError, Protocol};
use anabranch_net::{DevicesError, Error, Interface};
use anabranch_settings::protocol::Protocol as Settings;
use anabranch_settings::protocols::{PROTOCOLS, Protocols};
use anabranch_settings::suggest::remedy;
use anabranch_settings::text::quoted;
use anabranch_wire::sctp::encapsulation::Ports;
use core::net::IpAddr;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use serde_json::{Value, json as value};
use std::io;

/// A protocol with its settings, as key and value.
#[derive(FromPyObject)]
pub(super) struct Choice(String, Vec<(String, String)>);

impl Choice {
    /// The protocol. `udp_port` is the port of a host with UDP.
    pub(super) fn protocol(self, udp_port: Option<u16>, peer_udp_port: Option<u16>) -> PyResult<Protocol> {
        let Self(name, settings) = self;
        let known = PROTOCOLS.iter().filter(|entry| entry.value != Protocols::UDP);
        let Some(entry) = known.clone().find(|entry| entry.name == name) else {
            let names: Vec<_> = known.map(|entry| entry.name).collect();
            let remedy = remedy(&name, &names, "protocols");
            return Err(mistake(format!("protocol is {}; {remedy}", quoted(&name))));
        };
        if udp_port.is_some() && !Protocols::ANY_SCTP.contains(entry.value) {
            return Err(mistake(format!("UDP carries SCTP only; use a TUN interface for {name}")));
        }
        let mut protocol = Settings::new(entry.value);
        for (key, text) in &settings {
            let wrong = |problem| mistake(format!("setting {}: {problem}", quoted(key)));
            protocol.set(key, text).map_err(wrong)?;
        }
        crate::algorithms::refuse(&protocol).map_err(mistake)?;
        if let (Settings::Sctp(config), Some(source)) = (&mut protocol, udp_port) {
            let destination = peer_udp_port.unwrap_or(source);
            config.encapsulation = Some(Ports { source, destination });
            // The calls for them need no further settings.
            (config.partial_reliability, config.reconfiguration) = (true, true);
        }
        Ok(protocol.into())
    }
}

/// The error for a mistake of the caller.
pub(super) fn mistake(sentence: String) -> PyErr {
    input_error_at(sentence, None, None)
}

/// An IP address of a text.
pub(super) fn address(text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| mistake(format!("{} is not an IPv4 or IPv6 address", quoted(text))))
}

/// A TUN interface: name, the kernel's address with its prefix, the own address, and whether it is a backup.
pub(super) fn interface((name, kernel, own, backup): (String, String, String, bool)) -> PyResult<Interface> {
    match Interface::parse(&name, &kernel, &own) {
        Some(parsed) => Ok(Interface { backup, ..parsed }),
        None => Err(mistake(format!(
            "interface {} has the addresses {} and {}; write for example \"10.99.0.1/24\" for the kernel and \
             \"10.99.0.2\" for the stack",
            quoted(&name),
            quoted(&kernel),
            quoted(&own)
        ))),
    }
}

/// The error for a device that the machine refuses.
pub(super) fn refused(error: &DevicesError) -> PyErr {
    match error {
        DevicesError::Capture(_, reason) => crate::run::not_written(error.to_string(), reason),
        error => PyOSError::new_err(error.to_string()),
    }
}

/// The error of a call: a mistake of the caller, or the one that Python's sockets raise.
pub(super) fn failure(error: Error) -> PyErr {
    match error {
        Error::EmptyMessage
        | Error::MessageTooLarge { .. }
        | Error::NoSuchStream { .. }
        | Error::WrongProtocol
        | Error::NoSuchAddress
        | Error::Host(HostError::NoAddress | HostError::Config(_)) => mistake(error.to_string()),
        error => io::Error::from(error).into(),
    }
}

/// A value as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The name of the reason why a connection ended.
pub(super) const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Closed => "closed",
        Reason::Reset => "reset",
        Reason::Aborted => "aborted",
        Reason::TimedOut => "timed out",
        Reason::Unreachable => "unreachable",
        Reason::Refused => "refused",
    }
}

/// An event with its fields. Other calls wait for data and for the end.
pub(super) fn event(event: Event) -> Value {
    match event {
        Event::PathUp(path) => value!({ "event": "path_up", "path": path.0 }),
        Event::PathDown(path) => value!({ "event": "path_down", "path": path.0 }),
        Event::Restarted { discarded } => value!({ "event": "restarted", "discarded_bytes": discarded }),
        Event::NoSuchStream { stream, streams } => {
            value!({ "event": "no_such_stream", "stream": stream, "streams": streams })
        }
        Event::Abandoned { offset, len, sent } => {
            value!({ "event": "abandoned", "offset": offset, "bytes": len, "sent": sent })
        }
        Event::StreamReset { incoming, stream } => {
            value!({ "event": "stream_reset", "incoming": incoming, "stream": stream })
        }
        Event::NumbersReset => value!({ "event": "numbers_reset" }),
        Event::StreamsAdded { incoming, streams } => {
            value!({ "event": "streams_added", "incoming": incoming, "streams": streams })
        }
        Event::ChangeRefused => value!({ "event": "change_refused" }),
        other => value!({ "event": format!("{other:?}") }),
    }
}

/// The limits of a message: its lifetime in seconds, its retransmissions, its priority. At most one is given.
#[derive(FromPyObject)]
pub(super) struct MessageLimits(Option<f64>, Option<u8>, Option<u32>);

impl MessageLimits {
    pub(super) fn reliability(self) -> PyResult<Reliability> {
        Ok(match (self.0, self.1, self.2) {
            (None, None, None) => Reliability::Full,
            (Some(lifetime_s), None, None) => {
                let lifetime = std::time::Duration::try_from_secs_f64(lifetime_s).ok();
                let nanos = lifetime.and_then(|lifetime| u64::try_from(lifetime.as_nanos()).ok());
                let wrong = || mistake("lifetime_s must be a number of seconds from 0 on".to_owned());
                Reliability::Lifetime(anabranch_base::time::Duration::from_nanos(nanos.ok_or_else(wrong)?))
            }
            (None, Some(retransmissions), None) => Reliability::Retransmissions(retransmissions),
            (None, None, Some(priority)) => Reliability::Priority(priority),
            _ => {
                let sentence = "lifetime_s, retransmissions and priority exclude each other; choose one";
                return Err(mistake(sentence.to_owned()));
            }
        })
    }
}

/// A change of streams: `None` resets all streams, a list resets these, a number adds streams.
#[derive(FromPyObject)]
pub(super) enum StreamRequest {
    Add(u16),
    Reset(Vec<u16>),
}

/// The change that a request means; without a request all streams are reset.
pub(super) fn change(request: Option<StreamRequest>, incoming: bool) -> StreamChange {
    match (request, incoming) {
        (None, _) => StreamChange::ResetAll,
        (Some(StreamRequest::Add(count)), false) => StreamChange::AddOutgoing(count),
        (Some(StreamRequest::Add(count)), true) => StreamChange::AddIncoming(count),
        (Some(StreamRequest::Reset(streams)), false) => StreamChange::ResetOutgoing(streams.into()),
        (Some(StreamRequest::Reset(streams)), true) => StreamChange::ResetIncoming(streams.into()),
    }
}
