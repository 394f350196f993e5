//! Running: listeners, a task for each connection, and the end.

use super::config::Limits;
use super::error::Error;
use super::handover::{self, Inherited};
use super::limits::room_for_connections;
use super::listen::{accept, listen};
use super::log::{self, Limited};
use super::occupants::{Occupants, Seat};
use super::resolver::BLOCKING_THREADS;
use super::sockopt::is_multipath;
use super::sources::Sources;
use super::stream::Transport;
use super::{systemd, watch};
use core::net::SocketAddr;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long nothing is accepted after the kernel had no descriptor or memory for a connection.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// A connection that ends within this time without a byte is a probe and not a client.
const PROBE_TIME: Duration = Duration::from_millis(500);

static NO_ROOM: Limited = Limited::new();
static NOT_ACCEPTED: Limited = Limited::new();
static TOO_MANY: Limited = Limited::new();
static DISMISSED: Limited = Limited::new();

/// Handles the connections of some listeners.
pub trait Service: Send + Sync + 'static {
    /// Its name, for lines that it says.
    fn name(&self) -> &str;

    /// Where it listens.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Listens at one of these, by a transport if nothing speaks against it, or by a socket of an earlier process; returns by which.
    ///
    /// # Errors
    /// As [`listen`].
    fn listen(
        &self,
        address: SocketAddr,
        transport: Transport,
        inherited: Option<&mut Inherited>,
    ) -> Result<(TcpListener, Transport), Error> {
        Ok((listen(address, transport, inherited)?, transport))
    }

    /// Prepares the service when it listens. No client is served before.
    ///
    /// # Errors
    ///
    /// If that fails; nothing is served then.
    fn begin(&self) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Undoes that, when its last connection has ended.
    fn end(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Runs beside the connections, without an end.
    fn attend(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Whether another process can take over. A service with more state than listeners has to refuse.
    fn hands_over(&self) -> bool {
        false
    }

    /// Whether clients send first. A connection that then ends without a byte is a probe of an uplink or a health check.
    fn client_begins(&self) -> bool {
        false
    }

    /// Serves a client to its end, and admits it once its request is complete.
    fn serve(&self, client: TcpStream, peer: SocketAddr, seat: &Seat) -> impl Future<Output = ()> + Send;
}

/// Runs services until SIGTERM or SIGINT: then no more connections are taken, and those that are open have some time left.
/// A second signal ends them at once. Connections that are ended so are reset. On SIGHUP a new process takes the listeners,
/// if the services may be handed over; for others it is as SIGTERM.
///
/// # Errors
/// If it cannot listen, or the machine has no threads for it.
pub fn run(services: Vec<impl Service>, limits: &Limits) -> Result<(), Error> {
    let refused = |error: io::Error| Error::Refused(format!("cannot begin: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(refused)?;
    let hands_over = services.iter().all(Service::hands_over);
    let outcome = runtime.block_on(async {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        let mut stop = Stop {
            terminate: signal(terminate).map_err(refused)?,
            interrupt: signal(interrupt).map_err(refused)?,
            hang_up: signal(SignalKind::hangup()).map_err(refused)?,
            hands_over,
        };
        serve(services.into_iter().map(Arc::new).collect(), limits, &mut stop).await
    });
    // Look-ups that are under way are not waited for.
    runtime.shutdown_background();
    outcome
}

struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    hands_over: bool,
}

impl Stop {
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            // The terminal that it was started in has gone.
            _ = self.hang_up.recv(), if !self.hands_over => {}
        }
    }

    /// Until the listeners are another process's, or this one is to end.
    async fn asked_or_handed_over(&mut self, listeners: &[Arc<TcpListener>]) {
        if !self.hands_over {
            return self.asked().await;
        }
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => {}
            }
            let sockets = listeners
                .iter()
                .map(|listener| listener.as_fd().try_clone_to_owned())
                .collect::<io::Result<_>>();
            let passed = async { handover::pass_on(sockets?).await }.await;
            match passed {
                Ok(process) => {
                    systemd::notify(&format!("MAINPID={process}"));
                    return log::say(format_args!("process {process} takes over the listeners"));
                }
                Err(error) => {
                    log::say(format_args!("cannot restart, the old process goes on: {error}"));
                }
            }
        }
    }
}

async fn serve<S: Service>(services: Vec<Arc<S>>, limits: &Limits, stop: &mut Stop) -> Result<(), Error> {
    let most = limits.max_connections.min(room_for_connections()).min(Semaphore::MAX_PERMITS);
    let places = Places {
        slots: Arc::new(Semaphore::new(most)),
        sources: Sources::new(limits.max_per_source),
        occupants: Occupants::default(),
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
            log::say(format_args!("{}: listens on {address} for {}", service.name(), transport.name()));
            bound.push((Arc::new(listener), transport));
        }
        tokio::select! {
            begun = service.begin() => begun?,
            () = stop.asked() => return Ok(()),
        }
        for (listener, transport) in bound {
            listeners.push(Arc::clone(&listener));
            accepting.spawn(accept_all(
                (listener, transport),
                Arc::clone(service),
                places.clone(),
                keep_alive,
            ));
        }
        let service = Arc::clone(service);
        accepting.spawn(async move { service.attend().await });
    }
    if let Some(inherited) = inherited {
        inherited.ready();
    }
    systemd::notify("READY=1");
    stop.asked_or_handed_over(&listeners).await;
    accepting.shutdown().await;
    watch::stop();
    drop(listeners);
    let open = most - places.slots.available_permits();
    if open > 0 {
        log::say(format_args!("stopping; {open} connections have up to drain_timeout"));
    }
    let all_ended = places.slots.acquire_many(u32::try_from(most).unwrap_or(u32::MAX));
    tokio::select! {
        _ = all_ended => {}
        () = tokio::time::sleep(limits.drain_timeout.duration()) => {}
        () = stop.asked() => {}
    }
    for service in &services {
        service.end().await;
    }
    let open = most - places.slots.available_permits();
    if open > 0 && open < most {
        log::say(format_args!("{open} connections are reset"));
    }
    Ok(())
}

/// Resources of open connections.
#[derive(Clone)]
struct Places {
    /// Of all sources.
    slots: Arc<Semaphore>,
    sources: Arc<Sources>,
    occupants: Occupants,
}

async fn accept_all<S: Service>(
    (listener, transport): (Arc<TcpListener>, Transport),
    service: Arc<S>,
    places: Places,
    keep_alive: Duration,
) {
    loop {
        match accept(&listener, keep_alive).await {
            Ok((client, peer)) => {
                let Some(place) = places.sources.place(peer.ip()) else {
                    TOO_MANY.say(format_args!(
                        "{}: {} has max_per_source connections open; a new one is reset",
                        service.name(),
                        peer.ip(),
                    ));
                    continue;
                };
                // A listener without a client holds no slot: another one may need it.
                let slot = free_slot(&service, &places, peer).await;
                let seat = places.occupants.seat(peer.ip());
                let service = Arc::clone(&service);
                tokio::spawn(async move {
                    let serving = async {
                        if !(service.client_begins() && has_gone(&client).await) {
                            notice_plain(&*service, &client, peer, transport);
                            service.serve(client, peer, &seat).await;
                        }
                    };
                    tokio::select! {
                        () = serving => {}
                        () = seat.dismissed() => DISMISSED.say(format_args!(
                            "{}: max_connections are open; {} has many, and one of them is reset",
                            service.name(),
                            peer.ip(),
                        )),
                    }
                    drop((place, slot));
                });
            }
            Err(error) if is_shortage(&error) => {
                NOT_ACCEPTED.say(format_args!("{}: cannot accept connections: {error}", service.name()));
                tokio::time::sleep(SHORTAGE_PAUSE).await;
            }
            // The client's affair: it has gone before it was accepted.
            Err(_) => {}
        }
    }
}

/// Whether a client ends its connection at once, rather than saying something or thinking about it.
async fn has_gone(client: &TcpStream) -> bool {
    match timeout(PROBE_TIME, client.peek(&mut [0])).await {
        Ok(Ok(said)) => said == 0,
        Ok(Err(error)) => error.kind() == io::ErrorKind::ConnectionReset,
        Err(_) => false,
    }
}

/// Says once that a client has no second link.
fn notice_plain(service: &impl Service, client: &TcpStream, peer: SocketAddr, transport: Transport) {
    static SAID: Once = Once::new();
    let plain = transport == Transport::Mptcp && !peer.ip().is_loopback() && !is_multipath(client);
    if plain {
        SAID.call_once(|| {
            log::say(format_args!(
                "{}: {} connects by TCP, over one link: it or its network has no Multipath TCP; logged once",
                service.name(),
                peer.ip(),
            ));
        });
    }
}

async fn free_slot<S: Service>(service: &Arc<S>, places: &Places, peer: SocketAddr) -> OwnedSemaphorePermit {
    let Places { slots, occupants, .. } = places;
    if slots.available_permits() == 0 && !occupants.make_room(peer.ip()) {
        NO_ROOM.say(format_args!("{}: max_connections are open; new ones wait", service.name()));
    }
    Arc::clone(slots).acquire_owned().await.expect("it is never closed")
}

fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| shortages.contains(&code))
}
