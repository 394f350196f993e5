//! Messages between the two machines of a testbed: payloads of GRE with the protocol type for experiments.
//!
//! ```text
//! +---------------+---------------+---------------+---------------+
//! |                        Magic "ABTM"                           |
//! +---------------+---------------+-------------------------------+
//! |    Format     |     Kind      |             Zero              |
//! +---------------+---------------+-------------------------------+
//! |                 Session of the sender (64)                    |
//! +---------------------------------------------------------------+
//! |        Session of the receiver, or zero if unknown (64)       |
//! +---------------------------------------------------------------+
//! |            Version of the program (128, ASCII)                |
//! +---------------------------------------------------------------+
//! |                        Body, by kind                          |
//! +---------------------------------------------------------------+
//! ```
//!
//! All numbers are big-endian. The part in front of the body is the same in all formats.

/// The format of bodies that this program writes and reads.
pub(super) const FORMAT: u8 = 1;
/// Length of the part in front of the body, bytes.
const HEAD_BYTES: usize = 40;
/// Length of a status message, bytes.
pub(super) const STATUS_BYTES: usize = HEAD_BYTES + 71;

const MAGIC: [u8; 4] = *b"ABTM";
const VERSION_BYTES: usize = 16;
const STATUS: u8 = 1;
const PROBE: u8 = 2;
const PROBED: u8 = 3;
const END: u8 = 4;

/// Flags of a status.
const HAS_PROBED: u8 = 1;
const HAS_START: u8 = 2;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Session of the sender: a random number for each start, never zero.
    pub session: u64,
    /// Session of the receiver, which only it and readers of its messages know; zero if the sender does not know it.
    pub receiver: u64,
    /// Version of the sender's program.
    pub version: Version,
    /// The content of the message; `None` if the message has another format.
    pub body: Option<Body>,
}

/// A version of the program, cut to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version([u8; VERSION_BYTES]);

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// The sender's state; sent at intervals.
    Status(Status),
    /// A message of a length that the receiver reports; `length` includes the part in front of the body.
    Probe { length: u16 },
    /// A probe of this length has arrived.
    Probed { length: u16 },
    /// The sender has ended, or ends.
    End(Reason),
}

/// The state of one end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// SHA-256 of the scenario.
    pub digest: [u8; 32],
    /// Index of the machine.
    pub machine: u8,
    /// Largest packets of the link towards the receiver and back, bytes.
    pub mtu: [u16; 2],
    /// The sender's packets fit the outer network.
    pub has_probed: bool,
    /// Time of the message by the sender's clock, nanoseconds.
    pub sent_ns: u64,
    /// `sent_ns` of the last status that the sender has received, and the time since then; zero if there is none.
    pub echo_ns: u64,
    pub held_ns: u64,
    /// Time from this message to the start of the scenario, nanoseconds; negative after it.
    pub start_ns: Option<i64>,
}

/// The reason of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The testbed was taken down.
    Down,
    /// The two ends differ.
    Refused,
    /// The outer network carries packets of this length towards the receiver, and must carry the second length.
    OuterMtu { carried: u32, needed: u32 },
    /// The sender has not heard from the receiver.
    Lost,
    /// The sender's emulator has failed.
    Failed,
}

impl Version {
    /// The version of this program.
    pub fn own() -> Self {
        Self::of(env!("CARGO_PKG_VERSION"))
    }

    pub fn of(text: &str) -> Self {
        let mut bytes = [0; VERSION_BYTES];
        for (byte, character) in bytes.iter_mut().zip(text.bytes()) {
            *byte = character;
        }
        Self(bytes)
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The bytes are those of another machine: control characters must not reach a terminal.
        for byte in self.0.iter().take_while(|&&byte| byte != 0) {
            write!(f, "{}", if byte.is_ascii_graphic() { char::from(*byte) } else { '?' })?;
        }
        Ok(())
    }
}

impl Message {
    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(STATUS_BYTES);
        out.extend_from_slice(&MAGIC);
        let (kind, format) = match &self.body {
            None => (STATUS, 0),
            Some(Body::Status(_)) => (STATUS, FORMAT),
            Some(Body::Probe { .. }) => (PROBE, FORMAT),
            Some(Body::Probed { .. }) => (PROBED, FORMAT),
            Some(Body::End(_)) => (END, FORMAT),
        };
        out.extend_from_slice(&[format, kind, 0, 0]);
        out.extend_from_slice(&self.session.to_be_bytes());
        out.extend_from_slice(&self.receiver.to_be_bytes());
        out.extend_from_slice(&self.version.0);
        match &self.body {
            Some(Body::Status(status)) => status.emit(&mut out),
            Some(Body::Probe { length }) => out.resize(usize::from(*length).max(HEAD_BYTES), 0),
            Some(Body::Probed { length }) => out.extend_from_slice(&length.to_be_bytes()),
            Some(Body::End(reason)) => reason.emit(&mut out),
            None => {}
        }
        out
    }

    /// Reads a message; `None` if the bytes are not a testbed's message.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, body) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let length = u16::try_from(bytes.len()).ok()?;
        let mut fields = Fields(head);
        if fields.take()? != MAGIC {
            return None;
        }
        let [format, kind, _, _] = fields.take()?;
        let (session, receiver) = (fields.u64()?, fields.u64()?);
        let version = Version(fields.take()?);
        if session == 0 {
            return None;
        }
        let body = match kind {
            _ if format != FORMAT => None,
            STATUS => Some(Body::Status(Status::parse(body)?)),
            PROBE => Some(Body::Probe { length }),
            PROBED => Some(Body::Probed { length: u16::from_be_bytes(body.try_into().ok()?) }),
            END => Some(Body::End(Reason::parse(body)?)),
            _ => return None,
        };
        Some(Self { session, receiver, version, body })
    }
}

impl Status {
    fn emit(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.extend_from_slice(&self.digest);
        out.push(self.machine);
        out.extend(self.mtu.iter().flat_map(|mtu| mtu.to_be_bytes()));
        out.push(0);
        out.push(flag(self.has_probed, HAS_PROBED) | flag(self.start_ns.is_some(), HAS_START));
        for time in [self.sent_ns, self.echo_ns, self.held_ns] {
            out.extend_from_slice(&time.to_be_bytes());
        }
        out.extend_from_slice(&self.start_ns.unwrap_or_default().to_be_bytes());
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let digest = fields.take()?;
        let [machine] = fields.take()?;
        let mtu = [(); 2].map(|()| fields.take().map(u16::from_be_bytes));
        let [_, flags] = fields.take()?;
        let [sent_ns, echo_ns, held_ns] = [fields.u64()?, fields.u64()?, fields.u64()?];
        let start_ns = i64::from_be_bytes(fields.take()?);
        fields.0.is_empty().then_some(Self {
            digest,
            machine,
            mtu: [mtu[0]?, mtu[1]?],
            has_probed: flags & HAS_PROBED != 0,
            sent_ns,
            echo_ns,
            held_ns,
            start_ns: (flags & HAS_START != 0).then_some(start_ns),
        })
    }
}

impl Reason {
    fn emit(&self, out: &mut Vec<u8>) {
        let (code, [carried, needed]) = match *self {
            Self::Down => (1, [0_u32; 2]),
            Self::Refused => (2, [0; 2]),
            Self::OuterMtu { carried, needed } => (3, [carried, needed]),
            Self::Lost => (4, [0; 2]),
            Self::Failed => (5, [0; 2]),
        };
        out.push(code);
        out.extend_from_slice(&carried.to_be_bytes());
        out.extend_from_slice(&needed.to_be_bytes());
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [code] = fields.take()?;
        let [carried, needed] = [fields.take()?, fields.take()?].map(u32::from_be_bytes);
        if !fields.0.is_empty() {
            return None;
        }
        Some(match code {
            1 => Self::Down,
            2 => Self::Refused,
            3 => Self::OuterMtu { carried, needed },
            4 => Self::Lost,
            5 => Self::Failed,
            _ => return None,
        })
    }
}

/// Bytes whose fields are read in order.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}
