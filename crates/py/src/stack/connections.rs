//! Listeners and connections.

use super::call::Call;
use super::values::{MessageLimits, StreamRequest, change, event, failure, json, mistake, reason};
use anabranch_host::ConnectionId;
use anabranch_multipath::PathId;
use anabranch_net::{self as net, ConnectionReport, Message};
use core::pin::Pin;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest part of a stream that one call reads, bytes.
const MAX_READ_BYTES: usize = 1 << 20;

/// A handle until it is closed.
struct Handle<T>(Mutex<Option<Arc<T>>>);

impl<T> Handle<T> {
    fn new(inner: T) -> Self {
        Self(Mutex::new(Some(Arc::new(inner))))
    }

    fn get(&self) -> PyResult<Arc<T>> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(|| mistake("it was closed; calls after close are not possible".to_owned()))
    }

    /// Releases the connection. Calls that have not returned keep it until they end.
    fn close(&self) {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(inner);
    }
}

/// A class whose instances are answers of calls.
macro_rules! answers {
    ($type:ident, $inner:ty) => {
        impl $type {
            pub(super) fn new(inner: $inner) -> Self {
                Self(Handle::new(inner))
            }

            pub(super) fn into_answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                Ok(Py::new(py, self)?.into_any())
            }
        }
    };
}

/// A port that accepts connections.
#[pyclass(frozen)]
pub(crate) struct Listener(Handle<net::Listener>);

answers!(Listener, net::Listener);

#[pymethods]
impl Listener {
    /// Waits for a connection of TCP or Multipath TCP; the call returns a `Stream`.
    fn accept(&self) -> PyResult<Call> {
        let listener = self.0.get()?;
        Ok(Call::new(async move { listener.accept().await.map_err(failure) }, |py, stream| {
            Stream::new(stream).into_answer(py)
        }))
    }

    /// Waits for an association; the call returns an `Association`.
    fn accept_association(&self) -> PyResult<Call> {
        let listener = self.0.get()?;
        Ok(Call::new(
            async move { listener.accept_association().await.map_err(failure) },
            |py, association| Association::new(association).into_answer(py),
        ))
    }

    /// Closes the port.
    fn close(&self) {
        self.0.close();
    }
}

/// The calls that streams and associations have in common. Python's classes have copies of them, because a class has only
/// one block of methods.
trait Connection: Send + Sync + 'static {
    fn id(&self) -> ConnectionId;
    fn addresses(&self) -> (Option<String>, Option<String>);
    fn ended(&self) -> impl Future<Output = anabranch_endpoint::Reason> + Send;
    fn event(&self) -> impl Future<Output = Option<anabranch_endpoint::Event>> + Send;
    fn report(&self) -> impl Future<Output = Result<anabranch_endpoint::Report, net::Error>> + Send;
}

macro_rules! connection {
    ($type:ty) => {
        impl Connection for $type {
            fn id(&self) -> ConnectionId {
                self.id()
            }

            fn addresses(&self) -> (Option<String>, Option<String>) {
                let text = |address: core::net::SocketAddr| address.to_string();
                (self.local().map(text), self.remote().map(text))
            }

            async fn ended(&self) -> anabranch_endpoint::Reason {
                self.ended().await
            }

            async fn event(&self) -> Option<anabranch_endpoint::Event> {
                self.event().await
            }

            async fn report(&self) -> Result<anabranch_endpoint::Report, net::Error> {
                self.report().await
            }
        }
    };
}

connection!(net::Stream);
connection!(net::Association);

fn ended<C: Connection>(connection: Arc<C>) -> Call {
    Call::text(async move { Ok(reason(connection.ended().await).to_owned()) })
}

fn next_event<C: Connection>(connection: Arc<C>) -> Call {
    Call::text(async move { json(&connection.event().await.map(event)) })
}

fn report<C: Connection>(connection: Arc<C>) -> Call {
    Call::text(async move {
        let report = connection.report().await.map_err(failure)?;
        json(&ConnectionReport { id: connection.id(), report }.to_json())
    })
}

/// A connection of TCP or Multipath TCP.
#[pyclass(frozen)]
pub(crate) struct Stream(Handle<net::Stream>);

answers!(Stream, net::Stream);

#[pymethods]
impl Stream {
    /// Reads at least one byte and at most `max_bytes`; an empty result means the end.
    fn read(&self, max_bytes: usize) -> PyResult<Call> {
        let stream = self.0.get()?;
        let mut bytes = vec![0; max_bytes.min(MAX_READ_BYTES)];
        let work = async move {
            let len = poll_fn(|context| {
                let mut out = ReadBuf::new(&mut bytes);
                let read = Pin::new(&mut &*stream).poll_read(context, &mut out);
                read.map_ok(|()| out.filled().len())
            })
            .await?;
            bytes.truncate(len);
            Ok(bytes)
        };
        Ok(Call::new(work, |py, bytes| Ok(PyBytes::new(py, &bytes).into_any().unbind())))
    }

    /// Writes bytes: returns when there was room for all of them.
    fn write(&self, data: &[u8]) -> PyResult<Call> {
        let (stream, bytes) = (self.0.get()?, data.to_vec());
        Ok(Call::empty(async move {
            let mut written = 0;
            while written < bytes.len() {
                let rest = &bytes[written..];
                written += poll_fn(|context| Pin::new(&mut &*stream).poll_write(context, rest)).await?;
            }
            Ok(())
        }))
    }

    /// Makes a subflow a backup, or a usual one.
    fn set_backup(&self, path: u8, backup: bool) -> PyResult<Call> {
        let stream = self.0.get()?;
        Ok(Call::empty(async move { stream.set_backup(PathId(path), backup).await.map_err(failure) }))
    }

    /// Local and remote address and port of the first path.
    fn addresses(&self) -> PyResult<(Option<String>, Option<String>)> {
        Ok(self.0.get()?.addresses())
    }

    /// Ends writing.
    fn shutdown(&self) -> PyResult<()> {
        self.0.get()?.close();
        Ok(())
    }

    /// Resets the connection.
    fn abort(&self) -> PyResult<()> {
        self.0.get()?.abort();
        Ok(())
    }

    /// Waits for the end of the connection; the call returns its reason.
    fn ended(&self) -> PyResult<Call> {
        Ok(ended(self.0.get()?))
    }

    /// Waits for the next event; the call returns JSON.
    fn event(&self) -> PyResult<Call> {
        Ok(next_event(self.0.get()?))
    }

    /// State and counters; the call returns JSON.
    fn report(&self) -> PyResult<Call> {
        Ok(report(self.0.get()?))
    }

    /// Releases the connection.
    fn close(&self) {
        self.0.close();
    }
}

/// An association of SCTP or CMT-SCTP.
#[pyclass(frozen)]
pub(crate) struct Association(Handle<net::Association>);

answers!(Association, net::Association);

#[pymethods]
impl Association {
    /// Sends a message: returns when there was room for it. `limits` are its lifetime in seconds, its retransmissions and
    /// its priority.
    #[expect(clippy::too_many_arguments, reason = "the parameters are keyword arguments in Python")]
    fn send(
        &self,
        data: &[u8],
        stream: u16,
        ppid: u32,
        unordered: bool,
        limits: MessageLimits,
    ) -> PyResult<Call> {
        let association = self.0.get()?;
        let bytes = data.to_vec();
        let message = Message { bytes, stream, ppid, unordered, reliability: limits.reliability()? };
        Ok(Call::empty(async move { association.send(message).await.map_err(failure) }))
    }

    /// Waits for a message; the call returns a tuple of bytes, stream, payload protocol identifier, and three flags: sent
    /// unordered, continued by the next part, abandoned. `None` is the end.
    fn receive(&self) -> PyResult<Call> {
        let association = self.0.get()?;
        Ok(Call::new(async move { association.receive().await.map_err(failure) }, |py, message| {
            let Some(net::Received { bytes, stream, ppid, unordered, more, aborted }) = message else {
                return Ok(py.None());
            };
            let values = (PyBytes::new(py, &bytes), stream, ppid, unordered, more, aborted);
            Ok(values.into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Makes a path the primary path.
    fn set_primary(&self, path: u8) -> PyResult<Call> {
        let association = self.0.get()?;
        Ok(Call::empty(async move { association.set_primary(PathId(path)).await.map_err(failure) }))
    }

    /// Requests a change of streams: a number adds streams, a list resets them, and `None` resets all. The call
    /// returns whether the request was made.
    #[pyo3(signature = (request, incoming))]
    fn change_streams(&self, request: Option<StreamRequest>, incoming: bool) -> PyResult<Call> {
        let association = self.0.get()?;
        let change = change(request, incoming);
        Ok(Call::new(async move { association.change_streams(change).await.map_err(failure) }, |py, made| {
            Ok(made.into_pyobject(py)?.to_owned().into_any().unbind())
        }))
    }

    /// Local and remote address and port of the first path.
    fn addresses(&self) -> PyResult<(Option<String>, Option<String>)> {
        Ok(self.0.get()?.addresses())
    }

    /// Ends writing.
    fn shutdown(&self) -> PyResult<()> {
        self.0.get()?.close();
        Ok(())
    }

    /// Aborts the association.
    fn abort(&self) -> PyResult<()> {
        self.0.get()?.abort();
        Ok(())
    }

    /// Waits for the end of the connection; the call returns its reason.
    fn ended(&self) -> PyResult<Call> {
        Ok(ended(self.0.get()?))
    }

    /// Waits for the next event; the call returns JSON.
    fn event(&self) -> PyResult<Call> {
        Ok(next_event(self.0.get()?))
    }

    /// State and counters; the call returns JSON.
    fn report(&self) -> PyResult<Call> {
        Ok(report(self.0.get()?))
    }

    /// Releases the association.
    fn close(&self) {
        self.0.close();
    }
}
