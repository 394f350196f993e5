//! Settings of an SCTP association. Every field is either a parameter of RFC 9260 §16 (or of the RFC that defines
//! the option) or a switch that a publication on CMT-SCTP varies.

use super::key::{Key, Part, Takes};
pub use super::policy::{
    ImmediateSack, Information, RetransmissionPath, SackPath, SctpPaths as Paths, StreamPaths,
    StreamScheduler,
};
use super::protocols::Protocols;
use super::row::settings;
use super::setting::Value;
use super::shared::{
    ABC_LIMIT, CONGESTION, ECN, MECHANISMS_IN_START_UP, NAGLE, NETWORK_CONTROL, RECEIVE_BUFFER, RTO_INITIAL,
    RTO_MAX, RTO_MIN, SEND_BUFFER, SLOW_START, SSTHRESH_FLOOR,
};
use super::unroutable;
use super::words::{ordering_schedulers, words};
use anabranch_base::time::Duration;
use anabranch_multipath::buffer::{Rescheduling, Sides, Splitting, SplittingOn};
use anabranch_multipath::congestion::{Choice, Rules};
use anabranch_multipath::rtt::RtoBounds;
use anabranch_multipath::scheduler;
use anabranch_multipath::scheduler::information::find;
use anabranch_multipath::scheduler::{KnownPath, PathInformation};
use anabranch_wire::sctp::encapsulation::Ports;
use core::net::IpAddr;
use std::sync::Arc;

settings! {
    /// The settings of one end of an association: plain data, without addresses and without secrets. The
    /// default is SCTP as RFC 9260 recommends it.
    pub struct Config for ANY_SCTP {
        /// Congestion control of all paths together.
        congestion: Choice = Choice::find("reno").expect("the name is in the table")
            => CONGESTION, at entry
            => SLOW_START, at options.slow_start;
        /// Send buffer: maximum number of bytes of user data that are written and not yet freed.
        send_buffer: u64 = 4_000_000
            => SEND_BUFFER;
        /// Receive buffer: maximum number of bytes of user data that are received and not yet read.
        receive_buffer: u64 = 4_000_000
            => RECEIVE_BUFFER;
        /// Initial, smallest and largest retransmission timeout (RFC 9260 §16: 1 s, 1 s, 60 s).
        rto: RtoBounds = RtoBounds {
            initial: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
        }
            => RTO_INITIAL, at initial
            => RTO_MIN, at min
            => RTO_MAX, at max;
        /// Offer and use explicit congestion notification (RFC 4960 appendix A).
        ecn: bool = false
            => ECN;
        /// Concurrent multipath transfer: new data is sent on all confirmed paths, with split fast retransmit and the
        /// window update per path (Iyengar et al. 2006). If this is false, new data is sent only on the primary path.
        cmt: bool = false;
        /// Use splitting, rescheduling and penalisation from the start of the association. If this is false, they
        /// begin once the window of the fastest path has reached its maximum (Becke2014 §8.1.1.3).
        mechanisms_in_start_up: bool = true
            => MECHANISMS_IN_START_UP;
        /// Scheduler: selects the path of new data of an association with concurrent multipath transfer.
        scheduler: &'static scheduler::Entry = scheduler::find("round-robin").expect("the name is in the table")
            => Key::new(
                "scheduler",
                Takes::OneOf(ordering_schedulers),
                "Selects the path of the next packet of an association with concurrent multipath transfer.",
            );
        /// Definition of the association's paths.
        paths: Paths = Paths::Destination
            => Key::new("paths", Takes::OneOf(words::<Paths>), "Definition of the association's paths.");
        /// Index, among the remote addresses, of the initial primary destination.
        initial_path: usize = 0;
        /// Offer and use non-renegable selective acknowledgements (draft-natarajan-tsvwg-sctp-nrsack).
        nr_sack: bool = false
            => Key::new(
                "nr_sack",
                Takes::Flag,
                "Non-renegable selective acknowledgements: data received out of order leaves the send buffer at once.",
            );
        /// Buffer splitting (Adhari2011), applied by the sender for both ends' buffers.
        splitting: Splitting = Splitting { sides: Sides::None, on: SplittingOn::Outstanding }
            => Key::new(
                "buffer_splitting",
                Takes::OneOf(words::<Sides>),
                "The buffers that are split among the paths, so that a slow path cannot fill them (Adhari2011).",
            ), at sides
            => Key::new(
                "splitting_on",
                Takes::OneOf(words::<SplittingOn>),
                "The bytes that count against a path's share.",
            ), at on;
        /// Chunk rescheduling (Dreibholz et al. 2010).
        rescheduling: Rescheduling = Rescheduling::default()
            => Key::new(
                "chunk_rescheduling",
                Takes::Either(&[Takes::Flag, Takes::Number { min: 0.0, max: 1.0 }]),
                "Retransmit on another path the chunk that blocks a nearly full buffer, from this share of the \
                 buffer on; `true` is 0.5. cmt-sctp.md gives the reasons for the default.",
            )
            .on(|| Value::Number(0.5));
        /// Halve the window of a path whose chunks were rescheduled, at most once per round-trip time (Raiciu2012).
        penalisation: bool = false
            => Key::new(
                "penalisation",
                Takes::Flag,
                "Halve the window of a path whose chunks are rescheduled for longer than a round trip, at most once \
                 per round trip.",
            )
            .only(Protocols::CMT_SCTP)
            .part(Part::Multipath);
        /// Number of streams that this end requests for each direction (RFC 9260 §5.1.1).
        streams: u16 = 1
            => Key::new(
                "streams",
                Takes::Integer { min: 1, max: 65_535 },
                "Number of streams, which messages use in turn.",
            );
        /// Longest delay of a SACK; zero acknowledges every packet (SACK.Delay, RFC 9260 §6.2 and §16).
        sack_delay: Duration = Duration::from_millis(200)
            => Key::new(
                "sack_delay",
                Takes::Time { zero: true },
                "Maximum delay of a SACK; every second packet is acknowledged at once.",
            );
        /// Number of packets with data after which a SACK is sent (RFC 9260 §6.2: 2).
        sack_every: u32 = 2;
        /// The data chunks with which this end requests an immediate SACK (RFC 7053).
        immediate_sack: ImmediateSack = ImmediateSack::End
            => Key::new(
                "immediate_sack",
                Takes::OneOf(words::<ImmediateSack>),
                "When a sender requests an immediate SACK by the I bit of its chunk (RFC 7053).",
            );
        /// The path of an acknowledgement for packets that arrived on several paths.
        sack_path: SackPath = SackPath::Last
            => Key::new(
                "sack_path",
                Takes::OneOf(words::<SackPath>),
                "The path of a SACK for packets that arrived on different paths (RFC 9260 §6.4).",
            );
        /// Delayed acknowledgement for CMT (Iyengar et al. 2006). A receiver delays the SACK for out-of-order
        /// data too and reports how many packets it acknowledges; the sender counts missing reports accordingly.
        /// It is used if both ends announce it in the handshake, or once the peer's SACKs contain packet counts.
        dac: bool = false;
        /// The path of retransmissions.
        retransmission: RetransmissionPath = RetransmissionPath::Alternate
            => Key::new("retransmission", Takes::OneOf(words::<RetransmissionPath>), "The path of retransmissions.");
        /// The order in which messages of different streams are sent.
        stream_scheduler: StreamScheduler = StreamScheduler::Fcfs
            => Key::new(
                "stream_scheduler",
                Takes::OneOf(words::<StreamScheduler>),
                "Selects the stream whose message is sent next: with `i_data` for each fragment, else for each message.",
            );
        /// Priority of each stream for [`StreamScheduler::Priority`]; the others have 0.
        stream_priorities: Box<[u16]> = Box::default()
            => Key::new(
                "stream_priorities",
                Takes::Integers { min: 0, max: 65_535 },
                "With `stream_scheduler = \"priority\"`, the priority of each stream: the lowest number is sent first. \
                 `[]` gives all streams the same.",
            )
            .unless_default();
        /// Weight of each stream for [`StreamScheduler::WeightedFair`]; the others have 1.
        stream_weights: Box<[u16]> = Box::default()
            => Key::new(
                "stream_weights",
                Takes::Integers { min: 1, max: 65_535 },
                "With `stream_scheduler = \"weighted-fair\"`, the weight of each stream: streams with data share the \
                 capacity in proportion to their weights. `[]` gives all streams the same.",
            )
            .unless_default();
        /// The paths of new data of each stream.
        stream_paths: StreamPaths = StreamPaths::Any
            => Key::new(
                "stream_paths",
                Takes::OneOf(words::<StreamPaths>),
                "Paths of new data of each stream (Becke2014 §7.2.2.2).",
            )
            .only(Protocols::CMT_SCTP)
            .part(Part::Multipath)
            .unless_default();
        /// Share of the gap-acknowledged chunks that this end discards when its receive buffer is full (RFC 9260 §6.2).
        /// With non-renegable acknowledgements it discards none.
        renege: f64 = 0.0
            => Key::new(
                "renege",
                Takes::Number { min: 0.0, max: 1.0 },
                "Share of the chunks acknowledged after a gap that the receiver discards, the newest first, when its buffer \
                 has room for the missing chunks only (reneging, RFC 9260 §6.2). Needs `nr_sack = false`.",
            )
            .unless_default();
        /// Offer and use I-DATA (RFC 8260): messages of different streams may interleave.
        i_data: bool = false
            => Key::new(
                "i_data",
                Takes::Flag,
                "Offer I-DATA (RFC 8260): messages of different streams may interleave.",
            );
        /// Offer and use address reconfiguration (RFC 5061), with the authentication that it requires (RFC 4895).
        asconf: bool = false
            => Key::new("asconf", Takes::Flag, "Offer address reconfiguration (RFC 5061).");
        /// Discover the path MTU by probing (RFC 8899). The search begins with a length that most paths carry, so
        /// that a router that drops large packets without an ICMP error delays no data. If this is false, the path
        /// MTU is that of the local interface until a router reports a smaller one.
        pmtu_discovery: bool = false
            => Key::new(
                "pmtu_discovery",
                Takes::Flag,
                "Probe the MTU of each path (RFC 8899), from 1,220 bytes upwards (1,280 with IPv6), for networks \
                 whose routers drop long packets silently.",
            );
        /// Encapsulate packets in UDP (RFC 6951): from this local port to this remote port, or to the source port of
        /// the peer's packets once they differ. The answer to a packet received in UDP is always sent in UDP, even if
        /// this is `None`.
        encapsulation: Option<Ports> = None
            => Key::new(
                "udp_encapsulation",
                Takes::Flag,
                "Carry SCTP in UDP between ports 9899 (RFC 6951): 8 more bytes per packet.",
            );
        /// Time between heartbeats to an idle destination, in addition to its RTO (HB.interval). If this is `None`,
        /// only heartbeats that confirm a path are sent.
        heartbeat_interval: Option<Duration> = Some(Duration::from_secs(30))
            => Key::new(
                "heartbeat_interval",
                Takes::Either(&[Takes::Flag, Takes::Time { zero: false }]),
                "Time between heartbeats to an idle destination, in addition to its retransmission timeout \
                 (HB.interval). `false` sends only heartbeats that confirm a path, `true` is the default.",
            );
        /// Maximum number of outstanding heartbeats to unconfirmed addresses (HB.Max.Burst, RFC 9260 §5.4 and §16:
        /// 1). The next one is sent after an answer or after its RTO.
        heartbeat_max_burst: u32 = 1;
        /// Number of consecutive errors after which a destination is inactive (Path.Max.Retrans).
        path_max_retrans: u32 = 5
            => Key::new(
                "path_max_retrans",
                Takes::Integer { min: 0, max: 1000 },
                "Consecutive errors after which a destination is inactive (Path.Max.Retrans).",
            );
        /// Number of consecutive errors above which a destination is potentially failed
        /// (PotentiallyFailed.Max.Retrans, RFC 7829 §3.2, recommended: 0). It then carries no data while another
        /// destination can, and this end probes it by heartbeats immediately and at short intervals until it answers.
        /// `None` disables this state.
        potentially_failed_threshold: Option<u32> = Some(0)
            => Key::new(
                "potentially_failed_threshold",
                Takes::Either(&[Takes::Flag, Takes::Integer { min: 0, max: 1000 }]),
                "Consecutive errors above which a destination is potentially failed (PotentiallyFailed.Max.Retrans, \
                 RFC 7829): it carries no data while another one can, and gets heartbeats until it answers. `false` \
                 disables the state, `true` is the default.",
            );
        /// Probe a path with data in flight that gets no acknowledgement. If acknowledgements arrive for other paths
        /// meanwhile, the retransmission timer of this path expires early (RFC 8985 §7,
        /// draft-nielsen-tsvwg-sctp-tlr).
        tail_loss_probe: bool = false
            => Key::new(
                "tail_loss_probe",
                Takes::Flag,
                "Probe a silent path after two round-trip times (RFC 8985 §7), and let it time out early if other \
                 paths are not silent.",
            );
        /// Number of consecutive errors after which the association ends (Association.Max.Retrans).
        association_max_retrans: u32 = 10
            => Key::new(
                "association_max_retrans",
                Takes::Integer { min: 0, max: 1000 },
                "Consecutive errors, over all destinations, after which the association ends (Association.Max.Retrans).",
            );
        /// Maximum number of retransmissions of INIT and of COOKIE ECHO (Max.Init.Retransmits).
        init_max_retrans: u32 = 8
            => Key::new(
                "init_max_retrans",
                Takes::Integer { min: 0, max: 1000 },
                "Attempts to open the association that may fail (Max.Init.Retransmits).",
            );
        /// Lifetime of a state cookie (Valid.Cookie.Life).
        cookie_life: Duration = Duration::from_secs(60);
        /// Number of missing reports after which a chunk is lost (RFC 9260 §7.2.4: 3).
        missing_reports: u32 = 3;
        /// Maximum number of packets of new data that one event releases on a path (Max.Burst, RFC 9260 §6.1 D);
        /// `None` for no limit.
        max_burst: Option<u32> = Some(4)
            => Key::new(
                "max_burst",
                Takes::Either(&[Takes::Flag, Takes::Integer { min: 1, max: 1000 }]),
                "Maximum number of packets of new data per event on a path (Max.Burst, RFC 9260 §6.1). `false` is no \
                 limit, `true` is the default.",
            );
        /// Permit a packet while any part of the window is free, so that up to one packet less one byte is in flight
        /// beyond the window (RFC 9260 §6.1 B). If this is false, a packet must fit the window, as with TCP. The
        /// difference is one packet per path; with small windows it decides the shares of a common bottleneck.
        overshoot: bool = false
            => Key::new(
                "overshoot",
                Takes::Flag,
                "A packet may leave while the congestion window has any room at all (RFC 9260 §6.1 B). Otherwise the \
                 whole packet must fit, as with TCP.",
            );
        /// Maximum number of packets by which one acknowledgement opens the window of a path in slow start (L of RFC
        /// 9260 §7.2.1, where it should be 1, and of RFC 3465 §2.2); `None` for the number of packets that it
        /// acknowledges.
        abc_limit: Option<u32> = Some(1)
            => ABC_LIMIT;
        /// Interval at which each path sends network control chunks to its routers (Becke2014 §8.1.2). If
        /// this is `None`, this end sends none and answers none of the peer's.
        network_control: Option<Duration> = None
            => NETWORK_CONTROL;
        /// Minimum of the slow-start threshold after an uncoupled reaction to a loss, packets (RFC 9260 §7.2.3: 4).
        ssthresh_floor: u32 = Rules::Sctp.floor()
            => SSTHRESH_FLOOR;
        /// Delay data that does not fill a packet while other data is in flight (Nagle's algorithm, RFC 9260 §6.1).
        nagle: bool = true
            => NAGLE.unless_default();
        /// Initial slow-start threshold, bytes; `u64::MAX` for none (RFC 9260 §7.2.1: arbitrarily high).
        initial_ssthresh: u64 = u64::MAX;
        /// Offer and use partial reliability (RFC 3758): this end may abandon messages, and skips messages that the
        /// peer abandons.
        partial_reliability: bool = false;
        /// Offer and use re-configuration (RFC 6525): streams are reset and added, also at the peer's request.
        reconfiguration: bool = false;
        /// Accept user data and its acknowledgements only with authentication (RFC 4895): DATA, I-DATA, SACK,
        /// NR-SACK, FORWARD TSN and I-FORWARD-TSN. If the peer does not support authentication, the association uses
        /// none. Chunks that the peer requires to be authenticated are authenticated if this or
        /// [`asconf`](Self::asconf) is set.
        authenticate_data: bool = false;
        /// The secret that both ends share for authentication (endpoint pair shared key 0, RFC 4895 §5.1). If it is
        /// empty, an eavesdropper on the handshake can compute the authentication codes.
        shared_key: Box<[u8]> = Box::default();
        /// The error detection method of the lower layer (RFC 9653 §4; 1: SCTP over DTLS), or `None` if the lower
        /// layer detects no errors. With a method, this end accepts packets without a checksum, and sends such
        /// packets to a peer that announces the same method.
        error_detection: Option<u32> = None;
        /// Source of the characteristics of paths for the scheduler `nca`.
        information: Information = Information::Scenario
            => Key::new(
                "information",
                Takes::OneOf(words::<Information>),
                "Experimental: for the scheduler `nca`, the source of the paths' rates, delays and losses; mptcp always \
                 takes them from the scenario. `\"chunk\"` needs `network_control`.",
            )
            .only(Protocols::CMT_SCTP)
            .part(Part::Multipath)
            .unless_default();
        /// Characteristics of paths; empty if they are unknown.
        known_paths: Arc<[KnownPath]> = Arc::default();
        /// Pairs of a local and a remote address without a route: no packet is sent between them.
        unroutable: Vec<(IpAddr, IpAddr)> = Vec::new();
    }
}

impl Config {
    /// The default with another congestion control and scheduler.
    pub fn new(congestion: Choice, scheduler: &'static scheduler::Entry) -> Self {
        Self { congestion, scheduler, ..Self::default() }
    }

    /// True if every path carries a copy of all data.
    pub fn sends_copies(&self) -> bool {
        self.cmt && (self.scheduler.build)().duplicates()
    }

    /// The default of CMT-SCTP, with LIA.
    pub fn for_cmt() -> Self {
        let congestion = Choice::find("lia").expect("the name is in the table");
        Self { congestion, ..Self::default().with_cmt() }
    }

    /// The characteristics of a path for the scheduler, if they come from the scenario and are known.
    pub fn information_of(&self, local: IpAddr, remote: IpAddr) -> Option<PathInformation> {
        let known = (self.information == Information::Scenario).then_some(&*self.known_paths)?;
        find(known, local, remote)
    }

    /// Replaces an address of either host by another on the same interface, which has the same routes.
    pub fn renumber(&mut self, old: IpAddr, new: IpAddr) {
        unroutable::renumber(&mut self.unroutable, old, new);
    }

    /// Enables concurrent multipath transfer and the options that suit several paths: delayed acknowledgement for
    /// CMT, tail-loss probes, acknowledgements over the nearest path that release data received out of order, and the
    /// mechanisms against blocked buffers.
    #[must_use]
    pub fn with_cmt(mut self) -> Self {
        self.cmt = true;
        self.dac = true;
        self.tail_loss_probe = true;
        self.sack_path = SackPath::Nearest;
        self.nr_sack = true;
        self.splitting.sides = Sides::Both;
        self.rescheduling = Rescheduling { sides: Sides::Both, threshold: 0.4 };
        self.penalisation = true;
        self
    }
}
