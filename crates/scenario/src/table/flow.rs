//! Keys of flows, by protocol.

use super::{JOINED, WORKLOAD, protocols};
use crate::choices::{
    self, COUPLINGS, FLOW_DIRECTIONS, IMMEDIATE_SACKS, PENALISATIONS, Protocols, RECOVERIES, RETRANSMISSIONS,
    SACK_PATHS, SCTP_PATHS, SLOW_STARTS, SPLITTING_ON, SPLITTINGS, STREAM_SCHEDULERS, SYN_RETRANSMISSIONS,
    choices,
};
use crate::keys::{Default, Key, Section, Shape};

/// `[[flow]]`.
pub(crate) static FLOW: Section = Section {
    title: "[[flow]]",
    doc: "A flow of data from one host to another.",
    keys: &[
        &[
            Key::new("name", Shape::Name, JOINED, "A unique name for results and overrides."),
            Key::new("from", Shape::Name, Default::Required("\"A\""), "The sending host: a node of a link."),
            Key::new("to", Shape::Name, Default::Required("\"B\""), "The receiving host."),
            Key::new(
                "through",
                Shape::Name,
                Default::Nothing("directly to the receiving host"),
                "A host with a proxy, at which the flow's connection ends; a TCP connection carries the data \
                 on to `to`. The other keys of the flow and its paths belong to the connection to the proxy; \
                 the connection behind it uses those that TCP has.",
            )
            .only(Protocols::ANY_TCP),
        ],
        SETTINGS,
        TCP,
        MPTCP,
        SCTP,
    ],
};

/// `[flow_defaults]`.
pub(crate) static FLOW_DEFAULTS: Section = Section {
    title: "[flow_defaults]",
    doc: "Takes the keys of a flow except its name and ends. A key applies to the flows whose protocol has it.",
    keys: &[SETTINGS, TCP, MPTCP, SCTP],
};

static START: Section = Section {
    title: "start = { … }",
    doc: "A random start, drawn for each seed, so that repetitions without other randomness differ.",
    keys: &[&[Key::new(
        "uniform",
        Shape::List { of: &Shape::Time { zero: true }, min: 2, max: 2 },
        Default::Required("[\"0 s\", \"1 s\"]"),
        "Uniform between the two times.",
    )]],
};

static SETTINGS: &[Key] = &[
    Key::new("protocol", Shape::OneOf(protocols), Default::Required("\"tcp\""), "The transport protocol."),
    Key::new(
        "start",
        Shape::Either(&[Shape::Time { zero: true }, Shape::Section(&START)]),
        Default::Is("\"0 s\""),
        "Start of the flow; before the end of the run.",
    ),
    Key::new(
        "stop",
        Shape::Time { zero: false },
        Default::Nothing("at the end of the run"),
        "The time at which the application stops writing.",
    ),
    Key::new(
        "direction",
        Shape::OneOf(|| choices(FLOW_DIRECTIONS)),
        Default::Is("\"forward\""),
        "Direction of the data; with `request-response`, of the requests. The `from` host connects in any \
         case. Paths are reported from the point of view of the writing host; the opposite data of `both`, \
         and responses, have their own keys in results.",
    ),
    Key::new(
        "workload",
        Shape::Kinds(|| &WORKLOAD),
        Default::Is("{ kind = \"saturated\" }"),
        "Workload of the application. Required for udp.",
    ),
    Key::new(
        "mtu",
        Shape::Octets { min: 576, max: 65_535 },
        Default::Nothing("from the links of each path"),
        "Largest IP packet of the flow, in bytes.",
    ),
    Key::new(
        "congestion",
        Shape::OneOf(choices::congestion),
        Default::By(&[
            (Protocols::SINGLE_PATH, "\"reno\""),
            (Protocols::MPTCP, "\"lia\""),
            (Protocols::CMT_SCTP, "\"lia\""),
        ]),
        "Congestion control. The default is that of the protocol's specification. cmt-sctp has none and uses that of \
         mptcp: after a loss on one of two equal paths, `cmt-rpv2`, which was designed for it, leaves one packet, and \
         does not fill separate paths.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "send_buffer",
        Shape::Buffer,
        Default::Is("\"4 MB\""),
        "Send buffer of the connection, shared by all of its paths. With `\"auto\"`, for tcp only, it begins \
         with 128 kB and grows with the congestion window, up to 64 MB.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "receive_buffer",
        Shape::Buffer,
        Default::Is("\"4 MB\""),
        "Receive buffer of the connection, shared by all of its paths. With `\"auto\"`, for tcp only, it \
         begins with 128 kB and grows with the bytes read per round trip, up to 64 MB.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "rto_initial",
        Shape::Time { zero: false },
        Default::Is("\"1 s\""),
        "Retransmission timeout before the first sample (RFC 6298, RFC 9260).",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "rto_min",
        Shape::Time { zero: false },
        Default::By(&[(Protocols::ANY_TCP, "\"200 ms\""), (Protocols::ANY_SCTP, "\"1 s\"")]),
        "Lower bound of the retransmission timeout: Linux's for TCP (that of the RFC is 1 s), that of RFC \
         9260 for SCTP.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "rto_max",
        Shape::Time { zero: false },
        Default::Is("\"60 s\""),
        "Upper bound of the retransmission timeout, back-off included (RFC 6298, RFC 9260); at least the \
         other two.",
    )
    .only(Protocols::CONNECTED),
    Key::new("ecn", Shape::Flag, Default::Is("false"), "Use ECN (RFC 3168; RFC 4960 appendix A for SCTP).")
        .only(Protocols::CONNECTED),
];

static TCP: &[Key] = &[
    Key::new(
        "delayed_ack",
        Shape::Either(&[Shape::Flag, Shape::Time { zero: false }]),
        Default::Is("\"40 ms\""),
        "Maximum delay of an acknowledgement; every second segment is acknowledged at once. `false` \
         acknowledges every segment, `true` is the default.",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "initial_window",
        Shape::Integer { min: 1, max: 1000 },
        Default::Is("10"),
        "Initial congestion window, in segments (RFC 6928).",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "abc_limit",
        Shape::Either(&[Shape::Flag, Shape::Integer { min: 1, max: 1000 }]),
        Default::By(&[(Protocols::ANY_TCP, "false"), (Protocols::ANY_SCTP, "1")]),
        "Maximum growth of the window per acknowledgement in slow start, in packets (L of RFC 3465 §2.2 and \
         RFC 9260 §7.2.1; RFC 5681: 1). `false` is no limit, as in Linux, and `true` the default of the \
         protocol.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "ssthresh_floor",
        Shape::Integer { min: 1, max: 1000 },
        Default::By(&[(Protocols::ANY_TCP, "2"), (Protocols::ANY_SCTP, "4")]),
        "Lowest slow-start threshold after a loss with `reno` and `cubic`, in packets (RFC 5681 eq. 4, RFC \
         9260 §7.2.3; Becke2014 §2.2.4.1 has 4 for TCP too). With coupled controls it is at least one.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "whole_packets",
        Shape::Flag,
        Default::Is("false"),
        "The congestion window counts whole segments, as in Linux: fractions accumulate to a whole segment, \
         a reduction removes them, and the window after a loss is at least two segments. `olia`, `cmt-rpv1` \
         and `cmt-rpv2` keep their count of acknowledgements across a loss. Not for `bbr`.",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "recovery",
        Shape::OneOf(|| choices(RECOVERIES)),
        Default::Is("\"rack\""),
        "Detection and repair of lost segments.",
    )
    .only(Protocols::ANY_TCP),
    Key::new("timestamps", Shape::Flag, Default::Is("true"), "Use timestamps (RFC 7323).").only(Protocols::ANY_TCP),
    Key::new(
        "nagle",
        Shape::Flag,
        Default::By(&[(Protocols::ANY_TCP, "false"), (Protocols::ANY_SCTP, "true")]),
        "Use Nagle's algorithm: data that does not fill a packet waits while other data is in flight (RFC 9260 §6.1). \
         `false` suits small urgent messages.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "keepalive",
        Shape::Either(&[Shape::Flag, Shape::Time { zero: false }]),
        Default::Is("false"),
        "Idle time after which each end sends a keepalive probe; after nine unanswered probes it aborts the \
         connection (RFC 9293 §3.8.4). `true` is two hours.",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "user_timeout",
        Shape::Time { zero: false },
        Default::Nothing("until the limit of retransmissions"),
        "Time without acknowledgement of outstanding data after which the connection is aborted (RFC 5482).",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "initial_path",
        Shape::Either(&[Shape::Name, Shape::List { of: &Shape::Name, min: 1, max: 2 }]),
        Default::Nothing("the first connected by a route"),
        "The path of tcp, and the first path of mptcp: the name of a link of either host, whose address is \
         used, or of one link of each host.",
    )
    .only(Protocols::ANY_TCP),
];

static MPTCP: &[Key] = &[
    Key::new(
        "scheduler",
        Shape::OneOf(choices::schedulers),
        Default::Is("\"lowest-rtt\""),
        "Selects the subflow of the next packet.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "slow_start",
        Shape::OneOf(|| choices(SLOW_STARTS)),
        Default::Is("\"rfc\""),
        "Slow start of `lia`; the other controls have only one variant.",
    )
    .only(Protocols::MULTIPATH),
    Key::new(
        "couple",
        Shape::OneOf(|| choices(COUPLINGS)),
        Default::Is("\"all\""),
        "The paths that a coupled congestion control couples. Shared bottlenecks are detected from one-way \
         delays, which need `timestamps`; without them, round-trip times are used. Results are in \
         shared-bottlenecks.md.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "paths",
        Shape::PathManager,
        Default::Is("\"fullmesh\""),
        "Path manager: the pairs of addresses with a subflow, at most 64. Pairs without a route between them \
         are left out.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "opportunistic_retransmission",
        Shape::Flag,
        Default::Is("true"),
        "While a full receive or send buffer blocks new data, retransmit the data in flight of slower \
         subflows on a faster one (Raiciu2012). mptcp.md gives the reasons of the default.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "penalisation",
        Shape::Either(&[Shape::Flag, Shape::OneOf(|| choices(PENALISATIONS))]),
        Default::Is("true"),
        "Halve the window of the subflow that blocked a full buffer, at most once per round trip \
         (Raiciu2012): only if it is not faster than the other one, or with `\"any\"` always, as in the \
         publication.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "mechanisms_in_start_up",
        Shape::Flag,
        Default::Is("true"),
        "Use opportunistic retransmission and penalisation (with cmt-sctp: buffer splitting, chunk \
         rescheduling and penalisation) from the beginning. `false`: only once the window of the fastest \
         path has reached its maximum, that is, has shrunk for the first time or is as large as the buffers \
         (Becke2014 §8.1.1.3).",
    )
    .only(Protocols::MULTIPATH),
    Key::new(
        "dss_checksum",
        Shape::Flag,
        Default::Is("false"),
        "Require checksums of the mappings between subflows and data (RFC 8684 §3.3).",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "backup",
        Shape::List { of: &Shape::Name, min: 0, max: 255 },
        Default::Is("[]"),
        "Links of the two hosts whose addresses are used only while no other path is usable (MP_PRIO).",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "syn_retransmission",
        Shape::OneOf(|| choices(SYN_RETRANSMISSIONS)),
        Default::Is("\"single\""),
        "The pair of addresses on which an unanswered SYN is repeated. `\"multipath\"` tries each local \
         address with the destination in turn, each for `rto_initial`, which doubles from round to round; a \
         pair that a router reports as unreachable is left at once, except the last of a round. The host \
         remembers the pairs of its established connections: later connections to the same address begin \
         there.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "syn_pairs",
        Shape::Integer { min: 1, max: 64 },
        Default::Is("64"),
        "With `syn_retransmission = \"multipath\"`, the maximum number of pairs of addresses that a connection tries.",
    )
    .only(Protocols::MPTCP),
];

static SCTP: &[Key] = &[
    Key::new(
        "scheduler",
        Shape::OneOf(choices::turn_taking_schedulers),
        Default::Is("\"round-robin\""),
        "Selects the path of the next packet of an association with concurrent multipath transfer.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "paths",
        Shape::OneOf(|| choices(SCTP_PATHS)),
        Default::Is("\"destination\""),
        "Definition of the association's paths.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "initial_path",
        Shape::Either(&[
            Shape::Integer { min: 0, max: 254 },
            Shape::Name,
            Shape::List { of: &Shape::Name, min: 2, max: 2 },
        ]),
        Default::Nothing("the first connected by a route"),
        "The first destination of the association: the name of a link of the receiving host, or its index \
         among them, from 0. The names of one link of each host are the first pair of addresses: the other \
         destinations then get the other sources.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "nr_sack",
        Shape::Flag,
        Default::By(&[(Protocols::SCTP, "false"), (Protocols::CMT_SCTP, "true")]),
        "Non-renegable selective acknowledgements: data received out of order leaves the send buffer at once.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "buffer_splitting",
        Shape::OneOf(|| choices(SPLITTINGS)),
        Default::By(&[(Protocols::SCTP, "\"none\""), (Protocols::CMT_SCTP, "\"both\"")]),
        "The buffers that are split among the paths, so that a slow path cannot fill them (Adhari2011).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "splitting_on",
        Shape::OneOf(|| choices(SPLITTING_ON)),
        Default::Is("\"outstanding\""),
        "The bytes that count against a path's share.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "chunk_rescheduling",
        Shape::Either(&[Shape::Flag, Shape::Number { min: 0.0, max: 1.0 }]),
        Default::By(&[(Protocols::SCTP, "false"), (Protocols::CMT_SCTP, "0.4")]),
        "Retransmit on another path the chunk that blocks a nearly full buffer, from this share of the \
         buffer on; `true` is 0.5. cmt-sctp.md gives the reasons of the default.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "penalisation",
        Shape::Flag,
        Default::Is("true"),
        "Halve the window of a path whose chunks are rescheduled for longer than a round trip, at most once \
         per round trip.",
    )
    .only(Protocols::CMT_SCTP),
    Key::new("ordered", Shape::Flag, Default::Is("true"), "Deliver messages in order within each stream.")
        .only(Protocols::ANY_SCTP),
    Key::new(
        "streams",
        Shape::Integer { min: 1, max: 65_535 },
        Default::Is("1"),
        "Number of streams, which messages use in turn.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "sack_delay",
        Shape::Time { zero: true },
        Default::Is("\"200 ms\""),
        "Maximum delay of a SACK; every second packet is acknowledged at once.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "immediate_sack",
        Shape::OneOf(|| choices(IMMEDIATE_SACKS)),
        Default::Is("\"end\""),
        "When a sender requests an immediate SACK by the I bit of its chunk (RFC 7053).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "sack_path",
        Shape::OneOf(|| choices(SACK_PATHS)),
        Default::By(&[(Protocols::SCTP, "\"last\""), (Protocols::CMT_SCTP, "\"nearest\"")]),
        "The path of a SACK for packets that arrived on different paths (RFC 9260 §6.4).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "retransmission",
        Shape::OneOf(|| choices(RETRANSMISSIONS)),
        Default::Is("\"alternate\""),
        "The path of retransmissions.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "stream_scheduler",
        Shape::OneOf(|| choices(STREAM_SCHEDULERS)),
        Default::Is("\"fcfs\""),
        "Selects the stream whose message is sent next.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "i_data",
        Shape::Flag,
        Default::Is("false"),
        "Offer I-DATA (RFC 8260): messages of different streams may interleave.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new("asconf", Shape::Flag, Default::Is("false"), "Offer address reconfiguration (RFC 5061).")
        .only(Protocols::ANY_SCTP),
    Key::new(
        "pmtu_discovery",
        Shape::Flag,
        Default::Is("false"),
        "Probe the MTU of each path (RFC 8899), from 1,220 bytes upwards (1,280 with IPv6), for networks \
         whose routers drop long packets silently.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "udp_encapsulation",
        Shape::Flag,
        Default::Is("false"),
        "Carry SCTP in UDP between ports 9899 (RFC 6951): 8 more bytes per packet.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "heartbeat_interval",
        Shape::Either(&[Shape::Flag, Shape::Time { zero: false }]),
        Default::Is("\"30 s\""),
        "Time between heartbeats to an idle destination, in addition to its retransmission timeout \
         (HB.interval). `false` sends only heartbeats that confirm a path, `true` is the default.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "path_max_retrans",
        Shape::Integer { min: 0, max: 1000 },
        Default::Is("5"),
        "Consecutive errors after which a destination is inactive (Path.Max.Retrans).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "potentially_failed_threshold",
        Shape::Either(&[Shape::Flag, Shape::Integer { min: 0, max: 1000 }]),
        Default::Is("0"),
        "Consecutive errors above which a destination is potentially failed (PotentiallyFailed.Max.Retrans, \
         RFC 7829): it carries no data while another one can, and gets heartbeats until it answers. `false` \
         disables the state, `true` is the default.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "tail_loss_probe",
        Shape::Flag,
        Default::By(&[(Protocols::SCTP, "false"), (Protocols::CMT_SCTP, "true")]),
        "Probe a silent path after two round-trip times (RFC 8985 §7), and let it time out early if other \
         paths are not silent.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "association_max_retrans",
        Shape::Integer { min: 0, max: 1000 },
        Default::Is("10"),
        "Consecutive errors, over all destinations, after which the association ends (Association.Max.Retrans).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "init_max_retrans",
        Shape::Integer { min: 0, max: 1000 },
        Default::Is("8"),
        "Attempts to open the association that may fail (Max.Init.Retransmits).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "max_burst",
        Shape::Either(&[Shape::Flag, Shape::Integer { min: 1, max: 1000 }]),
        Default::Is("4"),
        "Maximum number of packets of new data per event on a path (Max.Burst, RFC 9260 §6.1). `false` is no \
         limit, `true` is the default.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "overshoot",
        Shape::Flag,
        Default::Is("false"),
        "A packet may leave while the congestion window has any room at all (RFC 9260 §6.1 B). Otherwise the \
         whole packet must fit, as with TCP.",
    )
    .only(Protocols::ANY_SCTP),
];
