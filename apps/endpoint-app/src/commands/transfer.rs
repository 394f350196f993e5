//! Transfers of one connection: a file, or the terminal.

use crate::arguments::Target;
use crate::channel::Channel;
use crate::error::Error;
use crate::session::{Ending, Session};
use core::pin::Pin;
use core::task::{Context, Poll};
use std::future::poll_fn;
use std::path::Path;
use tokio::fs::File;
use tokio::io::{self, AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 128 << 10;

/// Opens a file to send.
///
/// # Errors
///
/// If the file cannot be read; the error is one sentence.
pub async fn open(file: &Path) -> Result<File, Error> {
    let refused =
        |problem: &dyn core::fmt::Display| Error::Input(format!("cannot read {}: {problem}", file.display()));
    let opened = File::open(file).await.map_err(|error| refused(&error))?;
    match opened.metadata().await {
        Ok(metadata) if metadata.is_dir() => Err(refused(&"it is a folder")),
        Ok(_) => Ok(opened),
        Err(error) => Err(refused(&error)),
    }
}

/// The destination of received data: a file, or the standard output.
pub struct Sink(Option<File>);

impl Sink {
    /// Opens the file, or creates it. An existing one keeps its content until [`begin`](Self::begin).
    ///
    /// # Errors
    ///
    /// If the file cannot be written; the error is one sentence.
    pub async fn open(file: Option<&Path>) -> Result<Self, Error> {
        let Some(file) = file else { return Ok(Self(None)) };
        match File::options().write(true).create(true).truncate(false).open(file).await {
            Ok(opened) => Ok(Self(Some(opened))),
            Err(error) => Err(Error::Input(format!("cannot write {}: {error}", file.display()))),
        }
    }

    /// Removes the previous content: data follows.
    async fn begin(self) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        let Some(file) = self.0 else { return Ok(Box::new(io::stdout())) };
        // A device has no length.
        if file.metadata().await?.is_file() {
            file.set_len(0).await?;
        }
        Ok(Box::new(file))
    }
}

/// Converts an input or output error into a message that names the action.
fn failed(action: &str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Refused(format!("cannot {action}: {error}"))
}

/// Copies until the end of the source; an error names its side.
pub async fn copy(
    from: &mut (impl AsyncRead + Unpin + ?Sized),
    to: &mut (impl AsyncWrite + Unpin + ?Sized),
    (read, write): (&str, &str),
) -> Result<(), Error> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let (len, end) = poll_fn(|context| poll_all(from, context, &mut buffer)).await;
        to.write_all(&buffer[..len]).await.map_err(failed(write))?;
        if let Some(end) = end {
            end.map_err(failed(read))?;
            return to.flush().await.map_err(failed(write));
        }
    }
}

/// Reads until the buffer is full or nothing more has arrived: the length, and the end of the source if it was reached.
/// Fewer and longer writes save changes of the thread, each of which costs milliseconds on a busy machine.
fn poll_all(
    from: &mut (impl AsyncRead + Unpin + ?Sized),
    context: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<(usize, Option<io::Result<()>>)> {
    let mut out = ReadBuf::new(buffer);
    while out.remaining() > 0 {
        let before = out.filled().len();
        match Pin::new(&mut *from).poll_read(context, &mut out) {
            Poll::Ready(Ok(())) if out.filled().len() == before => {
                return Poll::Ready((before, Some(Ok(()))));
            }
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready((before, Some(Err(error)))),
            Poll::Pending if before == 0 => return Poll::Pending,
            Poll::Pending => break,
        }
    }
    Poll::Ready((out.filled().len(), None))
}

/// Sends a file to a peer and waits until the peer has all of it.
///
/// # Errors
///
/// If the peer cannot be reached; one sentence.
pub async fn send(session: &Session, mut source: File, target: &Target) -> Result<(), Error> {
    let mut channel = session.unless_interrupted(session.connect(target)).await??;
    let sending = async {
        copy(&mut source, &mut channel, ("read the file", "send")).await?;
        channel.shutdown().await.map_err(failed("send"))
    };
    let sent = session.unless_interrupted(sending).await.flatten();
    let is_sent = sent.is_ok();
    let ending = match sent {
        Ok(()) => {
            session.unless_interrupted(channel.closed()).await.and_then(|end| end.map_err(failed("send")))
        }
        failed => failed,
    };
    let ending = match ending {
        // The peer keeps its own direction open, but it has the file.
        Err(Error::Interrupted) if is_sent && is_acknowledged(&channel).await => Ok(()),
        ending => ending,
    };
    session.note_end(&channel, &ending).await;
    Ok(())
}

/// Whether the peer has acknowledged everything that was written.
async fn is_acknowledged(channel: &Channel) -> bool {
    channel.report().await.is_ok_and(|report| report.written > 0 && report.send_buffer == 0)
}

/// Accepts one connection and writes its data.
///
/// # Errors
///
/// If the port is in use; one sentence.
pub async fn receive(session: &Session, sink: Sink, port: u16) -> Result<(), Error> {
    let listener = session.listen(port).await?;
    let mut channel = session.unless_interrupted(session.accept(&listener)).await??;
    drop(listener);
    let receiving = async {
        let mut sink = sink.begin().await.map_err(failed("write the data"))?;
        copy(&mut channel, &mut sink, ("receive", "write the data")).await?;
        channel.shutdown().await.map_err(failed("end the connection"))?;
        channel.closed().await.map_err(failed("end the connection"))
    };
    let ending = session.unless_interrupted(receiving).await.flatten();
    session.note_end(&channel, &ending).await;
    Ok(())
}

/// Connects the standard input and output to a peer, until both directions have ended.
pub async fn terminal(session: &Session, mut channel: Channel) {
    let ending: Ending = {
        let (mut from, mut to) = io::split(&mut channel);
        let (mut stdin, mut stdout) = (io::stdin(), io::stdout());
        let sending = async {
            copy(&mut stdin, &mut to, ("read the standard input", "send")).await?;
            to.shutdown().await.map_err(failed("send"))
        };
        let receiving = copy(&mut from, &mut stdout, ("receive", "write the standard output"));
        let both = async { tokio::try_join!(sending, receiving).map(drop) };
        session.unless_interrupted(both).await.flatten()
    };
    let ending = match ending {
        Ok(()) => session
            .unless_interrupted(channel.closed())
            .await
            .and_then(|end| end.map_err(failed("end the connection"))),
        failed => failed,
    };
    session.note_end(&channel, &ending).await;
}
