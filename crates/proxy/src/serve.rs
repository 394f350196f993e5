//! Running: listeners, a task for each connection, and the end.

use super::config::Limits;
use super::error::Error;
use super::limits::room_for_connections;
use super::listen::{accept, listen};
use super::log::{self, Limited};
use super::sockopt::is_multipath;
use super::stream::Transport;
use core::net::SocketAddr;
use std::io;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long nothing is accepted after the kernel had no descriptor or memory for a connection.
const SHORT_OF: Duration = Duration::from_millis(100);

static NO_ROOM: Limited = Limited::new();
static NOT_ACCEPTED: Limited = Limited::new();

/// What is done with the connections that come to some listeners.
pub trait Service: Send + Sync + 'static {
    /// Its name, for lines that it says.
    fn name(&self) -> &str;

    /// Where it listens.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Listens at one of these, by a transport if nothing speaks against it; returns by which.
    ///
    /// # Errors
    /// As [`listen`].
    fn listen(&self, address: SocketAddr, transport: Transport) -> Result<(TcpListener, Transport), Error> {
        Ok((listen(address, transport)?, transport))
    }

    /// What it does when it listens, before anything else.
    ///
    /// # Errors
    /// If that cannot be done: nothing is served then.
    fn begin(&self) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Undoes that, when its last connection has ended.
    fn end(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// What it does beside serving, for ever.
    fn attend(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Serves a client to its end.
    fn serve(&self, client: TcpStream, peer: SocketAddr) -> impl Future<Output = ()> + Send;
}

/// Runs services until SIGTERM or SIGINT: then no more connections are taken, and those that are open have some time left.
/// A second signal ends them at once. Connections that are ended so are reset.
///
/// # Errors
/// If it cannot listen, or the machine has no threads for it.
pub fn run(services: Vec<impl Service>, limits: &Limits) -> Result<(), Error> {
    let refused = |error: io::Error| Error::Refused(format!("cannot begin: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(refused)?;
    let outcome = runtime.block_on(async {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        let mut stop = Stop {
            terminate: signal(terminate).map_err(refused)?,
            interrupt: signal(interrupt).map_err(refused)?,
        };
        serve(services.into_iter().map(Arc::new).collect(), limits, &mut stop).await
    });
    // Names that are being resolved are not waited for.
    runtime.shutdown_background();
    outcome
}

struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn serve<S: Service>(services: Vec<Arc<S>>, limits: &Limits, stop: &mut Stop) -> Result<(), Error> {
    let most = limits.max_connections.min(room_for_connections()).min(Semaphore::MAX_PERMITS);
    let slots = Arc::new(Semaphore::new(most));
    let transport = Transport::multipath();
    let mut accepting = tokio::task::JoinSet::new();
    for service in &services {
        let mut listeners = Vec::new();
        for address in service.addresses() {
            let (listener, transport) = service.listen(address, transport)?;
            let address = listener.local_addr().unwrap_or(address);
            log::say(format_args!("{}: listens on {address} for {}", service.name(), transport.name()));
            listeners.push((listener, transport));
        }
        service.begin().await?;
        for (listener, transport) in listeners {
            accepting.spawn(accept_all(listener, transport, Arc::clone(service), Arc::clone(&slots)));
        }
        let service = Arc::clone(service);
        accepting.spawn(async move { service.attend().await });
    }
    stop.asked().await;
    accepting.shutdown().await;
    let open = most - slots.available_permits();
    if open > 0 {
        log::say(format_args!("ends; {open} connections have some time left"));
    }
    let all_ended = slots.acquire_many(u32::try_from(most).unwrap_or(u32::MAX));
    tokio::select! {
        _ = all_ended => {}
        () = tokio::time::sleep(limits.drain_timeout.duration()) => {}
        () = stop.asked() => {}
    }
    for service in &services {
        service.end().await;
    }
    let open = most - slots.available_permits();
    if open > 0 && open < most {
        log::say(format_args!("{open} connections are reset"));
    }
    Ok(())
}

async fn accept_all<S: Service>(
    listener: TcpListener,
    transport: Transport,
    service: Arc<S>,
    slots: Arc<Semaphore>,
) {
    loop {
        let slot = free_slot(&service, &slots).await;
        match accept(&listener).await {
            Ok((client, peer)) => {
                notice_plain(&*service, &client, peer, transport);
                let service = Arc::clone(&service);
                tokio::spawn(async move {
                    service.serve(client, peer).await;
                    drop(slot);
                });
            }
            Err(error) if is_shortage(&error) => {
                NOT_ACCEPTED.say(format_args!("{}: accepts nobody just now: {error}", service.name()));
                tokio::time::sleep(SHORT_OF).await;
            }
            // The client's affair: it has gone before it was accepted.
            Err(_) => {}
        }
    }
}

/// Says once that a client has no second link.
fn notice_plain(service: &impl Service, client: &TcpStream, peer: SocketAddr, transport: Transport) {
    static SAID: Once = Once::new();
    let plain = transport == Transport::Mptcp && !peer.ip().is_loopback() && !is_multipath(client);
    if plain {
        SAID.call_once(|| {
            log::say(format_args!(
                "{}: {} comes by TCP and so over one link: there, or on the way, is no Multipath TCP; this is said once",
                service.name(),
                peer.ip(),
            ));
        });
    }
}

async fn free_slot<S: Service>(service: &Arc<S>, slots: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    if slots.available_permits() == 0 {
        NO_ROOM
            .say(format_args!("{}: as many connections are open as may be; new ones wait", service.name()));
    }
    Arc::clone(slots).acquire_owned().await.expect("it is never closed")
}

fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| shortages.contains(&code))
}
