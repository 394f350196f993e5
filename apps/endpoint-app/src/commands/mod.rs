//! The commands.

mod files;
mod forward;
mod http;
mod transfer;

use crate::arguments::{Arguments, Command, Place, USAGE};
use crate::error::{DELIVERED, Error};
use crate::session::Session;
use crate::setup;
use anabranch_net::WriteEnd;
use std::io::Write as _;
use std::sync::Arc;
use tokio::runtime::Builder;

/// Runs the command of these arguments; returns the exit status.
///
/// # Errors
///
/// One sentence, which the caller prints.
pub fn main(arguments: &[String]) -> Result<u8, Error> {
    if arguments.is_empty() || arguments.iter().any(|word| ["--help", "-h", "help"].contains(&word.as_str()))
    {
        return print(USAGE);
    }
    if arguments.iter().any(|word| ["--version", "-V"].contains(&word.as_str())) {
        return print(concat!("anabranch-endpoint ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    let arguments = Arguments::read(arguments)?;
    let refused = |error: std::io::Error| Error::Refused(format!("cannot start the runtime: {error}"));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(refused)?;
    let status = runtime.block_on(run(&arguments));
    // Returns without waiting for a thread that reads the standard input.
    runtime.shutdown_background();
    status
}

/// Prints a text. A closed pipe is not an error: the reader does not need the rest.
fn print(text: &str) -> Result<u8, Error> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Refused(format!("cannot print: {error}")))
        }
        _ => Ok(DELIVERED),
    }
}

async fn run(arguments: &Arguments) -> Result<u8, Error> {
    // After a mistake in the arguments, no file is opened or created.
    setup::protocol(arguments)?;
    files::check(arguments)?;
    match &arguments.command {
        Command::Send { file, target } => {
            let source = transfer::open(file).await?;
            with_session(arguments, WriteEnd::Close, async |session| {
                transfer::send(session, source, target).await
            })
            .await
        }
        Command::Receive { port, output } => {
            let sink = transfer::Sink::open(output.as_deref()).await?;
            with_session(arguments, WriteEnd::Close, async |session| {
                transfer::receive(session, sink, *port).await
            })
            .await
        }
        Command::Http { folder, port } => {
            let folder = http::folder(folder)?;
            with_session(arguments, WriteEnd::Message, async |session| {
                http::serve(session, folder, *port).await
            })
            .await
        }
        Command::Connect { target } => {
            let connect = async |session: &Arc<Session>| {
                let channel = session.unless_interrupted(session.connect(target)).await??;
                transfer::terminal(session, channel).await;
                Ok(())
            };
            with_session(arguments, WriteEnd::Message, connect).await
        }
        Command::Listen { port } => {
            let accept = async |session: &Arc<Session>| {
                let listener = session.listen(*port).await?;
                let channel = session.unless_interrupted(session.accept(&listener)).await??;
                drop(listener);
                transfer::terminal(session, channel).await;
                Ok(())
            };
            with_session(arguments, WriteEnd::Message, accept).await
        }
        Command::Forward { from, to } => {
            let relay = async |session: &Arc<Session>| match (from, to) {
                (Place::Kernel(from), Place::Connect(to)) => forward::to_stack(session, *from, to).await,
                (Place::Listen(from), Place::Kernel(to)) => forward::to_kernel(session, *from, *to).await,
                _ => unreachable!("the arguments have one side of each kind"),
            };
            with_session(arguments, WriteEnd::Message, relay).await
        }
    }
}

/// Runs a task on a stack, and then stops the stack; returns the exit status. SCTP has no half-closed state. So if data
/// flows in both directions, a message marks the end of each direction ([`WriteEnd::Message`]).
async fn with_session(
    arguments: &Arguments,
    end: WriteEnd,
    task: impl AsyncFnOnce(&Arc<Session>) -> Result<(), Error>,
) -> Result<u8, Error> {
    let session = Session::start(arguments, end)?;
    match task(&session).await {
        Ok(()) => session.finish().await,
        Err(error) => {
            // Aborting the connections notifies the peers at once.
            session.abort().await;
            Err(error)
        }
    }
}
