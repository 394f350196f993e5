//! Settings of an SCTP association. Every field is either a parameter of RFC 9260 §16 (or of the RFC that defines
//! the option) or a switch that a publication on CMT-SCTP varies.

pub use crate::policy::{ImmediateSack, RetransmissionPath, SackPath, SctpPaths as Paths, StreamScheduler};
use anabranch_base::time::Duration;
use anabranch_multipath::buffer::{Rescheduling, Splitting};
use anabranch_multipath::congestion::{Choice, Rules};
use anabranch_multipath::rtt::RtoBounds;
use anabranch_multipath::scheduler;
use anabranch_wire::sctp::encapsulation::Ports;
use core::net::IpAddr;

/// The settings of one end of an association: plain data, without addresses and without secrets.
#[derive(Clone, Debug)]
pub struct Config {
    /// Send buffer, bytes of user data written and not yet freed.
    pub send_buffer: u64,
    /// Receive buffer, bytes of user data received and not yet read.
    pub receive_buffer: u64,
    /// Concurrent multipath transfer: new data goes out on all confirmed paths, with split fast retransmit and the
    /// per-path window update (Iyengar et al. 2006). Without it all new data goes to the primary path.
    pub cmt: bool,
    /// Congestion control of all paths together.
    pub congestion: Choice,
    /// Picks the path of new data under CMT.
    pub scheduler: &'static scheduler::Entry,
    /// How a path is identified.
    pub paths: Paths,
    /// Index, among the remote addresses, of the initial and primary destination.
    pub initial_path: usize,
    /// Offer and use non-renegable selective acknowledgements (draft-natarajan-tsvwg-sctp-nrsack).
    pub nr_sack: bool,
    /// Buffer splitting (Adhari2011), applied by the sender for both ends' buffers.
    pub splitting: Splitting,
    /// Chunk rescheduling (Dreibholz et al. 2010).
    pub rescheduling: Rescheduling,
    /// Halve the window of a path whose chunks were rescheduled, at most once a round trip (Raiciu2012).
    pub penalisation: bool,
    /// Splitting, rescheduling and penalisation from the beginning, not only once the window of the fastest path has reached
    /// its maximum (Becke2014 §8.1.1.3).
    pub mechanisms_in_start_up: bool,
    /// Where lost chunks go.
    pub retransmission: RetransmissionPath,
    /// Streams asked for in each direction (RFC 9260 §5.1.1).
    pub streams: u16,
    /// Which stream's message goes out next.
    pub stream_scheduler: StreamScheduler,
    /// Longest delay of a SACK; zero acknowledges every packet (SACK.Delay, RFC 9260 §6.2 and §16).
    pub sack_delay: Duration,
    /// Packets with data per SACK (RFC 9260 §6.2: 2).
    pub sack_every: u32,
    /// When this end asks the peer for a SACK at once.
    pub immediate_sack: ImmediateSack,
    /// Where an acknowledgement goes that answers packets of several paths.
    pub sack_path: SackPath,
    /// Delayed acknowledgement for CMT (Iyengar et al. 2006). A receiver delays the SACK for out-of-order
    /// data too and reports how many packets it acknowledges; the sender counts missing reports accordingly.
    /// It is used if both ends announce it in the handshake, or once the peer's SACKs contain packet counts.
    pub dac: bool,
    /// Initial, smallest and largest retransmission timeout (RFC 9260 §16: 1 s, 1 s, 60 s).
    pub rto: RtoBounds,
    /// Time between heartbeats to an idle destination, in addition to its RTO (HB.interval); `None` sends
    /// only those that confirm a path.
    pub heartbeat_interval: Option<Duration>,
    /// Maximum number of outstanding heartbeats to unconfirmed addresses (HB.Max.Burst, RFC 9260 §5.4 and
    /// §16: 1). The next one is sent when one is answered or its RTO has passed.
    pub heartbeat_max_burst: u32,
    /// Errors in a row after which a destination is inactive (Path.Max.Retrans).
    pub path_max_retrans: u32,
    /// Errors in a row above which a destination is potentially failed (PotentiallyFailed.Max.Retrans, RFC 7829 §3.2,
    /// recommended: 0): it carries no data while another one can, and is asked by heartbeats at once and in short
    /// intervals until it answers. `None` does without that state.
    pub potentially_failed_threshold: Option<u32>,
    /// Errors in a row after which the association ends (Association.Max.Retrans).
    pub association_max_retrans: u32,
    /// Attempts at INIT and COOKIE ECHO (Max.Init.Retransmits).
    pub init_max_retrans: u32,
    /// How long a state cookie is good for (Valid.Cookie.Life).
    pub cookie_life: Duration,
    /// Missing reports that make a chunk lost (RFC 9260 §7.2.4: 3).
    pub missing_reports: u32,
    /// Packets of new data that one event may release on a path (Max.Burst, RFC 9260 §6.1 D); `None` for no limit.
    pub max_burst: Option<u32>,
    /// A packet may leave while the window has any room at all, so that up to a packet less one byte is in flight
    /// beyond it (RFC 9260 §6.1 B). Without it a packet must fit the window, as with TCP: the difference is one packet
    /// per path, which with small windows decides who gets more of a shared bottleneck.
    pub overshoot: bool,
    /// Probe a path with data in flight for which no acknowledgements come, and let it time out early while
    /// they come for other paths (RFC 8985 §7, draft-nielsen-tsvwg-sctp-tlr).
    pub tail_loss_probe: bool,
    /// Hold back data that does not fill a packet while other data is in flight (RFC 9260 §6.1, Nagle).
    pub nagle: bool,
    /// By how many packets one acknowledgement may open the window of a path in slow start (L of RFC 9260 §7.2.1, where it
    /// should be 1, and of RFC 3465 §2.2); `None` for as many as it acknowledges.
    pub abc_limit: Option<u32>,
    /// Lowest slow-start threshold that an uncoupled loss reaction leaves, packets (RFC 9260 §7.2.3: 4).
    pub ssthresh_floor: u32,
    /// Initial slow-start threshold, bytes; `u64::MAX` for none (RFC 9260 §7.2.1: arbitrarily high).
    pub initial_ssthresh: u64,
    /// Offer and use I-DATA (RFC 8260): messages of different streams may interleave.
    pub i_data: bool,
    /// Offer and use partial reliability (RFC 3758): messages may be given up, and messages that the peer
    /// gives up are skipped.
    pub partial_reliability: bool,
    /// Offer and use re-configuration (RFC 6525): streams are reset and added, also at the peer's request.
    pub reconfiguration: bool,
    /// Offer and use explicit congestion notification (RFC 4960 appendix A).
    pub ecn: bool,
    /// Offer and use address reconfiguration (RFC 5061), with the authentication that it needs (RFC 4895).
    pub asconf: bool,
    /// Accept user data and its acknowledgements only with authentication (RFC 4895): DATA, I-DATA, SACK,
    /// NR-SACK, FORWARD TSN and I-FORWARD-TSN. With a peer that does not support authentication, the
    /// association goes without. Chunks that the peer requires to be authenticated are sent so if this or
    /// [`asconf`](Self::asconf) is set.
    pub authenticate_data: bool,
    /// The secret that both ends share for authentication (endpoint pair shared key 0, RFC 4895 §5.1).
    /// Without one, an eavesdropper on the handshake can compute the codes.
    pub shared_key: Box<[u8]>,
    /// The error detection method of the lower layer (RFC 9653 §4; 1: SCTP over DTLS). With one, packets
    /// without a checksum are accepted, and are sent to a peer that announces the same method. `None` if the
    /// lower layer detects no damage.
    pub error_detection: Option<u32>,
    /// Discover the path MTU by probing (RFC 8899). The search begins with a length that most paths carry, so
    /// routers that drop large packets silently do no harm. Without it the MTUs of the local interfaces hold
    /// until a router reports a smaller one.
    pub pmtu_discovery: bool,
    /// Encapsulate packets in UDP (RFC 6951): from this local port, and to that remote port until the peer's
    /// packets come from another. A packet received in UDP is always answered in UDP, whatever the setting.
    pub encapsulation: Option<Ports>,
    /// Pairs of a local and a remote address that no route connects: no packet goes to one of these.
    pub unroutable: Vec<(IpAddr, IpAddr)>,
}

impl Config {
    /// Everything as RFC 9260 recommends.
    pub fn new(congestion: Choice, scheduler: &'static scheduler::Entry) -> Self {
        Self {
            send_buffer: 1_000_000,
            receive_buffer: 500_000,
            cmt: false,
            congestion,
            scheduler,
            paths: Paths::default(),
            initial_path: 0,
            nr_sack: true,
            splitting: Splitting::default(),
            rescheduling: Rescheduling::default(),
            penalisation: true,
            mechanisms_in_start_up: true,
            retransmission: RetransmissionPath::default(),
            streams: 1,
            stream_scheduler: StreamScheduler::default(),
            sack_delay: Duration::from_millis(200),
            sack_every: 2,
            immediate_sack: ImmediateSack::default(),
            sack_path: SackPath::default(),
            dac: false,
            rto: RtoBounds {
                initial: Duration::from_secs(1),
                min: Duration::from_secs(1),
                max: Duration::from_secs(60),
            },
            heartbeat_interval: Some(Duration::from_secs(30)),
            heartbeat_max_burst: 1,
            path_max_retrans: 5,
            potentially_failed_threshold: Some(0),
            association_max_retrans: 10,
            init_max_retrans: 8,
            cookie_life: Duration::from_secs(60),
            missing_reports: 3,
            max_burst: Some(4),
            overshoot: false,
            tail_loss_probe: false,
            nagle: true,
            abc_limit: Some(1),
            ssthresh_floor: Rules::Sctp.floor(),
            initial_ssthresh: u64::MAX,
            i_data: false,
            partial_reliability: false,
            reconfiguration: false,
            ecn: false,
            asconf: false,
            authenticate_data: false,
            shared_key: Box::default(),
            error_detection: None,
            pmtu_discovery: false,
            encapsulation: None,
            unroutable: Vec::new(),
        }
    }

    /// Switches concurrent multipath transfer on, and with it what suits several paths: delayed acknowledgement for CMT, tail
    /// loss probes, and acknowledgements over the nearest path.
    #[must_use]
    pub fn with_cmt(mut self) -> Self {
        self.cmt = true;
        self.dac = true;
        self.tail_loss_probe = true;
        self.sack_path = SackPath::Nearest;
        self
    }

    /// A route connects a local and a remote address, as far as is known.
    pub fn is_routed(&self, local: IpAddr, remote: IpAddr) -> bool {
        !self.unroutable.contains(&(local, remote))
    }
}
