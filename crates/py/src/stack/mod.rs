//! The stack of user space, for Python: a host whose calls are [`Call`]s, which wait with the interpreter released or in an
//! event loop.

mod call;
mod connections;
mod values;

pub(crate) use call::{Call, Calls};
pub(crate) use connections::{Association, Listener, Stream};

use anabranch_host::{Backlog, Limits, Listening};
use anabranch_net::{ConnectionReport, Devices, Stop};
use core::net::IpAddr;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::path::PathBuf;
use values::{Choice, address, failure, json, mistake, refused};

/// A host in user space with its devices.
///
/// `tuns` are interfaces: name, the kernel's address with its prefix, the own address, and whether the path is a backup.
/// `udp` are addresses of the machine that carry SCTP.
#[pyclass(frozen)]
pub(crate) struct Stack {
    stack: anabranch_net::Stack,
    /// The UDP port; `None` without UDP.
    udp_port: Option<u16>,
}

#[pymethods]
impl Stack {
    #[new]
    #[pyo3(signature = (tuns, udp, udp_port, mtu, pcap = None))]
    #[expect(clippy::too_many_arguments, reason = "the parameters are keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        tuns: Vec<(String, String, String, bool)>,
        udp: Vec<String>,
        udp_port: u16,
        mtu: u16,
        pcap: Option<PathBuf>,
    ) -> PyResult<Self> {
        let tuns = tuns.into_iter().map(values::interface).collect::<PyResult<_>>()?;
        let udp = udp.into_iter().map(|text| address(&text)).collect::<PyResult<Vec<_>>>()?;
        let has_udp = !udp.is_empty();
        let devices = Devices { tuns, udp, udp_port, mtu, pcap };
        let stack = py.detach(|| {
            let network = devices.open().map_err(|error| refused(&error))?;
            anabranch_net::Stack::start(network, Limits::default())
                .map_err(|error| PyOSError::new_err(format!("cannot start the stack: {error}")))
        })?;
        Ok(Self { stack, udp_port: has_udp.then_some(udp_port) })
    }

    /// Opens a connection of TCP or Multipath TCP; the call returns a `Stream`.
    fn connect(&self, remote: &str, port: u16, protocol: Choice) -> PyResult<Call> {
        let (remote, protocol) = (address(remote)?, protocol.protocol(self.udp_port, None)?);
        let stack = self.stack.clone();
        Ok(Call::new(
            async move { stack.connect(protocol, remote, port).await.map_err(failure) },
            |py, stream| Stream::new(stream).into_answer(py),
        ))
    }

    /// Opens an association with a host at these addresses; the call returns an `Association`.
    fn associate(
        &self,
        remote: Vec<String>,
        port: u16,
        protocol: Choice,
        peer_udp_port: u16,
    ) -> PyResult<Call> {
        let remote: Vec<IpAddr> = remote.into_iter().map(|text| address(&text)).collect::<PyResult<_>>()?;
        let protocol = protocol.protocol(self.udp_port, Some(peer_udp_port))?;
        if remote.is_empty() {
            return Err(mistake("the peer has no address; name at least one".to_owned()));
        }
        let stack = self.stack.clone();
        Ok(Call::new(
            async move { stack.associate(protocol, &remote, port).await.map_err(failure) },
            |py, association| Association::new(association).into_answer(py),
        ))
    }

    /// Listens on a port of all addresses; the call returns a `Listener`.
    fn listen(&self, port: u16, protocol: Choice, backlog: usize) -> PyResult<Call> {
        let protocol = protocol.protocol(self.udp_port, None)?;
        let backlog = Backlog { complete: backlog, ..Backlog::default() };
        let stack = self.stack.clone();
        Ok(Call::new(
            async move { stack.listen(Listening { protocol, port, backlog }).await.map_err(failure) },
            |py, listener| Listener::new(listener).into_answer(py),
        ))
    }

    /// Stops using an address, or uses it again.
    fn use_address(&self, ip: &str, is_used: bool) -> PyResult<Call> {
        let (stack, ip) = (self.stack.clone(), address(ip)?);
        Ok(Call::empty(async move {
            let done = if is_used { stack.restore_address(ip).await } else { stack.remove_address(ip).await };
            done.map_err(failure)
        }))
    }

    /// State and counters of all connections; the call returns JSON.
    fn reports(&self) -> Call {
        let stack = self.stack.clone();
        Call::text(async move {
            let reports = stack.reports().await.map_err(failure)?;
            json(&reports.iter().map(ConnectionReport::to_json).collect::<Vec<_>>())
        })
    }

    /// Stops the host as soon as its connections have ended, or after `drain_s` seconds; at once if `drain_s`
    /// is `None`. The call returns the number of connections that were aborted.
    #[pyo3(signature = (drain_s = None))]
    fn stop(&self, drain_s: Option<f64>) -> PyResult<Call> {
        let stop = match drain_s.map(std::time::Duration::try_from_secs_f64) {
            None => Stop::Abort,
            Some(Ok(drain)) => Stop::Drain(drain),
            Some(Err(_)) => return Err(mistake("the time must be a number of seconds from 0 on".to_owned())),
        };
        let stack = self.stack.clone();
        Ok(Call::new(
            async move {
                let stopped = stack.stop(stop).await.map_err(failure)?;
                let refused = |error| PyOSError::new_err(format!("the capture cannot be written: {error}"));
                stopped.capture.map_err(refused)?;
                Ok(stopped.aborted)
            },
            |py, aborted| Ok(aborted.into_pyobject(py)?.into_any().unbind()),
        ))
    }
}
