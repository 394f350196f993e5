//! The meter between machines from Python.

use crate::errors;
use anabranch_net::meter::remote::{Failure, Interval, PORT, Plan, Server, run};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// The port of a meter that waits for others.
#[pyfunction]
pub(crate) const fn meter_port() -> u16 {
    PORT
}

/// A meter that waits for others at an address, as long as this value is there.
#[pyclass(unsendable)]
pub(crate) struct MeterServer {
    server: Server,
}

#[pymethods]
impl MeterServer {
    #[new]
    fn new(address: &str, port: u16) -> PyResult<Self> {
        let address = place(address, port).ok_or_else(|| {
            let sentence = format!("{address} is no address of IPv4 or IPv6; write one, such as 0.0.0.0");
            errors::raised_at(sentence, None, None)
        })?;
        let server = Server::start(address)
            .map_err(|error| PyOSError::new_err(format!("nothing can listen at {address}: {error}")))?;
        Ok(Self { server })
    }

    /// Where it waits.
    fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// What happened next, and whether a test came to its end with it; `None` if nothing happens within a twentieth of a
    /// second.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<(String, bool)>> {
        py.check_signals()?;
        let news = self.server.poll(Duration::from_millis(50));
        Ok(news.map(|news| (news.text, news.ended)))
    }
}

/// An address as text with a port. One of IPv6 that is a link's own has the interface behind it, as in `fe80::1%eth0`.
fn place(address: &str, port: u16) -> Option<SocketAddr> {
    match address.split_once('%') {
        None => Some(SocketAddr::new(address.parse().ok()?, port)),
        Some((ip, _)) if ip.parse::<Ipv6Addr>().is_ok() => (address, port).to_socket_addrs().ok()?.next(),
        Some(_) => None,
    }
}

/// Carries out a plan, in JSON, with the meter that waits at a host and port; the result as JSON. `callback` is called with
/// each interval as JSON. All connections leave from the address `local`, if one is given.
#[pyfunction]
#[pyo3(signature = (host, port, plan, callback, local = None))]
#[expect(clippy::too_many_arguments, reason = "in Python it is a keyword")]
pub(crate) fn meter_run(
    py: Python<'_>,
    host: &str,
    port: u16,
    plan: &str,
    callback: &Bound<'_, PyAny>,
    local: Option<&str>,
) -> PyResult<String> {
    let local = local
        .map(|address| {
            address.parse().map_err(|_| {
                errors::raised_at(format!("{address} is no address of IPv4 or IPv6"), None, None)
            })
        })
        .transpose()?;
    let plan: Plan = serde_json::from_str(plan)
        .map_err(|error| PyRuntimeError::new_err(format!("the plan cannot be read: {error}")))?;
    let callback = callback.clone().unbind();
    let mut failed = None;
    let document = py.detach(|| {
        run((host, port), local, plan, &mut |interval| match Python::attach(|py| {
            look(py, &callback, interval)
        }) {
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
        Failure::Plan(sentence) => errors::raised_at(sentence, None, None),
        Failure::Peer(sentence) => PyOSError::new_err(sentence),
    })?;
    serde_json::to_string(&document).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Lets Python see to its signals, and tells it of an interval.
fn look(py: Python<'_>, callback: &Py<PyAny>, interval: Option<Interval>) -> PyResult<()> {
    py.check_signals()?;
    let Some(interval) = interval else { return Ok(()) };
    let text =
        serde_json::to_string(&interval).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    callback.call1(py, (text,)).map(drop)
}
