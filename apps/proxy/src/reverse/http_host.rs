//! The host name of the first request of an HTTP/1.1 client (RFC 9112 §3.2).

use super::malformed::{Malformed, Parsed};
use httparse::{Error, Request, Status};

/// Maximum number of header fields of a request. More fields hardly fit into the maximum length of a request.
const MAX_FIELDS: usize = 256;

/// Parses the beginning of a stream; returns the host of the first request without its port, and the length of the
/// request's head, or `None` while the head is incomplete. For a stream that is not HTTP, there is no host, and the
/// length is 0.
///
/// # Errors
/// If the request has more than one host, or too many header fields.
pub fn http_host(bytes: &[u8]) -> Parsed<Option<String>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = Request::new(&mut fields);
    let len = match request.parse(bytes) {
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) => return Ok(None),
        Err(Error::TooManyHeaders) => return Err(Malformed("a request with more than 256 header fields")),
        Err(_) => return Ok(Some((None, 0))),
    };
    let mut hosts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().and_then(|field| str::from_utf8(field.value).ok());
    if hosts.next().is_some() {
        return Err(Malformed("a request with more than one Host"));
    }
    Ok(Some((host.and_then(without_port), len)))
}

/// Returns the host of `HOST` or `HOST:PORT` (RFC 3986 §3.2); an IPv6 address keeps its brackets. `None` if the host is
/// empty or longer than a host name (RFC 1035 §2.3.4).
fn without_port(authority: &str) -> Option<String> {
    let authority = authority.trim();
    let end = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
    let host = end.map_or(authority, |end| &authority[..end]);
    (1..=255).contains(&host.len()).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_read_without_its_port() {
        for (host, expected) in [
            ("a.example", Some("a.example")),
            (" \ta.example:8080 ", Some("a.example")),
            ("[2001:db8::1]:80", Some("[2001:db8::1]")),
            ("[2001:db8::1]", Some("[2001:db8::1]")),
            ("", None),
            (":80", None),
            (&"a".repeat(256), None),
        ] {
            let head = format!("GET / HTTP/1.1\r\naccept: */*\r\nhOST: {host}\r\n\r\n");
            let parsed = http_host(format!("{head}body").as_bytes());
            assert_eq!(parsed, Ok(Some((expected.map(str::to_owned), head.len()))), "{host}");
            assert_eq!(http_host(&head.as_bytes()[..head.len() - 1]), Ok(None));
        }
    }

    #[test]
    fn other_streams_have_no_host() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.9\r\n",
            b"EHLO a.example\r\n",
            b"\0\0",
        ] {
            assert_eq!(
                http_host(bytes).map(|parsed| parsed.expect("the message is complete").0),
                Ok(None),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn ambiguous_request_is_refused() {
        let twice = b"GET / HTTP/1.1\r\nHost: a.example\r\nhost: b.example\r\n\r\n";
        assert_eq!(http_host(twice), Err(Malformed("a request with more than one Host")));
        let many = format!("GET / HTTP/1.1\r\n{}Host: a.example\r\n\r\n", "a: b\r\n".repeat(256));
        assert!(http_host(many.as_bytes()).is_err());
        let most = format!("GET / HTTP/1.1\r\n{}Host: a.example\r\n\r\n", "a: b\r\n".repeat(255));
        assert!(http_host(most.as_bytes()).is_ok_and(|parsed| parsed.is_some()));
    }
}
