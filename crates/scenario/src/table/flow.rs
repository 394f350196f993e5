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
            Key::new("name", Shape::Name, JOINED, "A unique name: results show it, overrides use it."),
            Key::new("from", Shape::Name, Default::Required("\"A\""), "The sending host: a node of a link."),
            Key::new("to", Shape::Name, Default::Required("\"B\""), "The receiving host."),
            Key::new(
                "through",
                Shape::Name,
                Default::Nothing("straight to the receiving host"),
                "A host with a proxy, where the flow's connection ends; what it carries goes on to `to` over a TCP connection. \
                 The other keys of the flow and its paths are those of the connection to the proxy; the one behind it takes those \
                 that TCP has.",
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
    doc: "Takes the keys of a flow except its name and ends. A key reaches the flows whose protocol takes it.",
    keys: &[SETTINGS, TCP, MPTCP, SCTP],
};

static START: Section = Section {
    title: "start = { … }",
    doc: "A random start, another one for each seed, so that repetitions of what is not random otherwise differ.",
    keys: &[&[Key::new(
        "uniform",
        Shape::List { of: &Shape::Time { zero: true }, min: 2, max: 2 },
        Default::Required("[\"0 s\", \"1 s\"]"),
        "Uniform from the first moment to the second.",
    )]],
};

static SETTINGS: &[Key] = &[
    Key::new("protocol", Shape::OneOf(protocols), Default::Required("\"tcp\""), "The transport protocol."),
    Key::new(
        "start",
        Shape::Either(&[Shape::Time { zero: true }, Shape::Section(&START)]),
        Default::Is("\"0 s\""),
        "When the flow starts; before the end of the run.",
    ),
    Key::new(
        "stop",
        Shape::Time { zero: false },
        Default::Nothing("at the end of the run"),
        "When the application stops writing.",
    ),
    Key::new(
        "direction",
        Shape::OneOf(|| choices(FLOW_DIRECTIONS)),
        Default::Is("\"forward\""),
        "Which way the data goes; with `request-response` the requests. The `from` host connects in any case. Paths are \
         reported as the end sees them that writes; with `both` and for answers, what goes the other way has keys of its \
         own.",
    ),
    Key::new(
        "workload",
        Shape::Kinds(|| &WORKLOAD),
        Default::Is("{ kind = \"saturated\" }"),
        "What the application does. A udp flow must give one.",
    ),
    Key::new(
        "mtu",
        Shape::Octets { min: 576, max: 65_535 },
        Default::Nothing("from the links of each path"),
        "Largest IP packet the flow sends, in bytes.",
    ),
    Key::new(
        "congestion",
        Shape::OneOf(choices::congestion),
        Default::By(&[
            (Protocols::SINGLE_PATH, "\"reno\""),
            (Protocols::MPTCP, "\"lia\""),
            (Protocols::CMT_SCTP, "\"lia\""),
        ]),
        "Congestion control. The default is the one that the protocol's own specification prescribes. cmt-sctp has none, and \
         has the one of mptcp: `cmt-rpv2`, which was made for it, leaves a path one packet after a loss where two paths are \
         equal, and does not fill paths that share nothing.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "send_buffer",
        Shape::Buffer,
        Default::Is("\"4 MB\""),
        "Send buffer of the connection, shared by all of its paths. With `\"auto\"`, which only tcp has, it begins with \
         128 kB and grows with the congestion window, up to 64 MB.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "receive_buffer",
        Shape::Buffer,
        Default::Is("\"4 MB\""),
        "Receive buffer of the connection, shared by all of its paths. With `\"auto\"`, which only tcp has, it begins with \
         128 kB and grows with what is read in a round trip, up to 64 MB.",
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
        "Lower bound of the retransmission timeout: Linux's for TCP (the RFC's is 1 s), that of RFC 9260 for SCTP.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "rto_max",
        Shape::Time { zero: false },
        Default::Is("\"60 s\""),
        "Upper bound of the retransmission timeout, back-off included (RFC 6298, RFC 9260); not below the other two.",
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
        "Longest delay of an acknowledgement; every second segment is acknowledged at once. `false` acknowledges \
         every segment, `true` is the default.",
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
        "By how many packets one acknowledgement may open the window in slow start (L of RFC 3465 §2.2 and RFC 9260 §7.2.1; \
         RFC 5681: 1). `false` is no limit, as in Linux, and `true` the default of the protocol.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "ssthresh_floor",
        Shape::Integer { min: 1, max: 1000 },
        Default::By(&[(Protocols::ANY_TCP, "2"), (Protocols::ANY_SCTP, "4")]),
        "Lowest slow-start threshold that a loss leaves with `reno` and `cubic`, in packets (RFC 5681 eq. 4, RFC 9260 §7.2.3; \
         Becke2014 §2.2.4.1 has 4 for TCP too). Coupled controls leave one at least.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "whole_packets",
        Shape::Flag,
        Default::Is("false"),
        "The congestion window counts whole segments, as in Linux: it grows once there is enough for one, what is left of one \
         goes when it shrinks, and a loss leaves two at least; `olia`, `cmt-rpv1` and `cmt-rpv2` go on counting through it. \
         Not for `bbr`.",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "recovery",
        Shape::OneOf(|| choices(RECOVERIES)),
        Default::Is("\"rack\""),
        "How lost segments are found and repaired.",
    )
    .only(Protocols::ANY_TCP),
    Key::new("timestamps", Shape::Flag, Default::Is("true"), "Use timestamps (RFC 7323).").only(Protocols::ANY_TCP),
    Key::new(
        "nagle",
        Shape::Flag,
        Default::By(&[(Protocols::ANY_TCP, "false"), (Protocols::ANY_SCTP, "true")]),
        "Nagle's algorithm: data that does not fill a packet waits while other data is in flight (RFC 9260 §6.1). Set it to \
         `false` for messages that are small and urgent.",
    )
    .only(Protocols::CONNECTED),
    Key::new(
        "keepalive",
        Shape::Either(&[Shape::Flag, Shape::Time { zero: false }]),
        Default::Is("false"),
        "After so long a silence each end asks the other whether it lives, and after nine questions without an answer it \
         gives up (RFC 9293 §3.8.4). `true` is two hours.",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "user_timeout",
        Shape::Time { zero: false },
        Default::Nothing("as long as retransmissions take"),
        "Gives the other end up if it acknowledges nothing of what it owes for so long (RFC 5482).",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "initial_path",
        Shape::Either(&[Shape::Name, Shape::List { of: &Shape::Name, min: 1, max: 2 }]),
        Default::Nothing("the first that a route leads to"),
        "The path that tcp takes, and that mptcp begins on: the name of a link of either host, whose address is used, or of \
         one of each host.",
    )
    .only(Protocols::ANY_TCP),
];

static MPTCP: &[Key] = &[
    Key::new(
        "scheduler",
        Shape::OneOf(choices::schedulers),
        Default::Is("\"lowest-rtt\""),
        "Which subflow carries the next packet.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "slow_start",
        Shape::OneOf(|| choices(SLOW_STARTS)),
        Default::Is("\"rfc\""),
        "Slow start of `lia`; the other controls have one only.",
    )
    .only(Protocols::MULTIPATH),
    Key::new(
        "couple",
        Shape::OneOf(|| choices(COUPLINGS)),
        Default::Is("\"all\""),
        "Which of its paths a coupled congestion control couples. The one-way delays from which shared bottlenecks are found \
         come from timestamps; without `timestamps` round-trip times stand in for them. What it does is in \
         shared-bottlenecks.md.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "paths",
        Shape::PathManager,
        Default::Is("\"fullmesh\""),
        "Path manager: which pairs of addresses carry a subflow, at most 64. Pairs that no route connects are left \
         out.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "opportunistic_retransmission",
        Shape::Flag,
        Default::Is("true"),
        "While a full receive or send buffer lets nothing new leave, resend on a faster subflow what slower ones have under \
         way (Raiciu2012). What the default was chosen by is in mptcp.md.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "penalisation",
        Shape::Either(&[Shape::Flag, Shape::OneOf(|| choices(PENALISATIONS))]),
        Default::Is("true"),
        "Halve the window of the subflow that held up a full buffer, at most once a round trip (Raiciu2012): of one that does not \
         carry more than the other, or of `\"any\"`, as the publication has it.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "mechanisms_in_start_up",
        Shape::Flag,
        Default::Is("true"),
        "Opportunistic retransmission and penalisation, with CMT-SCTP buffer splitting, chunk rescheduling and penalisation, from \
         the beginning. `false`: only once the window of the fastest path has reached its maximum, which is when it has \
         shrunk for the first time or is as large as the buffers (Becke2014 §8.1.1.3).",
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
        "Links of the two hosts whose addresses are used only while no other path works (MP_PRIO).",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "syn_retransmission",
        Shape::OneOf(|| choices(SYN_RETRANSMISSIONS)),
        Default::Is("\"single\""),
        "Over which pair of addresses an unanswered SYN of a connection is repeated. `\"multipath\"` tries each own address with \
         the destination in turn, each for `rto_initial`, and doubles that from round to round; a pair that a router calls \
         unreachable is left at once, the last of a round excepted. The host remembers on which pairs its connections came \
         about: later ones to the same address begin there.",
    )
    .only(Protocols::MPTCP),
    Key::new(
        "syn_pairs",
        Shape::Integer { min: 1, max: 64 },
        Default::Is("64"),
        "With `syn_retransmission = \"multipath\"`, on how many pairs of addresses a connection is tried at most.",
    )
    .only(Protocols::MPTCP),
];

static SCTP: &[Key] = &[
    Key::new(
        "scheduler",
        Shape::OneOf(choices::turn_taking_schedulers),
        Default::Is("\"round-robin\""),
        "Which path carries the next packet of an association with concurrent multipath transfer.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "paths",
        Shape::OneOf(|| choices(SCTP_PATHS)),
        Default::Is("\"destination\""),
        "What a path of the association is.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "initial_path",
        Shape::Either(&[
            Shape::Integer { min: 0, max: 254 },
            Shape::Name,
            Shape::List { of: &Shape::Name, min: 2, max: 2 },
        ]),
        Default::Nothing("the first that a route leads to"),
        "The destination that the association starts on: the name of a link of the receiving host, or its index \
         among them, from 0. Names of a link of each host are the pair of addresses that it starts on: the other \
         destinations then get the other sources.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "nr_sack",
        Shape::Flag,
        Default::By(&[(Protocols::SCTP, "false"), (Protocols::CMT_SCTP, "true")]),
        "Non-renegable selective acknowledgements: what is received out of order leaves the send buffer at once.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "buffer_splitting",
        Shape::OneOf(|| choices(SPLITTINGS)),
        Default::By(&[(Protocols::SCTP, "\"none\""), (Protocols::CMT_SCTP, "\"both\"")]),
        "Which buffers are split among the paths, so that a slow one cannot occupy them (Adhari2011).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "splitting_on",
        Shape::OneOf(|| choices(SPLITTING_ON)),
        Default::Is("\"outstanding\""),
        "Which bytes count against a path's share.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "chunk_rescheduling",
        Shape::Either(&[Shape::Flag, Shape::Number { min: 0.0, max: 1.0 }]),
        Default::By(&[(Protocols::SCTP, "false"), (Protocols::CMT_SCTP, "0.4")]),
        "Resend on another path what blocks a nearly full buffer, from this share of the buffer on; `true` is 0.5. What the \
         default was chosen by is in cmt-sctp.md.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "penalisation",
        Shape::Flag,
        Default::Is("true"),
        "Halve the window of a path whose chunks are rescheduled for longer than a round trip, at most once in one.",
    )
    .only(Protocols::CMT_SCTP),
    Key::new("ordered", Shape::Flag, Default::Is("true"), "Ordered delivery within each stream.")
        .only(Protocols::ANY_SCTP),
    Key::new(
        "streams",
        Shape::Integer { min: 1, max: 65_535 },
        Default::Is("1"),
        "Number of streams; messages use them in turn.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "sack_delay",
        Shape::Time { zero: true },
        Default::Is("\"200 ms\""),
        "Longest delay of a SACK; every second packet is answered at once.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "immediate_sack",
        Shape::OneOf(|| choices(IMMEDIATE_SACKS)),
        Default::Is("\"end\""),
        "When a sender asks for a SACK that is not delayed, by the I bit of its chunk (RFC 7053).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "sack_path",
        Shape::OneOf(|| choices(SACK_PATHS)),
        Default::By(&[(Protocols::SCTP, "\"last\""), (Protocols::CMT_SCTP, "\"nearest\"")]),
        "Where a SACK goes that answers packets which came on different paths (RFC 9260 §6.4).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "retransmission",
        Shape::OneOf(|| choices(RETRANSMISSIONS)),
        Default::Is("\"alternate\""),
        "Which path carries what was lost.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "stream_scheduler",
        Shape::OneOf(|| choices(STREAM_SCHEDULERS)),
        Default::Is("\"fcfs\""),
        "Which stream's message goes out next.",
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
        "Find the MTU of each path by probes (RFC 8899), from 1,220 bytes upwards (1,280 with IPv6), where routers may drop \
         long packets in silence.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "udp_encapsulation",
        Shape::Flag,
        Default::Is("false"),
        "Carry SCTP in UDP between ports 9899 (RFC 6951): 8 bytes more a packet.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "heartbeat_interval",
        Shape::Either(&[Shape::Flag, Shape::Time { zero: false }]),
        Default::Is("\"30 s\""),
        "Time between heartbeats to an idle destination, beside its retransmission timeout (HB.interval). `false` \
         sends none but those that confirm a path, `true` is the default.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "path_max_retrans",
        Shape::Integer { min: 0, max: 1000 },
        Default::Is("5"),
        "Errors in a row after which a destination is inactive (Path.Max.Retrans).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "potentially_failed_threshold",
        Shape::Either(&[Shape::Flag, Shape::Integer { min: 0, max: 1000 }]),
        Default::Is("0"),
        "Errors in a row above which a destination is potentially failed (PotentiallyFailed.Max.Retrans, RFC 7829): it \
         carries no data while another can, and is asked by heartbeats until it answers. `false` does without, `true` is \
         the default.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "tail_loss_probe",
        Shape::Flag,
        Default::By(&[(Protocols::SCTP, "false"), (Protocols::CMT_SCTP, "true")]),
        "Probe a path from which nothing is heard after two round-trip times (RFC 8985 §7), and let it time out early while \
         others are heard from.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "association_max_retrans",
        Shape::Integer { min: 0, max: 1000 },
        Default::Is("10"),
        "Errors in a row, over all destinations, after which the association ends (Association.Max.Retrans).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "init_max_retrans",
        Shape::Integer { min: 0, max: 1000 },
        Default::Is("8"),
        "Attempts at opening the association that may fail (Max.Init.Retransmits).",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "max_burst",
        Shape::Either(&[Shape::Flag, Shape::Integer { min: 1, max: 1000 }]),
        Default::Is("4"),
        "Packets of new data that one event may release on a path (Max.Burst, RFC 9260 §6.1). `false` is no limit, \
         `true` is the default.",
    )
    .only(Protocols::ANY_SCTP),
    Key::new(
        "overshoot",
        Shape::Flag,
        Default::Is("false"),
        "A packet may leave while the congestion window has any room at all (RFC 9260 §6.1 B). Otherwise it must fit, \
         as with TCP.",
    )
    .only(Protocols::ANY_SCTP),
];
