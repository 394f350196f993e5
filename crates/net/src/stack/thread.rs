//! The thread of a stack: an engine that obeys commands.

use super::arrivals::{ArrivalsEnd, Pair, first_pair};
use super::command::{Command, Reply, Stop, Stopped};
use super::error::Error;
use super::pipe::{PipeEnd, Pipes};
use super::queue::Queue;
use super::report::ConnectionReport;
use crate::engine::Engine;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Endpoint;
use anabranch_host::{ConnectionId, Protocol};
use core::net::IpAddr;
use std::sync::Arc;

/// Longest sleep without packets, timers and commands.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

/// Refuses further commands when the thread ends, also by a panic.
struct Closer(Arc<Queue<Command>>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Runs a stack until it is stopped.
pub fn run(queue: Arc<Queue<Command>>, engine: Engine) {
    let closer = Closer(queue);
    let mut thread = Thread { engine, pipes: Pipes::default(), stopping: None, replies: Vec::new() };
    thread.engine.settle();
    let mut aborted = 0;
    loop {
        for command in closer.0.take() {
            thread.obey(command);
        }
        thread.engine.settle();
        let now = thread.engine.now();
        let limit = match thread.stopping {
            None => now + MAX_SLEEP,
            Some(limit) if limit <= now => {
                aborted = thread.abort_all();
                break;
            }
            Some(_) if thread.engine.connections().next().is_none() => break,
            Some(limit) => limit,
        };
        if thread.engine.step(limit, Some(closer.0.fd())).is_err() {
            // The kernel lacks memory to wait for packets, so none will arrive.
            aborted = thread.abort_all();
            break;
        }
    }
    let capture = thread.engine.network().finish_capture();
    let recording = thread.engine.host().finish_recording();
    let Thread { replies, engine, .. } = thread;
    drop(engine);
    drop(closer);
    if let Some(first) = replies.into_iter().next() {
        // The caller may no longer wait for the reply.
        let _ = first.send(Stopped { aborted, capture, recording });
    }
}

struct Thread {
    engine: Engine,
    pipes: Pipes,
    /// The time at which the remaining connections are aborted.
    stopping: Option<Time>,
    replies: Vec<Reply<Stopped>>,
}

impl Thread {
    /// Executes a command. Errors of replies are ignored, because the caller may no longer wait.
    fn obey(&mut self, command: Command) {
        match command {
            Command::Connect { protocol, remote, pipe, reply } => {
                let is_stream = !matches!(*protocol, Protocol::Sctp(_));
                let end = PipeEnd::new(Arc::clone(&pipe), Pipes::clone(&self.pipes), is_stream);
                let opened = self.connect(&protocol, remote, end);
                if let Ok((id, _)) = opened {
                    pipe.set_id(id);
                    self.pipes.borrow_mut().insert(id, Arc::clone(&pipe));
                }
                if reply.send(opened).is_err() && pipe.abort() {
                    pipe.id().into_iter().for_each(|id| self.engine.turn(id));
                }
            }
            Command::Listen { listening, arrivals, reply } => {
                let is_stream = !matches!(listening.protocol, Protocol::Sctp(_));
                let end = ArrivalsEnd { arrivals, pipes: Pipes::clone(&self.pipes), is_stream };
                let result = if self.stopping.is_some() {
                    Err(Error::Stopped)
                } else {
                    self.engine.listen(*listening, Box::new(end)).map_err(Error::Host)
                };
                let _ = reply.send(result);
            }
            Command::StopListening(transport, port) => self.engine.stop_listening(transport, port),
            Command::Accept => self.engine.settle(),
            Command::Turn(id) => self.engine.turn(id),
            Command::AddDevice(device, addresses) => self.engine.network().add_boxed(device, addresses),
            Command::UseAddress(ip, is_used, reply) => {
                let network = self.engine.network();
                let known = if is_used { network.restore_address(ip) } else { network.remove_address(ip) };
                let _ = reply.send(if known { Ok(()) } else { Err(Error::NoSuchAddress) });
            }
            Command::SetPrimary(id, path, reply) => {
                let is_done = self.engine.host().set_primary(id, path);
                let _ = reply.send(if is_done { Ok(()) } else { Err(Error::NoSuchPath) });
            }
            Command::SetBackup(id, path, backup, reply) => {
                let now = self.engine.now();
                let is_done = self.engine.host().set_backup(now, id, (path, backup));
                let _ = reply.send(if is_done { Ok(()) } else { Err(Error::NoSuchPath) });
            }
            Command::ChangeStreams(id, change, reply) => {
                let now = self.engine.now();
                let change = |endpoint: &mut dyn Endpoint| endpoint.change_streams(now, change);
                let _ = reply.send(self.engine.host().with_endpoint(id, change).unwrap_or(false));
            }
            Command::Report(id, reply) => {
                let _ = reply.send(self.engine.host().endpoint(id).map(Endpoint::report));
            }
            Command::Released(id, reply) => {
                let _ = reply.send(self.engine.host().endpoint(id).map(Endpoint::released));
            }
            Command::Reports(reply) => {
                let ids: Vec<_> = self.engine.connections().collect();
                let host = self.engine.host();
                let report = |id| Some(ConnectionReport { id, report: host.endpoint(id)?.report() });
                let _ = reply.send(ids.into_iter().filter_map(report).collect());
            }
            Command::Stop(stop, reply) => {
                self.replies.extend(reply);
                self.stop(stop);
            }
        }
    }

    fn connect(
        &mut self,
        protocol: &Protocol,
        (remote, port): (Vec<IpAddr>, u16),
        end: PipeEnd,
    ) -> Result<(ConnectionId, Option<Pair>), Error> {
        if self.stopping.is_some() {
            return Err(Error::Stopped);
        }
        // First updates the addresses, so that no connection starts on a device that is down.
        self.engine.settle();
        let id = self.engine.connect(protocol, (&remote, port), end)?;
        Ok((id, self.engine.host().endpoint(id).and_then(first_pair)))
    }

    fn stop(&mut self, stop: Stop) {
        self.engine.stop_listening_all();
        let now = self.engine.now();
        let limit = match stop {
            Stop::Abort => now,
            Stop::Drain(time) => {
                now + Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2))
            }
        };
        self.stopping = Some(self.stopping.map_or(limit, |before| before.min(limit)));
        let pipes: Vec<_> = self.pipes.borrow().iter().map(|(&id, pipe)| (id, Arc::clone(pipe))).collect();
        for (id, pipe) in pipes {
            if stop != Stop::Abort && pipe.close() {
                self.engine.turn(id);
            }
        }
    }

    /// Aborts all connections and sends their last packets. Returns their number.
    fn abort_all(&mut self) -> usize {
        let now = self.engine.now();
        let all: Vec<_> = self.engine.connections().collect();
        let pipes = self.pipes.borrow();
        let left = all.iter().filter(|id| pipes.get(id).is_none_or(|pipe| pipe.ended().is_none())).count();
        drop(pipes);
        for id in all {
            self.engine.host().forget(now, id);
        }
        self.engine.settle();
        left
    }
}
