//! Runs services: listeners, one task per connection, and the shutdown.

use super::config::Limits;
use super::error::Error;
use super::handover::{self, Inherited, Successor};
use super::limits::connection_table::{ConnectionEntry, ConnectionTable};
use super::limits::descriptors::raise_descriptor_limit;
use super::limits::sources::Sources;
use super::listen::{accept, listen};
use super::log::{self, RateLimited};
use super::sockopt::is_multipath;
use super::stream::Transport;
use super::upstream::resolver::BLOCKING_THREADS;
use super::{systemd, watch};
use core::net::SocketAddr;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

/// Pause before the next accept after the kernel had no descriptor or memory for a connection.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// A connection that ends within this time without a byte from the client is a probe or a health check.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// Rate limit for log lines about connections that wait for a free slot because of `max_connections`.
static NO_ROOM: RateLimited = RateLimited::new();
/// Rate limit for log lines about failed calls of `accept`.
static NOT_ACCEPTED: RateLimited = RateLimited::new();
/// Rate limit for log lines about sources that have reached `max_per_source`.
static TOO_MANY: RateLimited = RateLimited::new();
/// Rate limit for log lines about connections that were reset to make room for new ones.
static EVICTED: RateLimited = RateLimited::new();

/// A service: handles the connections of its listeners.
pub trait Service: Send + Sync + 'static {
    /// Returns the name of the service in log lines.
    fn name(&self) -> &str;

    /// Returns the addresses on which the service listens.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Listens on one of the addresses. Uses an inherited socket if there is one, or a new one. Returns the listener
    /// and its transport, which may differ from `transport`.
    ///
    /// # Errors
    /// The errors of [`listen`].
    fn listen(
        &self,
        address: SocketAddr,
        transport: Transport,
        inherited: Option<&mut Inherited>,
    ) -> Result<(TcpListener, Transport), Error> {
        Ok((listen(address, transport, inherited)?, transport))
    }

    /// Prepares the service after its sockets listen and before the first client is accepted.
    ///
    /// # Errors
    ///
    /// If the preparation fails; the program then ends.
    fn prepare(&self) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Reverts [`Service::prepare`], after the last connection has ended.
    fn clean_up(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Runs the background task of the service, which never ends.
    fn run_in_background(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// True if a new process can take over the listeners. False for services whose state is more than listeners.
    fn supports_handover(&self) -> bool {
        false
    }

    /// True if the client sends the first byte in the service's protocol. A connection that ends without a byte is then
    /// an uplink probe or a health check.
    fn client_sends_first(&self) -> bool {
        false
    }

    /// Serves a client until the connection ends; calls [`ConnectionEntry::admit`] when the request is complete.
    fn serve(
        &self,
        client: TcpStream,
        peer: SocketAddr,
        entry: &ConnectionEntry,
    ) -> impl Future<Output = ()> + Send;
}

/// Runs services until SIGTERM or SIGINT. Then accepts no more connections, and lets open ones run for `drain_timeout`,
/// or until a second signal. Connections that are still open then are reset. On SIGHUP, a new process takes over the
/// listeners if all services support that; otherwise SIGHUP has the effect of SIGTERM.
///
/// # Errors
/// If listening fails or no thread can be started.
pub fn run(services: Vec<impl Service>, limits: &Limits) -> Result<(), Error> {
    let refused = |error: io::Error| Error::Refused(format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(refused)?;
    let supports_handover = services.iter().all(Service::supports_handover);
    let outcome = runtime.block_on(async {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        let mut stop = Stop {
            terminate: signal(terminate).map_err(refused)?,
            interrupt: signal(interrupt).map_err(refused)?,
            hang_up: signal(SignalKind::hangup()).map_err(refused)?,
            supports_handover,
        };
        serve(services.into_iter().map(Arc::new).collect(), limits, &mut stop).await
    });
    // Returns without waiting for look-ups that still run.
    runtime.shutdown_background();
    outcome
}

struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    supports_handover: bool,
}

impl Stop {
    /// Waits until this process must stop. A new process that has taken over gets each SIGHUP.
    async fn requested(&mut self, successor: Option<&Successor>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv(), if successor.is_some() || !self.supports_handover => match successor {
                    Some(successor) => successor.signal(rustix::process::Signal::HUP),
                    // The controlling terminal was closed.
                    None => return,
                },
            }
        }
    }

    /// True if this process must stop now.
    async fn is_requested(&mut self, successor: &Successor) -> bool {
        tokio::select! {
            biased;
            () = self.requested(Some(successor)) => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Waits until a new process is ready to take over the listeners, which it returns, or until this process must stop.
    async fn requested_or_succeeded<S>(&mut self, listeners: &[Listener<S>]) -> Option<Successor> {
        if !self.supports_handover {
            self.requested(None).await;
            return None;
        }
        loop {
            tokio::select! {
                biased;
                _ = self.terminate.recv() => return None,
                _ = self.interrupt.recv() => return None,
                _ = self.hang_up.recv() => {}
            }
            let sockets = listeners
                .iter()
                .map(|(listener, ..)| listener.as_fd().try_clone_to_owned())
                .collect::<io::Result<_>>();
            let passed = async { handover::start_successor(sockets?).await }.await;
            match passed {
                Ok(successor) if self.is_requested(&successor).await => {
                    successor.signal(rustix::process::Signal::TERM);
                    return None;
                }
                Ok(successor) => return Some(successor),
                Err(error) => {
                    log::log_line(format_args!("cannot restart: {error}; the old process continues"));
                }
            }
        }
    }
}

async fn serve<S: Service>(services: Vec<Arc<S>>, limits: &Limits, stop: &mut Stop) -> Result<(), Error> {
    let max_connections = limits.max_connections.min(raise_descriptor_limit()).min(Semaphore::MAX_PERMITS);
    let connection_limits = ConnectionLimits {
        slots: Arc::new(Semaphore::new(max_connections)),
        sources: Sources::new(limits.max_per_source),
        connections: ConnectionTable::default(),
    };
    let keep_alive = limits.keep_alive.duration();
    let transport = Transport::multipath();
    let mut accepting = tokio::task::JoinSet::new();
    let (mut inherited, mut listeners) = (Inherited::receive()?, Vec::new());
    for service in &services {
        let mut bound = Vec::new();
        for address in service.addresses() {
            let (listener, transport) = service.listen(address, transport, inherited.as_mut())?;
            let address = listener.local_addr().unwrap_or(address);
            log::log_line(format_args!("{}: listening on {address} ({})", service.name(), transport.name()));
            bound.push((Arc::new(listener), transport));
        }
        tokio::select! {
            begun = service.prepare() => begun?,
            () = stop.requested(None) => return Ok(()),
        }
        for (listener, transport) in bound {
            listeners.push((listener, transport, Arc::clone(service)));
        }
        let service = Arc::clone(service);
        accepting.spawn(async move { service.run_in_background().await });
    }
    if let Some(inherited) = inherited {
        inherited.take_over().await;
    }
    for (listener, transport, service) in &listeners {
        accepting.spawn(accept_all(
            (Arc::clone(listener), *transport),
            Arc::clone(service),
            connection_limits.clone(),
            keep_alive,
        ));
    }
    systemd::notify("READY=1");
    let mut successor = stop.requested_or_succeeded(&listeners).await;
    accepting.shutdown().await;
    watch::stop();
    drop(listeners);
    if let Some(successor) = &mut successor {
        systemd::notify(&format!("MAINPID={}", successor.process));
        log::log_line(format_args!("process {} takes over the listeners", successor.process));
        successor.let_accept();
    }
    let open = max_connections - connection_limits.slots.available_permits();
    if open > 0 {
        log::log_line(format_args!("stopping; {open} open connections may run until drain_timeout"));
    }
    let all_ended = connection_limits.slots.acquire_many(u32::try_from(max_connections).unwrap_or(u32::MAX));
    tokio::select! {
        _ = all_ended => {}
        () = tokio::time::sleep(limits.drain_timeout.duration()) => {}
        () = stop.requested(successor.as_ref()) => {}
    }
    for service in &services {
        service.clean_up().await;
    }
    let open = max_connections - connection_limits.slots.available_permits();
    if open > 0 && open < max_connections {
        log::log_line(format_args!("resetting {open} connections"));
    }
    Ok(())
}

/// A listening socket with its transport and the service of its connections.
type Listener<S> = (Arc<TcpListener>, Transport, Arc<S>);

/// Limits that apply to open connections.
#[derive(Clone)]
struct ConnectionLimits {
    /// One permit per open connection.
    slots: Arc<Semaphore>,
    sources: Arc<Sources>,
    connections: ConnectionTable,
}

async fn accept_all<S: Service>(
    (listener, transport): (Arc<TcpListener>, Transport),
    service: Arc<S>,
    connection_limits: ConnectionLimits,
    keep_alive: Duration,
) {
    loop {
        match accept(&listener, keep_alive).await {
            Ok((client, peer)) => {
                let Some(counted) = connection_limits.sources.try_count(peer.ip()) else {
                    TOO_MANY.log_line(format_args!(
                        "{}: {} has reached max_per_source open connections; reset a new one",
                        service.name(),
                        peer.ip(),
                    ));
                    continue;
                };
                let (service, connection_limits) = (Arc::clone(&service), connection_limits.clone());
                let (began, begun) = oneshot::channel::<()>();
                tokio::spawn(async move {
                    // A slot is acquired only after a connection has been accepted, so an idle listener holds no slot.
                    let slot = free_slot(&service, &connection_limits, peer).await;
                    drop(began);
                    let entry = connection_limits.connections.add(peer.ip());
                    let serving = async {
                        if !(service.client_sends_first() && disconnects_at_once(&client).await) {
                            log_first_plain_tcp(&*service, &client, peer, transport);
                            service.serve(client, peer, &entry).await;
                        }
                    };
                    tokio::select! {
                        () = serving => {}
                        () = entry.evicted() => EVICTED.log_line(format_args!(
                            "{}: reached max_connections; reset a connection of {}, whose site has the most connections",
                            service.name(),
                            peer.ip(),
                        )),
                    }
                    drop((counted, slot));
                });
                // The next connection is accepted when this one has a slot. If a new process takes over before, this one remains.
                drop(begun.await);
            }
            Err(error) if is_shortage(&error) => {
                NOT_ACCEPTED.log_line(format_args!("{}: cannot accept connections: {error}", service.name()));
                tokio::time::sleep(SHORTAGE_PAUSE).await;
            }
            // Ignore other errors: the client disconnected before its connection was accepted.
            Err(_) => {}
        }
    }
}

/// True if a client ends its connection within [`PROBE_TIME`] without sending a byte.
async fn disconnects_at_once(client: &TcpStream) -> bool {
    match timeout(PROBE_TIME, client.peek(&mut [0])).await {
        Ok(Ok(len)) => len == 0,
        Ok(Err(error)) => error.kind() == io::ErrorKind::ConnectionReset,
        Err(_) => false,
    }
}

/// Logs, at most once, that a client connects with TCP instead of Multipath TCP.
fn log_first_plain_tcp(service: &impl Service, client: &TcpStream, peer: SocketAddr, transport: Transport) {
    /// Ensures that the line is logged once.
    static LOGGED: Once = Once::new();
    let plain = transport == Transport::Mptcp && !peer.ip().is_loopback() && !is_multipath(client);
    if plain {
        LOGGED.call_once(|| {
            log::log_line(format_args!(
                "{}: {} uses TCP over one link: the client or its network does not support Multipath TCP; logged once",
                service.name(),
                peer.ip(),
            ));
        });
    }
}

async fn free_slot<S: Service>(
    service: &Arc<S>,
    connection_limits: &ConnectionLimits,
    peer: SocketAddr,
) -> OwnedSemaphorePermit {
    let ConnectionLimits { slots, connections, .. } = connection_limits;
    if slots.available_permits() == 0 && !connections.evict_one_for(peer.ip()) {
        NO_ROOM.log_line(format_args!("{}: reached max_connections; new connections wait", service.name()));
    }
    Arc::clone(slots).acquire_owned().await.expect("the semaphore is never closed")
}

fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| shortages.contains(&code))
}
