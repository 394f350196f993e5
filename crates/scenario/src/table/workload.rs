//! Keys of workloads and message sizes.

use crate::choices::{DISTRIBUTIONS, choices};
use crate::keys::{Default, Key, Kind, Kinds, Section, Shape};

/// What applications do.
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
                doc: "writes whenever there is room; not for udp, which has no feedback",
                keys: &[&[STREAM_MESSAGE]],
            },
        },
        Kind {
            name: "file",
            source: "",
            section: Section {
                title: "workload = { kind = \"file\", … }",
                doc: "writes so many bytes, then closes; not for udp",
                keys: &[&[
                    Key::new("size", Shape::Size, Default::Required("\"10 MB\""), "How much."),
                    STREAM_MESSAGE,
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
                        Shape::Rate,
                        Default::Required("\"2 Mbit/s\""),
                        "Application bytes offered, as a rate.",
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
                        Default::Required("\"2 s\""),
                        "Mean length of a burst.",
                    ),
                    Key::new(
                        "off",
                        Shape::Time { zero: false },
                        Default::Required("\"1 s\""),
                        "Mean length of a silence.",
                    ),
                    distribution("How the lengths of bursts and silences vary."),
                    Key::new(
                        "rate",
                        Shape::Rate,
                        Default::Nothing("saturated"),
                        "Rate within a burst; udp needs one. Without it the application fills the send buffer whenever \
                         there is room during a burst, and what is in there goes on leaving in the silence: a send buffer \
                         that the connection empties in much less than `off` keeps the silences.",
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
                doc: "writes messages with gaps between them",
                keys: &[&[
                    SIZED_MESSAGE,
                    Key::new(
                        "interval",
                        Shape::Time { zero: false },
                        Default::Required("\"100 ms\""),
                        "Mean time from one message to the next.",
                    ),
                    distribution("How the intervals vary."),
                    Key::new(
                        "count",
                        Shape::Integer { min: 1, max: i64::MAX as u64 },
                        Default::Nothing("until the end"),
                        "How many messages.",
                    ),
                    Key::new(
                        "lifetime",
                        Shape::Time { zero: false },
                        Default::Nothing("until it has arrived"),
                        "How old a message may get before it is given up: what has not left by then does not leave, and what \
                         is lost is not sent again (sctp and cmt-sctp; RFC 3758).",
                    ),
                    Key::new(
                        "max_retransmissions",
                        Shape::Integer { min: 0, max: 250 },
                        Default::Nothing("until it has arrived"),
                        "How often a part of a message may be sent again before the message is given up, in place of \
                         `lifetime` (sctp and cmt-sctp; RFC 7496).",
                    ),
                ]],
            },
        },
        Kind {
            name: "request-response",
            source: "",
            section: Section {
                title: "workload = { kind = \"request-response\", … }",
                doc: "one host asks, the other answers, and the next request follows when the answer has been read; not \
                      for udp, which may lose either",
                keys: &[&[
                    Key::new(
                        "request",
                        MESSAGE_SIZE,
                        Default::Is("\"1 kB\""),
                        "Sizes of the requests, one size or a distribution as `message` has.",
                    ),
                    Key::new(
                        "response",
                        MESSAGE_SIZE,
                        Default::Required("\"10 kB\""),
                        "Sizes of the answers, one size or a distribution.",
                    ),
                    Key::new(
                        "think",
                        Shape::Time { zero: true },
                        Default::Is("\"0 s\""),
                        "Mean time from an answer to the next request.",
                    ),
                    distribution("How these times vary."),
                    Key::new(
                        "count",
                        Shape::Integer { min: 1, max: i64::MAX as u64 },
                        Default::Nothing("until the end"),
                        "How many requests.",
                    ),
                ]],
            },
        },
    ],
};

const fn distribution(doc: &'static str) -> Key {
    Key::new("distribution", Shape::OneOf(|| choices(DISTRIBUTIONS)), Default::Is("\"constant\""), doc)
}

const MESSAGE_SIZE: Shape = Shape::Either(&[Shape::Size, Shape::Section(&MESSAGE)]);

const STREAM_MESSAGE: Key = Key::new(
    "message",
    MESSAGE_SIZE,
    Default::Nothing("a byte stream, cut as the protocol likes"),
    "Sizes of the messages that the application writes.",
);

const SIZED_MESSAGE: Key = Key::new(
    "message",
    MESSAGE_SIZE,
    Default::Is("\"1452 B\""),
    "Sizes of the messages that the application writes.",
);

/// `message = { … }`, also of requests and answers.
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
            Shape::Section(&PARETO),
            Default::Nothing("another distribution"),
            "Pareto: many small messages and a few very large ones.",
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
            "Shape; the smaller, the heavier the tail.",
        ),
        Key::new(
            "max",
            Shape::Size,
            Default::Required("\"10 MB\""),
            "Largest message: the distribution is truncated there, without a heap of messages of that size.",
        ),
    ]],
};
