//! Keys of workloads and message sizes.

use crate::choices::{DISTRIBUTIONS, LENGTHS, choices};
use crate::keys::{Default, Key, Kind, Kinds, Section, Shape};
use crate::model::MAX_OPEN;

/// Workloads of applications.
pub(crate) static WORKLOAD: Kinds = Kinds {
    tag: "kind",
    what: "workload",
    default: None,
    all: &[
        Kind {
            name: "saturated",
            source: "",
            section: Section {
                title: "workload = { kind = \"saturated\", … }",
                doc: "writes whenever the send buffer has room; not for udp, which has no feedback",
                keys: &[&[STREAM_MESSAGE]],
            },
        },
        Kind {
            name: "file",
            source: "",
            section: Section {
                title: "workload = { kind = \"file\", … }",
                doc: "writes `size` bytes, then closes; not for udp",
                keys: &[&[
                    Key::new(
                        "size",
                        MESSAGE_SIZE,
                        Default::Required("\"10 MB\""),
                        "Number of bytes: one size, or a distribution as for `message`, from which each connection \
                         draws its size.",
                    ),
                    STREAM_MESSAGE,
                    Key::new(
                        "arrivals",
                        Shape::Section(|| &ARRIVALS),
                        Default::Nothing("one connection"),
                        "Connections that begin during the run, each with its own file.",
                    ),
                ]],
            },
        },
        Kind {
            name: "rate",
            source: "",
            section: Section {
                title: "workload = { kind = \"rate\", … }",
                doc: "writes messages at a constant rate",
                keys: &[&[
                    Key::new(
                        "rate",
                        Shape::Rate { zero: false },
                        Default::Required("\"2 Mbit/s\""),
                        "Rate of application bytes.",
                    ),
                    SIZED_MESSAGE,
                ]],
            },
        },
        Kind {
            name: "on-off",
            source: "",
            section: Section {
                title: "workload = { kind = \"on-off\", … }",
                doc: "alternates between writing and silence",
                keys: &[&[
                    Key::new(
                        "on",
                        Shape::Time { zero: false },
                        Default::Nothing("`periods`"),
                        "Mean length of a burst.",
                    ),
                    Key::new(
                        "off",
                        Shape::Time { zero: false },
                        Default::Nothing("`periods`"),
                        "Mean length of a silence.",
                    ),
                    Key::new(
                        "distribution",
                        Shape::OneOf(|| choices(LENGTHS)),
                        Default::Is("\"constant\""),
                        "Distribution of the lengths of bursts and silences.",
                    ),
                    Key::new(
                        "shape",
                        Shape::Above { min: 1.0 },
                        Default::Nothing("1.5 with `pareto`"),
                        "Shape of a Pareto distribution, at most 2: the minimum is mean · (shape − 1) / shape, and a \
                         smaller shape gives a heavier tail. The sum of many such sources is self-similar.",
                    ),
                    Key::new(
                        "periods",
                        Shape::List {
                            of: &Shape::List { of: &Shape::Time { zero: true }, min: 2, max: 2 },
                            min: 1,
                            max: 65_535,
                        },
                        Default::Nothing("`on` and `off`"),
                        "Start and end of each burst, times of the run in ascending order, instead of `on` and `off`: \
                         `[[\"1 s\", \"5 s\"], [\"7 s\", \"8 s\"]]`. The application closes after the last one.",
                    ),
                    Key::new(
                        "rate",
                        Shape::Rate { zero: false },
                        Default::Nothing("saturated"),
                        "Rate within a burst; required for udp. Without it the application fills the send \
                         buffer during a burst, and buffered data continues to leave in the silence: for \
                         real silences, the connection must empty the send buffer in much less than `off`.",
                    ),
                    SIZED_MESSAGE,
                ]],
            },
        },
        Kind {
            name: "messages",
            source: "",
            section: Section {
                title: "workload = { kind = \"messages\", … }",
                doc: "writes messages at intervals",
                keys: &[&[
                    SIZED_MESSAGE,
                    Key::new(
                        "interval",
                        Shape::Time { zero: false },
                        Default::Required("\"100 ms\""),
                        "Mean time from one message to the next.",
                    ),
                    distribution("Distribution of the intervals."),
                    Key::new(
                        "count",
                        Shape::Integer { min: 1, max: i64::MAX as u64 },
                        Default::Nothing("until the end"),
                        "Number of messages.",
                    ),
                    Key::new(
                        "lifetime",
                        Shape::Time { zero: false },
                        Default::Nothing("no limit"),
                        "Maximum age of a message: after it, data of the message is neither sent nor \
                         retransmitted (sctp and cmt-sctp; RFC 3758).",
                    ),
                    Key::new(
                        "max_retransmissions",
                        Shape::Integer { min: 0, max: 250 },
                        Default::Nothing("no limit"),
                        "Maximum number of retransmissions of a part of a message before the message is \
                         abandoned, instead of `lifetime` (sctp and cmt-sctp; RFC 7496).",
                    ),
                ]],
            },
        },
        Kind {
            name: "recorded",
            source: "",
            section: Section {
                title: "workload = { kind = \"recorded\", … }",
                doc: "writes the messages of a file at their times, then closes",
                keys: &[&[Key::new(
                    "file",
                    Shape::Text,
                    Default::Required("\"messages.csv\""),
                    "A CSV file with rows of `time_s,bytes`, its path relative to the scenario file: seconds since the \
                     start of the flow, which must not fall, and the size of a message, from 1 byte to 1 GiB. A first \
                     line with these names is skipped.",
                )]],
            },
        },
        Kind {
            name: "request-response",
            source: "",
            section: Section {
                title: "workload = { kind = \"request-response\", … }",
                doc: "one host sends requests, the other answers, and the next request follows when the \
                      response has been read; not for udp, which may lose either",
                keys: &[&[
                    Key::new(
                        "request",
                        MESSAGE_SIZE,
                        Default::Is("\"1 kB\""),
                        "Sizes of the requests: one size, or a distribution as for `message`.",
                    ),
                    Key::new(
                        "response",
                        MESSAGE_SIZE,
                        Default::Required("\"10 kB\""),
                        "Sizes of the responses: one size, or a distribution.",
                    ),
                    Key::new(
                        "think",
                        Shape::Time { zero: true },
                        Default::Is("\"0 s\""),
                        "Mean time from a response to the next request.",
                    ),
                    distribution("Distribution of these times."),
                    Key::new(
                        "count",
                        Shape::Integer { min: 1, max: i64::MAX as u64 },
                        Default::Nothing("until the end"),
                        "Number of requests.",
                    ),
                ]],
            },
        },
    ],
};

const fn distribution(doc: &'static str) -> Key {
    Key::new("distribution", Shape::OneOf(|| choices(DISTRIBUTIONS)), Default::Is("\"constant\""), doc)
}

const MESSAGE_SIZE: Shape = Shape::Either(&[Shape::Size, Shape::Section(|| &MESSAGE)]);

const STREAM_MESSAGE: Key = Key::new(
    "message",
    MESSAGE_SIZE,
    Default::Nothing("a byte stream, with boundaries chosen by the protocol"),
    "Sizes of the messages that the application writes.",
);

const SIZED_MESSAGE: Key = Key::new(
    "message",
    MESSAGE_SIZE,
    Default::Is("\"1452 B\""),
    "Sizes of the messages that the application writes.",
);

/// `arrivals = { … }` of files.
static ARRIVALS: Section = Section {
    title: "arrivals = { … } of a file",
    doc: "Connections that begin during the run, the first at the `start` of the flow and none after its `stop`. A \
          connection is open until both ends have closed it or one has aborted it. The flow has one result for all: \
          goodput, completion times, slowdown, and numbers of unfinished and refused connections. Not with `through` \
          or `direction = \"both\"`. In the simulator and the user world.",
    keys: &[&[
        Key::new(
            "mean_interval",
            Shape::Time { zero: false },
            Default::Required("\"50 ms\""),
            "Mean time from one arrival to the next, at least 10 us.",
        ),
        Key::new(
            "distribution",
            Shape::OneOf(|| choices(DISTRIBUTIONS)),
            Default::Is("\"exponential\""),
            "Distribution of these times.",
        ),
        Key::new(
            "count",
            Shape::Integer { min: 1, max: i64::MAX as u64 },
            Default::Nothing("until the end"),
            "Number of arrivals.",
        ),
        Key::new(
            "max_open",
            Shape::Integer { min: 1, max: MAX_OPEN },
            Default::Is("500"),
            "Largest number of connections open at the same time; further arrivals are refused.",
        ),
    ]],
};

/// `message = { … }`, also for requests and responses.
static MESSAGE: Section = Section {
    title: "message = { … }",
    doc: "A distribution of message sizes; exactly one key.",
    keys: &[&[
        Key::new(
            "uniform",
            Shape::List { of: &Shape::Size, min: 2, max: 2 },
            Default::Nothing("another distribution"),
            "Uniform from the first size to the second, both included.",
        ),
        Key::new(
            "exponential",
            Shape::Size,
            Default::Nothing("another distribution"),
            "Exponential with this mean, at least one byte.",
        ),
        Key::new(
            "pareto",
            Shape::Section(|| &PARETO),
            Default::Nothing("another distribution"),
            "Pareto: many small messages and a few very large ones.",
        ),
        Key::new(
            "file",
            Shape::Text,
            Default::Nothing("another distribution"),
            "The sizes of a file in turn, and again from the first, its path relative to the scenario file: on each line a \
             whole number of bytes, from 1 to 1 GiB.",
        ),
    ]],
};

static PARETO: Section = Section {
    title: "message = { pareto = { … } }",
    doc: "A bounded Pareto distribution.",
    keys: &[&[
        Key::new("min", Shape::Size, Default::Required("\"10 kB\""), "Smallest message."),
        Key::new(
            "shape",
            Shape::Above { min: 0.0 },
            Default::Required("1.5"),
            "Shape; a smaller value gives a heavier tail.",
        ),
        Key::new(
            "max",
            Shape::Size,
            Default::Required("\"10 MB\""),
            "Largest message: the distribution is truncated there, without a peak at that size.",
        ),
    ]],
};
