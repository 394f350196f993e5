//! The meter between machines from Python.

use crate::errors;
use anabranch_net::meter::remote::{Event, Failure, PORT, Plan, Server, Source, run};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// The port of a meter server.
#[pyfunction]
pub(crate) const fn meter_port() -> u16 {
    PORT
}

/// A meter server at an address, while this value exists.
#[pyclass(unsendable)]
pub(crate) struct MeterServer {
    server: Server,
}

#[pymethods]
impl MeterServer {
    #[new]
    fn new(address: &str, port: u16) -> PyResult<Self> {
        let address = socket_address(address, port).ok_or_else(|| {
            let sentence = format!("{address} is not an IPv4 or IPv6 address; write for example 0.0.0.0");
            errors::input_error_at(sentence, None, None)
        })?;
        let server = Server::start(address)
            .map_err(|error| PyOSError::new_err(format!("cannot listen at {address}: {error}")))?;
        Ok(Self { server })
    }

    /// Address and port of the server.
    fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// The next event, and whether it ended a test; `None` without an event within 50 ms.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<(String, bool)>> {
        py.check_signals()?;
        let news = self.server.poll(Duration::from_millis(50));
        Ok(news.map(|news| (news.text, news.ended)))
    }
}

/// An address as text with a port. A link-local IPv6 address is followed by its interface, for example
/// `fe80::1%eth0`.
fn socket_address(address: &str, port: u16) -> Option<SocketAddr> {
    match address.split_once('%') {
        None => Some(SocketAddr::new(address.parse().ok()?, port)),
        Some((ip, _)) if ip.parse::<Ipv6Addr>().is_ok() => (address, port).to_socket_addrs().ok()?.next(),
        Some(_) => None,
    }
}

/// Runs a plan, in JSON, with the meter server at a host and port; returns the result as JSON. `callback` is
/// called with each event as JSON. Connections use the source addresses `local`, the ports from `first_port` on, and only
/// IPv6 or only IPv4, if given.
#[pyfunction]
#[pyo3(signature = (host, port, plan, callback, local = Vec::new(), first_port = None, ipv6 = None))]
#[expect(clippy::too_many_arguments, reason = "the parameters are keyword arguments in Python")]
pub(crate) fn meter_run(
    py: Python<'_>,
    host: &str,
    port: u16,
    plan: &str,
    callback: &Bound<'_, PyAny>,
    local: Vec<String>,
    first_port: Option<u16>,
    ipv6: Option<bool>,
) -> PyResult<String> {
    let parse = |address: String| {
        let refused =
            |_| errors::input_error_at(format!("{address} is not an IPv4 or IPv6 address"), None, None);
        address.parse().map_err(refused)
    };
    let addresses = local.into_iter().map(parse).collect::<PyResult<_>>()?;
    let source = Source { addresses, first_port, ipv6 };
    let plan: Plan = serde_json::from_str(plan)
        .map_err(|error| PyRuntimeError::new_err(format!("the plan cannot be read: {error}")))?;
    let callback = callback.clone().unbind();
    let mut failed = None;
    let document = py.detach(|| {
        run((host, port), &source, plan, &mut |event| match Python::attach(|py| report(py, &callback, event))
        {
            Ok(()) => true,
            Err(error) => {
                failed.get_or_insert(error);
                false
            }
        })
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let document = document.map_err(|failure| match failure {
        Failure::Plan(sentence) => errors::input_error_at(sentence, None, None),
        Failure::Peer(sentence) => PyOSError::new_err(sentence),
    })?;
    serde_json::to_string(&document).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Lets Python handle signals, and reports an event.
fn report(py: Python<'_>, callback: &Py<PyAny>, event: Option<Event>) -> PyResult<()> {
    py.check_signals()?;
    let Some(event) = event else { return Ok(()) };
    let text = serde_json::to_string(&event).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    callback.call1(py, (text,)).map(drop)
}
