//! Relays between TCP connections of the kernel and connections of this stack.

use super::transfer::copy;
use crate::arguments::Target;
use crate::channel::Channel;
use crate::error::Error;
use crate::session::{Ending, Session};
use core::future::Future;
use core::net::SocketAddr;
use core::pin::pin;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Time that relays may still run after a signal.
const GRACE: Duration = Duration::from_secs(2);
/// Pause before the next accept after the kernel had no descriptor or memory for a connection.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// Relays TCP connections to this address of the kernel to a peer of this stack, until a signal arrives.
///
/// # Errors
///
/// One sentence, if the address is in use.
pub async fn to_stack(session: &Arc<Session>, from: SocketAddr, to: &Target) -> Result<(), Error> {
    let refused = |error| Error::Refused(format!("cannot listen at {from}: {error}"));
    let listener = TcpListener::bind(from).await.map_err(refused)?;
    let local = listener.local_addr().unwrap_or(from);
    session.output.event(
        "listening",
        &format!("listening at {local}"),
        json!({ "address": local.to_string() }),
    );
    let mut relays = JoinSet::new();
    while let Ok(accepted) = session.unless_interrupted(listener.accept()).await {
        let Ok((kernel, _)) = accepted else {
            tokio::time::sleep(SHORTAGE_PAUSE).await;
            continue;
        };
        let (session, to) = (Arc::clone(session), to.clone());
        relays.spawn(async move {
            match with_grace(&session, session.connect(&to)).await.flatten() {
                Ok(channel) => relay(&session, kernel, channel).await,
                Err(error) => {
                    session.output.event(
                        "refused",
                        &error.to_string(),
                        json!({ "reason": error.to_string() }),
                    );
                    reset(&kernel);
                }
            }
        });
        while relays.try_join_next().is_some() {}
    }
    drop(listener);
    relays.join_all().await;
    Ok(())
}

/// Relays connections to a port of this stack to a TCP server, which the kernel connects to, until a signal arrives.
///
/// # Errors
///
/// One sentence, if the port is in use.
pub async fn to_kernel(session: &Arc<Session>, from: u16, to: SocketAddr) -> Result<(), Error> {
    let listener = session.listen(from).await?;
    let mut relays = JoinSet::new();
    while let Ok(channel) = session.unless_interrupted(session.accept(&listener)).await {
        let (channel, session) = (channel?, Arc::clone(session));
        relays.spawn(async move {
            let refused = |error| Error::Refused(format!("cannot connect to {to}: {error}"));
            let connecting = async { TcpStream::connect(to).await.map_err(refused) };
            match with_grace(&session, connecting).await.flatten() {
                Ok(kernel) => relay(&session, kernel, channel).await,
                Err(error) => session.note_end(&channel, &Err(error)).await,
            }
        });
        while relays.try_join_next().is_some() {}
    }
    drop(listener);
    relays.join_all().await;
    Ok(())
}

/// Runs a task. After a signal, the task may run only for [`GRACE`].
pub async fn with_grace<T>(session: &Session, task: impl Future<Output = T>) -> Result<T, Error> {
    let mut task = pin!(task);
    match session.unless_interrupted(task.as_mut()).await {
        Ok(done) => Ok(done),
        Err(interrupted) => tokio::time::timeout(GRACE, task).await.map_err(|_| interrupted),
    }
}

/// Relays both directions until both have ended. An error on one side resets the connection on the other side.
async fn relay(session: &Session, mut kernel: TcpStream, mut channel: Channel) {
    // Small writes must be relayed without delay.
    let _ = kernel.set_nodelay(true);
    let failed = |error: io::Error| Error::Refused(format!("the relay failed: {error}"));
    let both = async {
        {
            let (mut from_kernel, mut to_kernel) = kernel.split();
            let (mut from_peer, mut to_peer) = tokio::io::split(&mut channel);
            let up = async {
                copy(&mut from_kernel, &mut to_peer, ("read from the kernel's connection", "send")).await?;
                to_peer.shutdown().await.map_err(failed)
            };
            let down = async {
                copy(&mut from_peer, &mut to_kernel, ("receive", "write to the kernel's connection")).await?;
                to_kernel.shutdown().await.map_err(failed)
            };
            tokio::try_join!(up, down)?;
        }
        channel.closed().await.map_err(failed)
    };
    let ending: Ending = with_grace(session, both).await.flatten();
    if ending.is_err() {
        reset(&kernel);
    }
    session.note_end(&channel, &ending).await;
}

/// Makes the kernel reset the connection when it is closed, so that the client does not take it for a regular end of
/// the data.
fn reset(kernel: &TcpStream) {
    // Ignore errors: a connection that has already ended needs no reset.
    let _ = socket2::SockRef::from(kernel).set_linger(Some(Duration::ZERO));
}
