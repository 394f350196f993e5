//! The running stack of a command, with its output and the signals that end it.

use crate::arguments::{Arguments, Target};
use crate::channel::Channel;
use crate::error::{DELIVERED, Error, FAILED, INTERRUPTED};
use crate::output::{INTERVAL, Output};
use crate::setup;
use anabranch_host::{Backlog, Limits, Listening, Protocol};
use anabranch_net::{AssociationStream, ConnectionReport, Listener, Stack, Stop, WriteEnd};
use core::future::Future;
use core::net::SocketAddr;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Maximum time for connections to end regularly after the command.
const DRAIN: Duration = Duration::from_secs(5);

/// Result of a connection or of a relay.
pub type Ending = Result<(), Error>;

/// The running stack of a command.
pub struct Session {
    stack: Stack,
    protocol: Protocol,
    end: WriteEnd,
    pub output: Output,
    /// True after the first SIGINT or SIGTERM.
    interrupted: watch::Receiver<bool>,
    whole: AtomicU64,
    partial: AtomicU64,
}

impl Session {
    /// Starts the stack for these arguments. `end` determines how an association marks the end of its data.
    ///
    /// # Errors
    ///
    /// One sentence, if a setting is wrong or the machine refuses to create the network.
    pub fn start(arguments: &Arguments, end: WriteEnd) -> Result<Arc<Self>, Error> {
        let protocol = setup::protocol(arguments)?;
        let network = setup::network(arguments)?;
        let refused = |error: std::io::Error| Error::Refused(format!("cannot start the stack: {error}"));
        let stack = match setup::recording(arguments)? {
            None => Stack::start(network, Limits::default()),
            Some(recording) => Stack::start_recorded(network, Limits::default(), recording),
        };
        let stack = stack.map_err(refused)?;
        let output = Output::new(arguments.json, arguments.quiet);
        let (tell, interrupted) = watch::channel(false);
        let mut int = signal(SignalKind::interrupt()).map_err(refused)?;
        let mut term = signal(SignalKind::terminate()).map_err(refused)?;
        tokio::spawn(async move {
            tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
            tell.send_replace(true);
            // The task never ends, so the sender of signals exists as long as the program.
            std::future::pending::<()>().await;
        });
        let (whole, partial) = (AtomicU64::new(0), AtomicU64::new(0));
        let session = Arc::new(Self { stack, protocol, end, output, interrupted, whole, partial });
        if session.output.shows_counters() {
            let session = Arc::clone(&session);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(INTERVAL).await;
                    let Ok(reports) = session.stack.reports().await else { return };
                    session.output.counters(&reports);
                }
            });
        }
        Ok(session)
    }

    /// Waits for SIGINT or SIGTERM.
    pub async fn interrupted(&self) {
        let mut interrupted = self.interrupted.clone();
        // Ignore errors: there are none, because the sender exists as long as the program.
        let _ = interrupted.wait_for(|is_interrupted| *is_interrupted).await;
    }

    /// Runs a task until a signal arrives.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if a signal arrives first.
    pub async fn unless_interrupted<T>(&self, task: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            () = self.interrupted() => Err(Error::Interrupted),
            done = task => Ok(done),
        }
    }

    /// Connects to a peer.
    ///
    /// # Errors
    ///
    /// One sentence with the reason why the connection failed.
    pub async fn connect(&self, target: &Target) -> Result<Channel, Error> {
        let (first, port) = (target.addresses[0], target.port);
        let to = SocketAddr::new(first, port);
        let protocol = self.protocol.clone();
        let channel = match protocol {
            Protocol::Sctp(_) => (self.stack.associate(protocol, &target.addresses, port).await)
                .map(|association| Channel::Association(AssociationStream::new(association, self.end))),
            _ => self.stack.connect(protocol, first, port).await.map(Channel::Stream),
        };
        let channel = channel.map_err(|error| Error::Refused(format!("cannot connect to {to}: {error}")))?;
        self.output.event("connected", &format!("connected to {to}"), json!({ "remote": to.to_string() }));
        Ok(channel)
    }

    /// Listens on a port.
    ///
    /// # Errors
    ///
    /// One sentence with the reason why the port cannot be used.
    pub async fn listen(&self, port: u16) -> Result<Listener, Error> {
        let listening = Listening { protocol: self.protocol.clone(), port, backlog: Backlog::default() };
        let refused = |error| Error::Refused(format!("cannot listen on port {port}: {error}"));
        let listener = self.stack.listen(listening).await.map_err(refused)?;
        self.output.event("listening", &format!("listening on port {port}"), json!({ "port": port }));
        Ok(listener)
    }

    /// Waits for a connection from a peer.
    ///
    /// # Errors
    ///
    /// If the stack has stopped.
    pub async fn accept(&self, listener: &Listener) -> Result<Channel, Error> {
        let channel = match &self.protocol {
            Protocol::Sctp(_) => (listener.accept_association().await)
                .map(|association| Channel::Association(AssociationStream::new(association, self.end))),
            _ => listener.accept().await.map(Channel::Stream),
        };
        let channel = channel.map_err(|error| Error::Refused(error.to_string()))?;
        let remote = channel.remote().map(|remote| remote.to_string()).unwrap_or_default();
        self.output.event("accepted", &format!("connection from {remote}"), json!({ "remote": remote }));
        Ok(channel)
    }

    /// Reports the end of a connection. Aborts the connection if it did not end regularly.
    pub async fn note_end(&self, channel: &Channel, ending: &Ending) {
        let state = match ending {
            Ok(()) => "whole".to_owned(),
            Err(error) => {
                channel.abort();
                channel.ended().await;
                error.to_string()
            }
        };
        let counter = if ending.is_ok() { &self.whole } else { &self.partial };
        counter.fetch_add(1, Ordering::Relaxed);
        let Ok(report) = channel.report().await else { return };
        let sentence = format!(
            "connection ended ({state}): {} bytes sent and acknowledged, {} bytes received",
            report.written - report.send_buffer,
            report.delivered
        );
        let mut fields = ConnectionReport { id: channel.id(), report }.to_json();
        fields["whole"] = json!(ending.is_ok());
        fields["reason"] = json!(state);
        self.output.event("ended", &sentence, fields);
    }

    /// Aborts all connections and stops the stack.
    pub async fn abort(&self) {
        // Ignore errors: the earlier error that made the program abort is reported instead.
        let _ = self.stack.stop(Stop::Abort).await;
    }

    /// Stops the stack; returns the exit status, which depends on whether all data was delivered.
    ///
    /// # Errors
    ///
    /// If the capture or the recording cannot be written.
    pub async fn finish(&self) -> Result<u8, Error> {
        let stopping = self.stack.stop(Stop::Drain(DRAIN));
        let stopped = stopping.await.map_err(|error| Error::Refused(error.to_string()))?;
        let [whole, partial] = [&self.whole, &self.partial].map(|counter| counter.load(Ordering::Relaxed));
        let status = match partial {
            0 => DELIVERED,
            _ if *self.interrupted.borrow() => INTERRUPTED,
            _ => FAILED,
        };
        let sentence = format!("{whole} connections whole, {partial} partial");
        self.output.event("end", &sentence, json!({ "whole": whole, "partial": partial, "status": status }));
        for (what, written) in [("capture", stopped.capture), ("recording", stopped.recording)] {
            written.map_err(|error| Error::Refused(format!("the {what} cannot be written: {error}")))?;
        }
        Ok(status)
    }
}
