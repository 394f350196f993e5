/** The lessons: each has a scenario, three sentences, one thing to try, and one question with its answer. */

import bufferSplitting from "../lessons/buffer-splitting.toml";
import bufferbloat from "../lessons/bufferbloat.toml";
import consn from "../lessons/consn.toml";
import controls from "../lessons/controls.toml";
import coupling from "../lessons/coupling.toml";
import handover from "../lessons/handover.toml";
import receiveBuffer from "../lessons/receive-buffer.toml";
import schedulers from "../lessons/schedulers.toml";
import slowStart from "../lessons/slow-start.toml";
import twoPaths from "../lessons/two-paths.toml";
import type { Order } from "./core/types";
import type { SPEEDS } from "./run";

/** One thing to try: an edit of the scenario, after which it runs again, or a change of a link in the present run. */
export type Try = { text: string; button: string } & (
  | { edit: [before: string, after: string] }
  | { order: Omit<Order, "at_ns"> }
);

export interface Lesson {
  id: string;
  title: string;
  /** One line for the list. */
  summary: string;
  sentences: [string, string, string];
  attempt: Try;
  question: string;
  answer: string;
  scenario: string;
  /** Simulated seconds per real second at which the subject of the lesson shows. */
  speed: (typeof SPEEDS)[number];
}

export const LESSONS: readonly Lesson[] = [
  {
    id: "two-paths",
    title: "Two paths, one connection",
    summary: "Multipath TCP uses Wi-Fi and cellular at once.",
    sentences: [
      "A phone downloads over Wi-Fi and cellular at the same time: each colour is a subflow of one Multipath TCP connection.",
      "Bars are packets with data, dots are acknowledgements, and the columns beside the links are their queues.",
      "The simulator runs the protocol code itself, packet by packet, in this page.",
    ],
    attempt: {
      text: "Cut the Wi-Fi while data is on its way, and watch the cellular subflow carry on.",
      button: "Cut the Wi-Fi",
      order: { link: "wifi", direction: "both", set: { state: "down" } },
    },
    question: "Does the application notice that a path is gone?",
    answer:
      "Only by the rate. Data that was in flight on the Wi-Fi is sent again on the cellular subflow (a reinjection), and the application reads one stream in order.",
    scenario: twoPaths,
    speed: 1 / 20,
  },
  {
    id: "slow-start",
    title: "Slow start and AIMD",
    summary: "How TCP finds the rate of its path, and the sawtooth that follows.",
    sentences: [
      "A sender does not know the rate of its path, so it probes: in slow start the congestion window doubles each round trip.",
      "When a packet is lost the window halves, and from then on it grows by one packet each round trip: additive increase, multiplicative decrease (AIMD).",
      "The window draws a sawtooth, and the queue in front of the bottleneck follows it.",
    ],
    attempt: {
      text: "Make the queue short: 5 packets instead of 25.",
      button: "Set the limit to 5 packets",
      edit: ['limit = "25 packets"', 'limit = "5 packets"'],
    },
    question: "Why does the goodput fall from 4.8 to 4.1 Mbit/s with the short queue?",
    answer:
      "The path holds 5 Mbit/s × 60 ms = 37.5 kB, or 25 packets. After each halving the window is smaller than that and the link idles. A queue of one such product keeps it busy.",
    scenario: slowStart,
    speed: 1 / 2,
  },
  {
    id: "coupling",
    title: "A shared bottleneck, coupled or not",
    summary: "Two subflows against one TCP flow: who gets how much?",
    sentences: [
      "The two subflows of the phone and the flow of the laptop share one bottleneck of 10 Mbit/s.",
      "Here each subflow has its own Reno, as if it were a separate connection, so the phone gets two of three shares.",
      "A coupled control lets all subflows together grow no faster than one TCP flow on the best path.",
    ],
    attempt: {
      text: "Couple the subflows with LIA (RFC 6356).",
      button: "Use LIA",
      edit: ['protocol = "mptcp"\ncongestion = "reno"', 'protocol = "mptcp"\ncongestion = "lia"'],
    },
    question: "What are the shares after a minute, uncoupled and coupled?",
    answer:
      "Uncoupled: 6.6 Mbit/s for the phone and 3.0 for the laptop. With LIA: 5.2 and 4.4. LIA couples the growth only, and still moves each window as a whole at a loss, so the shares are near but not equal.",
    scenario: coupling,
    speed: 2,
  },
  {
    id: "bufferbloat",
    title: "Bufferbloat and CoDel",
    summary: "A long queue turns a download into delay for all others.",
    sentences: [
      "A call and a download share an access link whose queue holds 200 packets.",
      "Cubic fills the queue before it loses a packet, so every packet of the call waits behind it: the round trip grows to half a second.",
      "CoDel drops a packet as soon as packets wait longer than 5 ms for 100 ms, and the sender slows down early.",
    ],
    attempt: {
      text: "Change the queue of the access link to CoDel while the run goes on.",
      button: "Switch to CoDel now",
      order: { link: "access", direction: "both", set: { queue: { kind: "codel" } } },
    },
    question: "How much goodput does the download lose by CoDel?",
    answer:
      "None: 4.6 Mbit/s with either queue. The median delay of the call falls from 380 to 21 ms, because a standing queue adds delay and no rate.",
    scenario: bufferbloat,
    speed: 1,
  },
  {
    id: "receive-buffer",
    title: "Head-of-line blocking and the receive buffer",
    summary: "A slow path makes a fast one wait.",
    sentences: [
      "A receiver delivers data in order: what arrives early over the fast path waits in the receive buffer for a packet on the slow one.",
      "With 64 kB the buffer is soon full, and then the advertised window stops both paths.",
      "Nothing is lost, yet the goodput is that of neither path.",
    ],
    attempt: {
      text: "Give the receiver a buffer of 1 MB.",
      button: "Use 1 MB",
      edit: ['receive_buffer = "64 kB"', 'receive_buffer = "1 MB"'],
    },
    question: "The fast path alone has 7.6 Mbit/s. What does the connection reach with 64 kB, and why?",
    answer:
      "About 2 Mbit/s: with round-robin, each round of data waits for the round-trip time of the slow path, 200 ms and more. With 1 MB it reaches 8.2 Mbit/s. Opportunistic retransmission and penalisation, which are off here, bring 7.2 with the small buffer.",
    scenario: receiveBuffer,
    speed: 1,
  },
  {
    id: "schedulers",
    title: "Schedulers",
    summary: "Which subflow carries the next packet?",
    sentences: [
      "A server sends a message of 10 kB each 50 ms, which either path could carry alone.",
      "Round-robin spreads the packets of each message over both paths, and the far one decides when a message is complete.",
      "A scheduler that prefers the lowest round-trip time uses the far path only when the window of the near one is full.",
    ],
    attempt: {
      text: "Prefer the path with the lowest round-trip time.",
      button: "Use lowest-rtt",
      edit: ['scheduler = "round-robin"', 'scheduler = "lowest-rtt"'],
    },
    question: "How long does the median message take with each scheduler?",
    answer:
      "83 ms with round-robin, which is the delay of the far path, and 16 ms with lowest-rtt. For a bulk transfer with large buffers the scheduler hardly matters: every window is filled anyway.",
    scenario: schedulers,
    speed: 1 / 10,
  },
  {
    id: "consn",
    title: "Confluent sequence numbers",
    summary: "One path sends from the front of the window, the other from its end.",
    sentences: [
      "With a receive buffer of 120 kB, round-robin lets the 3G path block the Wi-Fi.",
      "Confluent sequence numbers (ConSN) decide which data a path sends: the better path ascends from the start of the window, the other descends from its end.",
      "When the fast path reaches data that the slow path cannot deliver in time, the fast path sends this data itself.",
    ],
    attempt: {
      text: "Let the two paths meet.",
      button: "Use consn",
      edit: ['scheduler = "round-robin"', 'scheduler = "consn"'],
    },
    question: "What does the connection reach with either scheduler?",
    answer:
      "3.9 Mbit/s with round-robin, and 7.6 with consn: as much as the Wi-Fi alone, which is all that so small a buffer allows. With 200 kB, consn adds the 3G path: 9.0 Mbit/s.",
    scenario: consn,
    speed: 2,
  },
  {
    id: "handover",
    title: "A handover",
    summary: "The Wi-Fi goes at 10 s and returns at 25 s.",
    sentences: [
      "The cellular path is a backup: it has a subflow, but carries data only while no other path is usable.",
      "At 10 s the Wi-Fi ends without notice, and the sender finds out by a timeout.",
      "At 25 s it returns, and the connection moves back.",
    ],
    attempt: {
      text: "Use both paths all the time instead of one as a backup.",
      button: "Remove the backup",
      edit: ['\nbackup = ["cellular"]', ""],
    },
    question: "What does a backup path save, and what does it cost?",
    answer:
      "It saves paid data and energy: 7.7 Mbit/s over the run, of which 1.8 on cellular. With both in use it is 10.6. In either case the connection survives the gap, which a plain TCP connection bound to the Wi-Fi would not.",
    scenario: handover,
    speed: 1,
  },
  {
    id: "buffer-splitting",
    title: "CMT-SCTP and buffer splitting",
    summary: "The same blocking in SCTP, and a remedy at the buffers.",
    sentences: [
      "CMT-SCTP sends over both paths at once, into one send buffer of 300 kB and one receive buffer of 100 kB.",
      "Chunks of the slow path occupy these buffers for half a second, and the fast path of 10 Mbit/s finds no room.",
      "Buffer splitting gives each path a share, and NR-SACK lets acknowledged data leave the send buffer at once.",
    ],
    attempt: {
      text: "Split both buffers and use non-renegable acknowledgements.",
      button: "Split the buffers",
      edit: ['buffer_splitting = "none"\nnr_sack = false', 'buffer_splitting = "both"\nnr_sack = true'],
    },
    question: "How much does each of the two bring?",
    answer:
      "Without them: 4.4 Mbit/s. With buffer splitting alone: 5.4. With both: 10.4, which is nearly all that the two paths have (Adhari 2011).",
    scenario: bufferSplitting,
    speed: 1,
  },
  {
    id: "controls",
    title: "LIA, OLIA, BALIA and RPv2",
    summary: "Four coupled controls on the same network.",
    sentences: [
      "The multipath flow has a private path and a path through the bottleneck of a TCP flow, both of 10 Mbit/s.",
      "A fair share of the network is 10 Mbit/s for each flow: the multipath flow should leave the bottleneck to the other.",
      "LIA keeps some traffic there to probe it; OLIA, BALIA and RPv2 weigh probing and fairness differently.",
    ],
    attempt: {
      text: "Use OLIA; then try balia and cmt-rpv2 by editing the text.",
      button: "Use OLIA",
      edit: ['congestion = "lia"', 'congestion = "olia"'],
    },
    question: "Which one leaves most to the TCP flow, and which least?",
    answer:
      "In a minute the TCP flow gets 9.1 Mbit/s beside OLIA, 8.7 beside RPv2, 8.1 beside LIA, 7.8 beside BALIA, and 4.5 beside uncoupled Reno.",
    scenario: controls,
    speed: 2,
  },
];
