use super::*;
use crate::config::{Protocol, User};
use crate::convert::TcpOption;
use crate::convert::cookie::proof_in;
use crate::convert::parse;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream as Stream};
use std::sync::Arc;

const SERVER: &str = "192.0.2.1:80";
const EARLY: &[u8] = b"early data";

/// Messages that reached a converter, each with the bytes after it.
type Came = Arc<Mutex<Vec<(Vec<Tlv>, Vec<u8>)>>>;

/// A converter that reads each client's message and early data, and waits until the client ends. The answer depends on the
/// number of earlier messages and on the message.
fn converter(answer: impl Fn(usize, &[Tlv]) -> Vec<u8> + Send + 'static) -> (String, Came) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().unwrap().to_string();
    let came = Came::default();
    let told = Arc::clone(&came);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: Stream = stream.expect("a client");
            let (tlvs, rest) = flight(&mut stream);
            let before = told.lock().unwrap().len();
            let bytes = answer(before, &tlvs);
            told.lock().unwrap().push((tlvs, rest));
            // A client that has enough of it resets.
            drop(stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write)));
            drop(stream.read(&mut [0]));
        }
    });
    (address, came)
}

fn flight(stream: &mut Stream) -> (Vec<Tlv>, Vec<u8>) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 2048]);
    loop {
        let len = stream.read(&mut piece).expect("the client goes on");
        assert!(len > 0, "the client has ended");
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
    };
    Client::new(via, &Limits::default())
}

async fn ask(client: &Client) -> Result<Vec<u8>, NotConnected> {
    let mut once = vec![EARLY.to_vec()];
    let target = Target::Address(SERVER.parse().unwrap());
    let early = || Ok(once.pop().unwrap_or_default());
    let Connected { server, mut first, .. } = client.connect(&target, &mut EarlyData::new(early)).await?;
    while crate::stream::read_some(&server, &mut first).await.expect("it ends") > 0 {}
    Ok(first)
}

fn said(tlvs: &[Tlv], more: &[u8]) -> Vec<u8> {
    [&emit(tlvs).unwrap()[..], more].concat()
}

fn connected(more: &[u8]) -> Vec<u8> {
    said(&[Tlv::ExtendedTcpHeader(vec![TcpOption { kind: 4, value: Vec::new() }])], more)
}

fn error(code: ErrorCode, value: &[u8]) -> Vec<u8> {
    said(&[Tlv::Error(code, value.to_vec())], b"")
}

fn connect_tlv() -> Tlv {
    Tlv::Connect { server: SERVER.parse().unwrap(), options: Vec::new() }
}

#[tokio::test]
async fn early_data_is_sent_and_server_data_is_returned() {
    for answer in
        [connected(b"220 hello"), said(&[], b"220 hello"), said(&[Tlv::Other(200, vec![0; 2])], b"220 hello")]
    {
        let (address, came) = converter(move |_, _| answer.clone());
        assert_eq!(ask(&client(&address, None)).await.unwrap(), b"220 hello");
        assert_eq!(*came.lock().unwrap(), [(vec![connect_tlv()], EARLY.to_vec())]);
    }
}

#[tokio::test]
async fn a_cookie_is_learned_shown_and_forgotten() {
    // In its own TLV, and in the error alone.
    let missing = error(ErrorCode::MissingCookie, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let both = said(
        &[Tlv::Error(ErrorCode::MissingCookie, vec![0]), Tlv::Cookie(vec![1, 2, 3, 4, 5, 6, 7, 0])],
        b"",
    );
    for missing in [missing, both] {
        // The fourth client is refused: its cookie is no longer good.
        let (address, came) = converter(move |before, tlvs| match (before, tlvs) {
            (3, _) => error(ErrorCode::NotAuthorized, &[]),
            (_, [_]) => missing.clone(),
            (_, _) => connected(b"yes"),
        });
        let client = client(&address, None);
        for _ in 0..3 {
            assert_eq!(ask(&client).await.unwrap(), b"yes");
        }
        let cookie = Tlv::Cookie(vec![1, 2, 3, 4, 5, 6, 7, 0]);
        let (without, with) = (vec![connect_tlv()], vec![connect_tlv(), cookie]);
        let flights: Vec<_> = came.lock().unwrap().iter().map(|(tlvs, _)| tlvs.clone()).collect();
        assert_eq!(flights, [&without, &with, &with, &with, &without, &with].map(Clone::clone));
        // Early data reach no server if the converter does not connect, and are repeated.
        assert!(came.lock().unwrap().iter().all(|(_, early)| early == EARLY));
    }
}

#[tokio::test]
async fn a_user_proves_its_password_in_the_cookie() {
    let epoch = [9; 16];
    let (address, came) = converter(move |before, _| match before {
        0 => said(&[Tlv::Error(ErrorCode::MissingCookie, vec![0]), Tlv::Cookie(epoch.to_vec())], b""),
        _ => connected(b""),
    });
    let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
    let client = client(&address, Some(user));
    for _ in 0..2 {
        assert!(ask(&client).await.is_ok());
    }
    let proofs: Vec<_> = came
        .lock()
        .unwrap()
        .iter()
        .map(|(tlvs, _)| {
            let [connect, Tlv::Cookie(cookie)] = tlvs.as_slice() else { panic!("{tlvs:?}") };
            let proof = proof_in(cookie).expect("a proof");
            assert!(proof.holds(b"secret", &emit(std::slice::from_ref(connect)).unwrap()));
            assert!(!proof.holds(b"Secret", &emit(std::slice::from_ref(connect)).unwrap()));
            proof
        })
        .collect();
    assert_eq!(proofs.iter().map(|proof| proof.epoch).collect::<Vec<_>>(), [[0; 16], epoch, epoch]);
    assert_ne!(proofs[1].nonce, proofs[2].nonce);
}

#[tokio::test]
async fn converters_that_answer_nonsense_are_left() {
    let twice = [1, 3, 0x22, 0x63, 22, 1, 0, 0, 22, 1, 0, 0];
    for (answer, why) in [
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "is it a converter?"),
        (b"220 data before the answer".to_vec(), "is it a converter?"),
        (vec![1, 0, 0x22, 0x63], "gives a length that does not fit"),
        (vec![1, 1, 0x22, 0x64], "magic number"),
        (twice.to_vec(), "says twice"),
        (vec![1, 255, 0x22, 0x63, 20, 254], "end of file"),
        (Vec::new(), "end of file"),
        (said(&[connect_tlv()], b""), "answers as a client would"),
        (said(&[Tlv::Info], b""), "answers as a client would"),
        (said(&[Tlv::Other(0, vec![0; 2])], b""), "answers as a client would"),
        (error(ErrorCode::MissingCookie, &[]), "gives none that could be shown"),
        (error(ErrorCode::MissingCookie, &[1, 2]), "gives none that could be shown"),
        (
            said(&[Tlv::Error(ErrorCode::MissingCookie, vec![]), Tlv::Cookie(vec![7; 996])], b""),
            "gives none that could be shown",
        ),
        (error(ErrorCode::UnsupportedVersion, &[2]), "another version is spoken there"),
        (error(ErrorCode::Other(200), &[]), "error 200"),
    ] {
        let shown = answer.clone();
        let (address, came) = converter(move |_, _| answer.clone());
        let (reply, said) = ask(&client(&address, None)).await.unwrap_err();
        assert!(reply == Reply::Failure && said.contains(why), "{shown:?}: {reply:?} {said}");
        assert_eq!(came.lock().unwrap().len(), 1, "{shown:?}");
    }
    // The longest cookie that could be shown is.
    let longest = Tlv::Cookie(vec![7; MAX_COOKIE_BYTES]);
    let (address, came) = converter(move |before, _| match before {
        0 => said(&[Tlv::Error(ErrorCode::MissingCookie, vec![]), longest.clone()], b""),
        _ => connected(b""),
    });
    assert!(ask(&client(&address, None)).await.is_ok());
    assert_eq!(came.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn refusing_converter_gets_max_attempts() {
    let (address, came) = converter(|_, tlvs| match tlvs {
        [_] => error(ErrorCode::MissingCookie, &[0, 1, 2, 3, 4]),
        _ => error(ErrorCode::NotAuthorized, &[]),
    });
    let (reply, why) = ask(&client(&address, None)).await.unwrap_err();
    assert!(reply == Reply::Failure && why.contains("refuses each cookie that it sent"), "{why}");
    assert_eq!(came.lock().unwrap().len(), MAX_ATTEMPTS);
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
        assert_eq!(ask(&client(&address, None)).await.unwrap_err().0, reply, "{code:?}");
    }
}

#[tokio::test]
async fn a_converter_without_room_is_left_alone_for_a_while() {
    let (address, came) = converter(|before, _| match before {
        0 => error(ErrorCode::ResourceExceeded, &[1]),
        _ => connected(b""),
    });
    let client = client(&address, None);
    assert_eq!(ask(&client).await.unwrap_err().0, Reply::Failure);
    assert!(ask(&client).await.unwrap_err().1.contains("has no room, and is not asked for 1 s more"));
    assert_eq!(came.lock().unwrap().len(), 1);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert!(ask(&client).await.is_ok());
    client.leave_alone(&[]);
    assert!(ask(&client).await.unwrap_err().1.contains("for 30 s more"));
}

#[test]
fn number_of_kept_cookies_is_limited() {
    let client = client("127.0.0.1:1", None);
    for number in 0..2 * MAX_COOKIES as u32 {
        let here = IpAddr::V4(core::net::Ipv4Addr::from_bits(number));
        client.keep(here, Some(vec![1; 4])).unwrap();
    }
    assert_eq!(client.cookies().len(), MAX_COOKIES);
}
