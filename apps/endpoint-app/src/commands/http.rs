//! HTTP/1.1 server for the files of a folder, with the methods GET and HEAD.

use super::forward::with_grace;
use super::transfer::copy;
use crate::channel::Channel;
use crate::error::Error;
use crate::session::{Ending, Session};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

/// Maximum length of the head of a request, bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of header fields of a request.
const MAX_FIELDS: usize = 64;
/// Maximum time in which a client must send the whole head of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time in which the client must end its direction after the server has ended its own.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Name of the file that is served for a folder.
const INDEX: &str = "index.html";

/// The parts of a request that the server uses.
#[derive(Debug)]
struct Request {
    is_head: bool,
    path: String,
    keeps_open: bool,
}

/// Status and reason of a refused request.
#[derive(Debug, PartialEq, Eq)]
struct Refusal(u16, &'static str);

const BAD_REQUEST: Refusal = Refusal(400, "Bad Request");
const NOT_FOUND: Refusal = Refusal(404, "Not Found");
const WRONG_METHOD: Refusal = Refusal(405, "Method Not Allowed");
const LARGE_HEAD: Refusal = Refusal(431, "Request Header Fields Too Large");

/// Returns the path of the folder without symbolic links.
///
/// # Errors
///
/// One sentence, if the path is not that of a folder.
pub fn folder(folder: &Path) -> Result<PathBuf, Error> {
    match folder.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(Error::Input(format!("{} is not a folder", folder.display()))),
        Err(error) => Err(Error::Input(format!("cannot read {}: {error}", folder.display()))),
    }
}

/// Serves the folder on a port of this stack, until a signal arrives.
///
/// # Errors
///
/// One sentence, if the port is in use.
pub async fn serve(session: &Arc<Session>, folder: PathBuf, port: u16) -> Result<(), Error> {
    let listener = session.listen(port).await?;
    let folder = Arc::new(folder);
    let mut clients = JoinSet::new();
    while let Ok(channel) = session.unless_interrupted(session.accept(&listener)).await {
        let (mut channel, session, folder) = (channel?, Arc::clone(session), Arc::clone(&folder));
        clients.spawn(async move {
            let ending: Ending = client(&session, &mut channel, &folder).await;
            session.note_end(&channel, &ending).await;
        });
        while clients.try_join_next().is_some() {}
    }
    drop(listener);
    clients.join_all().await;
    Ok(())
}

/// Answers the requests of a connection.
async fn client(session: &Session, channel: &mut Channel, folder: &Path) -> Ending {
    let failed = |error: io::Error| Error::Refused(format!("the connection failed: {error}"));
    let mut unread = Vec::new();
    loop {
        // When a signal arrives, a connection without a request can end at once, since no data is lost.
        let head = tokio::select! {
            () = session.interrupted() => None,
            head = next_head(channel, &mut unread) => head.map_err(failed)?,
        };
        let Some(request) = head else { break };
        let keeps_open = request.as_ref().is_ok_and(|request| request.keeps_open);
        // Boxed: tasks of connections without requests need no memory for an answer.
        with_grace(session, Box::pin(answer(channel, folder, request))).await.flatten()?;
        if !keeps_open {
            break;
        }
    }
    channel.shutdown().await.map_err(failed)?;
    let closed = Box::pin(tokio::time::timeout(CLOSE_TIMEOUT, channel.closed()));
    match with_grace(session, closed).await? {
        Ok(closed) => closed.map_err(failed),
        Err(_) => Err(Error::Refused("the client kept the connection open".to_owned())),
    }
}

/// Waits for the head of the next request; `None` at the end of the stream, or if the client does not send a whole head
/// in time.
async fn next_head(
    client: &mut (impl AsyncRead + Unpin),
    unread: &mut Vec<u8>,
) -> io::Result<Option<Result<Request, Refusal>>> {
    tokio::time::timeout(REQUEST_TIMEOUT, read_head(client, unread)).await.unwrap_or(Ok(None))
}

/// Reads the head of the next request; `None` at the end of the stream. `unread` contains the bytes after the previous
/// head.
async fn read_head(
    client: &mut (impl AsyncRead + Unpin),
    unread: &mut Vec<u8>,
) -> io::Result<Option<Result<Request, Refusal>>> {
    loop {
        match parse(unread) {
            Ok(Some((request, len))) => {
                unread.drain(..len);
                return Ok(Some(Ok(request)));
            }
            Ok(None) if unread.len() > MAX_HEAD_BYTES => return Ok(Some(Err(LARGE_HEAD))),
            Ok(None) => {}
            Err(refusal) => return Ok(Some(Err(refusal))),
        }
        if client.read_buf(unread).await? == 0 {
            return Ok((!unread.is_empty()).then_some(Err(BAD_REQUEST)));
        }
    }
}

/// Parses the request at the start of these bytes; also returns the length of its head. `None` if the head is
/// incomplete.
fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len > MAX_HEAD_BYTES => return Err(LARGE_HEAD),
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(LARGE_HEAD),
        Err(_) => return Err(BAD_REQUEST),
    };
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(WRONG_METHOD),
    };
    let named = |name: &'static str| {
        request
            .headers
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    };
    // A request with a body is refused, because the body would be parsed as the next request.
    if named("transfer-encoding").next().is_some() || named("content-length").any(|value| value != b"0") {
        return Err(BAD_REQUEST);
    }
    let options = named("connection").flat_map(|value| value.split(|&byte| byte == b','));
    let closes = options.map(<[u8]>::trim_ascii).any(|option| option.eq_ignore_ascii_case(b"close"));
    let path = decode(request.path.unwrap_or_default().split(['?', '#']).next().unwrap_or_default())?;
    let keeps_open = request.version == Some(1) && !closes;
    Ok(Some((Request { is_head, path, keeps_open }, len)))
}

/// Decodes percent-encoded bytes, such as `%41`.
fn decode(text: &str) -> Result<String, Refusal> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
                    return Err(BAD_REQUEST);
                };
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).map_err(|_| BAD_REQUEST)
}

/// Returns the file of a path. The path must not lead out of the folder, not even through a symbolic link.
fn file_of(folder: &Path, path: &str) -> Result<PathBuf, Refusal> {
    let relative = path.strip_prefix('/').ok_or(BAD_REQUEST)?;
    if relative.split('/').any(|part| part == ".." || part.contains('\0')) || relative.starts_with('/') {
        return Err(NOT_FOUND);
    }
    let found = folder.join(relative).canonicalize().map_err(|_| NOT_FOUND)?;
    let found = if found.is_dir() { found.join(INDEX).canonicalize().map_err(|_| NOT_FOUND)? } else { found };
    if found.starts_with(folder) && found.is_file() { Ok(found) } else { Err(NOT_FOUND) }
}

/// Sends the response to a request.
async fn answer(channel: &mut Channel, folder: &Path, request: Result<Request, Refusal>) -> Ending {
    let failed = |error: io::Error| Error::Refused(format!("the answer failed: {error}"));
    let opened = match &request {
        Ok(request) => match file_of(folder, &request.path) {
            Ok(path) => File::open(path).await.map_err(|_| NOT_FOUND),
            Err(refusal) => Err(refusal),
        },
        Err(Refusal(status, reason)) => Err(Refusal(*status, reason)),
    };
    let connection =
        if request.as_ref().is_ok_and(|request| request.keeps_open) { "keep-alive" } else { "close" };
    let (head, file) = match opened {
        Ok(file) => {
            let len = file.metadata().await.map_err(failed)?.len();
            (
                format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: {connection}\r\n\r\n"),
                Some((file, len)),
            )
        }
        Err(Refusal(status, reason)) => {
            let text = format!(
                "HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\nConnection: {connection}\r\n\r\n"
            );
            (text, None)
        }
    };
    channel.write_all(head.as_bytes()).await.map_err(failed)?;
    match file {
        // The head states the length of the file. If the file grows, the additional bytes are not sent; if it shrinks,
        // the connection ends.
        Some((file, len)) if request.is_ok_and(|request| !request.is_head) => {
            let mut part = file.take(len);
            copy(&mut part, channel, ("read the file", "send")).await?;
            match part.limit() {
                0 => Ok(()),
                _ => Err(Error::Refused("the file became shorter while it was sent".to_owned())),
            }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed() {
        let text = b"GET /a%20b?x=1 HTTP/1.1\r\nHost: h\r\n\r\nGET";
        let (request, len) = parse(text).expect("valid").expect("complete");
        assert_eq!(
            (request.path.as_str(), request.is_head, request.keeps_open, len),
            ("/a b", false, true, 36)
        );
        assert!(parse(b"GET / HTTP/1.1\r\nHost").expect("the incomplete request is valid").is_none());
        for option in ["Close", "keep-alive , close"] {
            let closing = format!("HEAD / HTTP/1.1\r\nConnection: {option}\r\n\r\n");
            let (request, _) = parse(closing.as_bytes()).expect("valid").expect("complete");
            assert!(request.is_head && !request.keeps_open);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn idle_and_slow_clients_are_given_up() {
        let (mut client, mut server) = tokio::io::duplex(1 << 10);
        let mut unread = Vec::new();
        client.write_all(b"GET /a HTTP/1.1\r\n\r\nGET /b HTT").await.expect("there is room");
        let head = next_head(&mut server, &mut unread).await.expect("no error");
        assert!(head.is_some_and(|head| head.is_ok_and(|request| request.path == "/a")));
        let begun = tokio::time::Instant::now();
        assert!(next_head(&mut server, &mut unread).await.expect("no error").is_none());
        assert_eq!(begun.elapsed().as_secs(), REQUEST_TIMEOUT.as_secs());
    }

    #[test]
    fn wrong_requests_are_refused() {
        let refusal = |text: &str| parse(text.as_bytes()).map(|_| ()).expect_err("refused");
        assert_eq!(refusal("POST / HTTP/1.1\r\n\r\n"), WRONG_METHOD);
        assert_eq!(refusal("GET /%zz HTTP/1.1\r\n\r\n"), BAD_REQUEST);
        assert_eq!(refusal("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n"), BAD_REQUEST);
        assert_eq!(refusal("\u{1}\r\n\r\n"), BAD_REQUEST);
        let long = "x".repeat(MAX_HEAD_BYTES);
        assert_eq!(refusal(&format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n")), LARGE_HEAD);
    }

    #[test]
    fn paths_do_not_lead_out_of_the_folder() {
        let base = std::env::temp_dir().join(format!("anabranch-http-{}", std::process::id()));
        let inner = base.join("inner");
        std::fs::create_dir_all(&inner).expect("the folder for temporary files is writable");
        std::fs::write(base.join("secret"), "s").expect("the file belongs to this test");
        std::fs::write(inner.join(INDEX), "i").expect("the file belongs to this test");
        std::os::unix::fs::symlink(base.join("secret"), inner.join("link"))
            .expect("the file belongs to this test");
        let inner = folder(&inner).expect("the path is a folder");
        assert_eq!(file_of(&inner, "/"), Ok(inner.join(INDEX)));
        for path in ["/../secret", "/link", "//etc/passwd", "/none", "/a/../../secret"] {
            assert_eq!(file_of(&inner, path), Err(NOT_FOUND), "{path}");
        }
        assert_eq!(file_of(&inner, "index.html"), Err(BAD_REQUEST));
        std::fs::remove_dir_all(base).expect("the file belongs to this test");
    }
}
