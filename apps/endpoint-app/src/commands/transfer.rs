//! Commands with one connection, which transfers a file or serves the terminal.

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

/// Size of the copy buffer.
const BUFFER_BYTES: usize = 128 << 10;

/// Opens a file to send.
///
/// # Errors
///
/// One sentence, if the file cannot be read.
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
    /// Opens or creates the file. An existing file keeps its content until [`begin`](Self::begin).
    ///
    /// # Errors
    ///
    /// One sentence, if the file cannot be written.
    pub async fn open(file: Option<&Path>) -> Result<Self, Error> {
        let Some(file) = file else { return Ok(Self(None)) };
        match File::options().write(true).create(true).truncate(false).open(file).await {
            Ok(opened) => Ok(Self(Some(opened))),
            Err(error) => Err(Error::Input(format!("cannot write {}: {error}", file.display()))),
        }
    }

    /// Removes the previous content of the file, because data has arrived.
    async fn begin(self) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        let Some(file) = self.0 else { return Ok(Box::new(io::stdout())) };
        // Only a regular file can be truncated; the sink may also be a device.
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

/// Copies until the end of the source. An error names the side that failed.
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

/// Reads until the buffer is full or no more bytes are available. Returns the number of bytes, and whether the source
/// has ended. A few long writes are better than many short ones, because each write may switch to another thread, which
/// takes milliseconds on a busy machine.
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

/// Sends a file to a peer and waits until the peer has acknowledged all of it.
///
/// # Errors
///
/// One sentence, if the peer cannot be reached.
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
        // The peer has not ended its direction of the connection, but has acknowledged the whole file.
        Err(Error::Interrupted) if is_sent && is_acknowledged(&channel).await => Ok(()),
        ending => ending,
    };
    session.note_end(&channel, &ending).await;
    Ok(())
}

/// True if the peer has acknowledged all data that was written.
async fn is_acknowledged(channel: &Channel) -> bool {
    channel.report().await.is_ok_and(|report| report.written > 0 && report.send_buffer == 0)
}

/// Accepts one connection and writes its data.
///
/// # Errors
///
/// One sentence, if the port is in use.
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

/// Connects the standard input and output with a peer, until both directions have ended.
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
