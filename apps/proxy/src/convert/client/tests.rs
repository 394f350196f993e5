use super::*;
use crate::config::{Protocol, User};
use crate::convert::TcpOption;
use crate::convert::cookie::decode_proof;
use crate::convert::parse;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream as Stream};
use std::sync::Arc;

const SERVER: &str = "192.0.2.1:80";
const EARLY: &[u8] = b"early data";

/// Messages that a converter received, each with the bytes after it.
type Received = Arc<Mutex<Vec<(Vec<Tlv>, Vec<u8>)>>>;

/// Starts a converter. For each client it reads the message and the early data, answers, and waits until the client
/// closes. `answer` gets the number of earlier messages and the TLVs of this one.
fn converter(answer: impl Fn(usize, &[Tlv]) -> Vec<u8> + Send + 'static) -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().unwrap().to_string();
    let received = Received::default();
    let recorded = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: Stream = stream.expect("a client");
            let (tlvs, rest) = read_flight(&mut stream);
            let before = recorded.lock().unwrap().len();
            let bytes = answer(before, &tlvs);
            recorded.lock().unwrap().push((tlvs, rest));
            // Ignore errors: a client may reset the connection after the answer.
            drop(stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write)));
            drop(stream.read(&mut [0]));
        }
    });
    (address, received)
}

fn read_flight(stream: &mut Stream) -> (Vec<Tlv>, Vec<u8>) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 2048]);
    loop {
        let len = stream.read(&mut piece).expect("the connection is open");
        assert!(len > 0, "the client has closed");
        bytes.extend_from_slice(&piece[..len]);
        if let Some((tlvs, len)) = parse(&bytes).expect("a message")
            && bytes.len() >= len + EARLY.len()
        {
            return (tlvs, bytes[len..].to_vec());
        }
    }
}

fn client(proxy: &str, user: Option<User>) -> Client {
    let via = Via {
        proxy: proxy.to_owned(),
        protocol: Protocol::Convert,
        user,
        from: Vec::new(),
        keep_alive: None,
        udp: None,
    };
    Client::new(via, &Limits::default())
}

async fn request(client: &Client) -> Result<Vec<u8>, NotConnected> {
    let mut once = vec![EARLY.to_vec()];
    let target = Target::Address(SERVER.parse().unwrap());
    let early = || Ok(once.pop().unwrap_or_default());
    let Connected { server, mut first, .. } = client.connect(&target, &mut EarlyData::new(early)).await?;
    while crate::stream::read_some(&server, &mut first).await.expect("the stream ends") > 0 {}
    Ok(first)
}

fn answer_bytes(tlvs: &[Tlv], more: &[u8]) -> Vec<u8> {
    [&emit(tlvs).unwrap()[..], more].concat()
}

/// Encodes the converter's answer after it has connected, followed by the bytes `more`.
fn connected(more: &[u8]) -> Vec<u8> {
    answer_bytes(&[Tlv::ExtendedTcpHeader(vec![TcpOption { kind: 4, value: Vec::new() }])], more)
}

/// Encodes the converter's answer with an error.
fn error(code: ErrorCode, value: &[u8]) -> Vec<u8> {
    answer_bytes(&[Tlv::Error(code, value.to_vec())], b"")
}

fn connect_tlv() -> Tlv {
    Tlv::Connect { server: SERVER.parse().unwrap(), options: Vec::new() }
}

#[tokio::test]
async fn early_data_is_sent_and_server_data_is_returned() {
    for answer in [
        connected(b"220 hello"),
        answer_bytes(&[], b"220 hello"),
        answer_bytes(&[Tlv::Other(200, vec![0; 2])], b"220 hello"),
    ] {
        let (address, received) = converter(move |_, _| answer.clone());
        assert_eq!(request(&client(&address, None)).await.unwrap(), b"220 hello");
        assert_eq!(*received.lock().unwrap(), [(vec![connect_tlv()], EARLY.to_vec())]);
    }
}

#[tokio::test]
async fn cookie_is_stored_sent_and_forgotten() {
    // The converter sends the cookie in a Cookie TLV, or only in the Error TLV.
    let missing = error(ErrorCode::MissingCookie, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let both = answer_bytes(
        &[Tlv::Error(ErrorCode::MissingCookie, vec![0]), Tlv::Cookie(vec![1, 2, 3, 4, 5, 6, 7, 0])],
        b"",
    );
    for missing in [missing, both] {
        // The fourth client is refused, as if its cookie had expired.
        let (address, received) = converter(move |before, tlvs| match (before, tlvs) {
            (3, _) => error(ErrorCode::NotAuthorized, &[]),
            (_, [_]) => missing.clone(),
            (_, _) => connected(b"yes"),
        });
        let client = client(&address, None);
        for _ in 0..3 {
            assert_eq!(request(&client).await.unwrap(), b"yes");
        }
        let cookie = Tlv::Cookie(vec![1, 2, 3, 4, 5, 6, 7, 0]);
        let (without, with) = (vec![connect_tlv()], vec![connect_tlv(), cookie]);
        let flights: Vec<_> = received.lock().unwrap().iter().map(|(tlvs, _)| tlvs.clone()).collect();
        assert_eq!(flights, [&without, &with, &with, &with, &without, &with].map(Clone::clone));
        // A converter that does not connect forwards no early data, so each attempt sends them again.
        assert!(received.lock().unwrap().iter().all(|(_, early)| early == EARLY));
    }
}

#[tokio::test]
async fn cookie_of_user_contains_password_proof() {
    let epoch = [9; 16];
    let (address, received) = converter(move |before, _| match before {
        0 => answer_bytes(&[Tlv::Error(ErrorCode::MissingCookie, vec![0]), Tlv::Cookie(epoch.to_vec())], b""),
        _ => connected(b""),
    });
    let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
    let client = client(&address, Some(user));
    for _ in 0..2 {
        assert!(request(&client).await.is_ok());
    }
    let proofs: Vec<_> = received
        .lock()
        .unwrap()
        .iter()
        .map(|(tlvs, _)| {
            let [connect, Tlv::Cookie(cookie)] = tlvs.as_slice() else { panic!("{tlvs:?}") };
            let proof = decode_proof(cookie).expect("a proof");
            assert!(proof.is_valid(b"secret", &emit(std::slice::from_ref(connect)).unwrap()));
            assert!(!proof.is_valid(b"Secret", &emit(std::slice::from_ref(connect)).unwrap()));
            proof
        })
        .collect();
    assert_eq!(proofs.iter().map(|proof| proof.epoch).collect::<Vec<_>>(), [[0; 16], epoch, epoch]);
    assert_ne!(proofs[1].nonce, proofs[2].nonce);
}

#[tokio::test]
async fn invalid_answer_ends_the_attempt() {
    let twice = [1, 3, 0x22, 0x63, 22, 1, 0, 0, 22, 1, 0, 0];
    for (answer, expected) in [
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "check that a converter listens there"),
        (b"220 data before the answer".to_vec(), "check that a converter listens there"),
        (vec![1, 0, 0x22, 0x63], "contains an invalid length"),
        (vec![1, 1, 0x22, 0x64], "magic number"),
        (twice.to_vec(), "twice"),
        (vec![1, 255, 0x22, 0x63, 20, 254], "end of file"),
        (Vec::new(), "end of file"),
        (answer_bytes(&[connect_tlv()], b""), "sends TLVs that only a client may send"),
        (answer_bytes(&[Tlv::Info], b""), "sends TLVs that only a client may send"),
        (answer_bytes(&[Tlv::Other(0, vec![0; 2])], b""), "sends TLVs that only a client may send"),
        (error(ErrorCode::MissingCookie, &[]), "sends none of a valid length"),
        (error(ErrorCode::MissingCookie, &[1, 2]), "sends none of a valid length"),
        (
            answer_bytes(&[Tlv::Error(ErrorCode::MissingCookie, vec![]), Tlv::Cookie(vec![7; 996])], b""),
            "sends none of a valid length",
        ),
        (error(ErrorCode::UnsupportedVersion, &[2]), "the converter uses another protocol version"),
        (error(ErrorCode::Other(200), &[]), "error 200"),
    ] {
        let shown = answer.clone();
        let (address, received) = converter(move |_, _| answer.clone());
        let (reply, message) = request(&client(&address, None)).await.unwrap_err();
        assert!(reply == Reply::Failure && message.contains(expected), "{shown:?}: {reply:?} {message}");
        assert_eq!(received.lock().unwrap().len(), 1, "{shown:?}");
    }
    // A cookie of the maximum length is accepted.
    let longest = Tlv::Cookie(vec![7; MAX_COOKIE_BYTES]);
    let (address, received) = converter(move |before, _| match before {
        0 => answer_bytes(&[Tlv::Error(ErrorCode::MissingCookie, vec![]), longest.clone()], b""),
        _ => connected(b""),
    });
    assert!(request(&client(&address, None)).await.is_ok());
    assert_eq!(received.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn refusing_converter_gets_max_attempts() {
    let (address, received) = converter(|_, tlvs| match tlvs {
        [_] => error(ErrorCode::MissingCookie, &[0, 1, 2, 3, 4]),
        _ => error(ErrorCode::NotAuthorized, &[]),
    });
    let (reply, expected) = request(&client(&address, None)).await.unwrap_err();
    assert!(reply == Reply::Failure && expected.contains("refuses the cookies that it sent"), "{expected}");
    assert_eq!(received.lock().unwrap().len(), MAX_ATTEMPTS);
}

#[tokio::test]
async fn converter_errors_reach_the_client() {
    for (code, value, reply) in [
        (ErrorCode::NotAuthorized, &[][..], Reply::Denied),
        (ErrorCode::ConnectionReset, &[], Reply::Refused),
        (ErrorCode::DestinationUnreachable, &[], Reply::NetworkUnreachable),
        (ErrorCode::DestinationUnreachable, &[1], Reply::HostUnreachable),
        (ErrorCode::DestinationUnreachable, &[3], Reply::Refused),
    ] {
        let (address, _) = converter(move |_, _| error(code, value));
        assert_eq!(request(&client(&address, None)).await.unwrap_err().0, reply, "{code:?}");
    }
}

#[tokio::test]
async fn converter_without_resources_gets_a_pause() {
    let (address, received) = converter(|before, _| match before {
        0 => error(ErrorCode::ResourceExceeded, &[1]),
        _ => connected(b""),
    });
    let client = client(&address, None);
    assert_eq!(request(&client).await.unwrap_err().0, Reply::Failure);
    assert!(request(&client).await.unwrap_err().1.contains("has no resources left; next request in 1 s"));
    assert_eq!(received.lock().unwrap().len(), 1);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert!(request(&client).await.is_ok());
    client.pause(&[]);
    assert!(request(&client).await.unwrap_err().1.contains("next request in 30 s"));
}

#[test]
fn number_of_kept_cookies_is_limited() {
    let client = client("127.0.0.1:1", None);
    for number in 0..2 * MAX_COOKIES as u32 {
        let local = IpAddr::V4(core::net::Ipv4Addr::from_bits(number));
        client.store_cookie(local, Some(vec![1; 4])).unwrap();
    }
    assert_eq!(client.cookies().len(), MAX_COOKIES);
}
