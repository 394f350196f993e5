//! Bad input and what the parser says to it.

use super::super::{catalogue, choices, parse, reseed, to_toml};

/// A mistake: what it changes in the base scenario (or the whole text), the overrides, and the one sentence that
/// follows the file's name.
struct Case {
    changes: &'static [(&'static str, &'static str)],
    sets: &'static [(&'static str, &'static str)],
    says: &'static str,
}

/// The whole text instead of a change of the base.
const ALL: &str = "";

const fn case(changes: &'static [(&'static str, &'static str)], says: &'static str) -> Case {
    Case { changes, sets: &[], says }
}

const fn set(sets: &'static [(&'static str, &'static str)], says: &'static str) -> Case {
    Case { changes: &[], sets, says }
}

const BASE: &str = include_str!("base.toml");

#[rustfmt::skip]
static CASES: &[Case] = &[
    case(&[(ALL, "this is not a scenario")],
        "1: not TOML (key with no value, expected `=`); a scenario consists of lines such as key = \"value\" under headers such as [[link]]"),
    case(&[("duration = \"60 s\"", "duration = 60 s")],
        "2: not TOML (string values must be quoted, expected literal string); text needs quotes: duration = \"60 s\""),
    case(&[("duration = \"60 s\"", "duration = \"60 s")],
        "2: not TOML (invalid basic string, expected `\"`); close the text with the quote it began with"),
    case(&[("[[link]]\nname = \"core\"", "[[link]\nname = \"core\"")],
        "20: not TOML (unclosed array table, expected `]`); a scenario consists of lines such as key = \"value\" under headers such as [[link]]"),
    case(&[("warmup = \"5 s\"", "warmup = \"5 s\"\nwarmup = \"6 s\"")],
        "4: the key \"warmup\" is given twice here; keep one of the two"),
    case(&[(ALL, "{\"duration\": \"60 s\"}")],
        "1: not TOML (invalid key-value pair, expected key); a scenario consists of lines such as key = \"value\" under headers such as [[link]]"),
    case(&[(ALL, "")],
        " the scenario has no link; add a [[link]] table"),
    case(&[("warmup", "warmpu")],
        "3: unknown key \"warmpu\" in the scenario; did you mean \"warmup\"?"),
    case(&[("delay = \"2 ms\"", "dealy = \"2 ms\"")],
        "6: unknown key \"dealy\" in [link_defaults]; did you mean \"delay\"?"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"20 Mbit/s\"\nbandwidth = \"20 Mbit/s\"")],
        "13: unknown key \"bandwidth\" in link \"wifi\"; did you mean \"rate\"?"),
    case(&[("limit = \"50 packets\"", "limit = \"50 packets\", minimum = 3")],
        "24: unknown key \"minimum\" in queue of link \"core\"; did you mean \"min\"?"),
    case(&[("kind = \"fifo\", limit", "kind = \"fifo\", max_p = 0.2, limit")],
        "7: queue of [link_defaults] is \"fifo\", which does not take \"max_p\"; only \"red\" does"),
    case(&[("title = \"Base\"", "title = \"Base\"\nrate = \"1 Mbit/s\"")],
        "2: the scenario does not take \"rate\"; it belongs to [[link]]"),
    case(&[("set = { state = \"down\" }", "set = { status = \"down\" }")],
        "43: unknown key \"status\" in set of [[event]] number 1; did you mean \"state\"?"),
    case(&[("name = \"call\"", "name = \"call\"\ndelay = \"1 ms\"")],
        "35: flow \"call\" does not take \"delay\"; it belongs to [[link]]"),
    case(&[("[[event]]", "[[events]]")],
        "40: unknown key \"events\" in the scenario; did you mean \"event\"?"),
    case(&[("delay = \"2 ms\"", "delay = 2")],
        "6: delay of [link_defaults] is 2, which has no unit; write for example \"2 ms\" or \"2 s\" (units: ns, us, µs, ms, s, min, h)"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"20 Mbps\"")],
        "12: rate of link \"wifi\": unknown unit \"Mbps\" in \"20 Mbps\"; did you mean \"20 Mbit/s\"?"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"20 MB/s\"")],
        "12: rate of link \"wifi\": unknown unit \"MB/s\" in \"20 MB/s\"; rates are in bits per second: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"20 mbit/s\"")],
        "12: rate of link \"wifi\": unknown unit \"mbit/s\" in \"20 mbit/s\"; did you mean \"20 Mbit/s\"?"),
    case(&[("rate = \"20 Mbit/s\"", "rate = 20000000")],
        "12: rate of link \"wifi\" is 20000000, which has no unit; write for example \"20000000 Mbit/s\" or \"20000000 bit/s\" (units: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s)"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"fast\"")],
        "12: rate of link \"wifi\": \"fast\" is not a rate such as \"10 Mbit/s\" (units: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s)"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"20 ms\"")],
        "12: rate of link \"wifi\": unknown unit \"ms\" in \"20 ms\"; write a rate such as \"10 Mbit/s\" (units: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s)"),
    case(&[("duration = \"60 s\"", "duration = 60")],
        "2: duration is 60, which has no unit; write for example \"60 ms\" or \"60 s\" (units: ns, us, µs, ms, s, min, h)"),
    case(&[("duration = \"60 s\"", "duration = \"60\"")],
        "2: duration: \"60\" has no unit; write for example \"60 ms\" or \"60 s\" (units: ns, us, µs, ms, s, min, h)"),
    case(&[("limit = \"50 packets\"", "limit = 50")],
        "24: queue.limit of link \"core\" is 50, which has no unit; write for example \"50 packets\" or \"50 B\" or \"50 kB\" (units: packet, packets, B, kB, KiB, MB, MiB, GB, GiB, TB)"),
    case(&[("limit = \"50 packets\"", "limit = \"50 pakets\"")],
        "24: queue.limit of link \"core\": unknown unit \"pakets\" in \"50 pakets\"; did you mean \"50 packets\"?"),
    case(&[("limit = \"50 packets\"", "limit = \"1.5 packets\"")],
        "24: queue.limit of link \"core\": \"1.5 packets\" is not whole; write a whole number of packets"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nsend_buffer = \"1 Mbit\"")],
        "32: send_buffer of flow \"download\": unknown unit \"Mbit\" in \"1 Mbit\"; sizes are in bytes: B, kB, KiB, MB, MiB, GB, GiB, TB"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nsend_buffer = 500000")],
        "32: send_buffer of flow \"download\" is 500000, which has no unit; write for example \"500000 B\" or \"500000 kB\" (units: B, kB, KiB, MB, MiB, GB, GiB, TB)"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nsend_buffer = \"1,000 B\"")],
        "32: send_buffer of flow \"download\": \"1,000 B\" is not a size such as \"500 kB\" (units: B, kB, KiB, MB, MiB, GB, GiB, TB)"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"-20 Mbit/s\"")],
        "12: rate of link \"wifi\": \"-20 Mbit/s\" is negative; write a value without the sign"),
    case(&[("delay = \"2 ms\"", "delay = -2")],
        "6: delay of [link_defaults] is -2, which is negative and has no unit; write for example \"2 ms\" or \"2 s\" (units: ns, us, µs, ms, s, min, h)"),
    case(&[("duration = \"60 s\"", "duration = \"0 s\"")],
        "2: duration is \"0 s\", but must be greater than 0; write for example \"20 ms\""),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"0 Mbit/s\"")],
        "12: rate of link \"wifi\" is \"0 Mbit/s\", but must be greater than 0; write for example \"10 Mbit/s\""),
    case(&[("limit = \"50 packets\"", "limit = \"0 packets\"")],
        "24: queue.limit of link \"core\" is \"0 packets\", but must be greater than 0; write for example \"100 packets\""),
    case(&[("limit = \"50 packets\"", "limit = \"100 B\"")],
        "24: queue.limit of link \"core\" is 100 bytes, less than one packet of its mtu (1500 bytes); make it larger"),
    case(&[("rate = 0.01", "rate = 1.5")],
        "18: loss.rate of link \"cellular\" is 1.5; write a number from 0 to 1"),
    case(&[("rate = 0.01", "rate = \"1 %\"")],
        "18: loss.rate of link \"cellular\" is the text \"1 %\"; write a number from 0 to 1"),
    case(&[("rate = 0.01", "rate = nan")],
        "18: loss.rate of link \"cellular\" is NaN; write a number from 0 to 1"),
    case(&[("delay = \"2 ms\"", "delay = \"2 ms\"\nmtu = 100")],
        "7: mtu of [link_defaults] is 100; write a whole number from 576 to 65535"),
    case(&[("delay = \"2 ms\"", "delay = \"2 ms\"\nmtu = \"70 kB\"")],
        "7: mtu of [link_defaults] is 70000 bytes; write 576 to 65535 bytes"),
    case(&[("warmup = \"5 s\"", "warmup = \"60 s\"")],
        "3: warmup leaves nothing to measure; make it shorter than duration"),
    case(&[("limit = \"50 packets\"", "limit = \"50 packets\", min = 0.9, max = 0.3")],
        "24: queue.min of link \"core\" must be below its queue.max, but is 45, and queue.max is 15"),
    case(&[("limit = \"50 packets\"", "limit = \"50 packets\", max = \"60 packets\"")],
        "24: queue.max of link \"core\" must not exceed its queue.limit of 50 packets"),
    case(&[("limit = \"50 packets\"", "limit = \"50 packets\", max = \"60 kB\"")],
        "24: queue.max of link \"core\" must be in the same unit as its queue.limit of 50 packets"),
    case(&[("duration = \"60 s\"", "duration = \"1e30 s\"")],
        "2: duration: \"1e30 s\" is too large to count; write a smaller value"),
    case(&[("title = \"Base\"", "title = \"Base\"\nseed = -1")],
        "2: seed is -1; write a whole number from 0"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\ninitial_window = 0")],
        "32: initial_window of flow \"download\" is 0; write a whole number from 1 to 1000"),
    case(&[("title = \"Base\"", "title = 2024")],
        "1: title is the number 2024; write a text in quotes"),
    case(&[("title = \"Base\"", "title = \"Base\"\nseed = 9223372036854775808")],
        "2: not TOML (integer number overflowed); write a whole number of at most 9223372036854775807"),
    set(&[("seed", "9223372036854775808")],
        " --set seed=9223372036854775808: seed is 9223372036854775808; write a whole number from 0 to 9223372036854775807"),
    case(&[("title = \"Base\"", "title = \"Base\"\nseed = \"one\"")],
        "2: seed is the text \"one\"; write a whole number from 0"),
    case(&[("between = [\"phone\", \"router\"]\nrate = \"20", "between = \"phone\"\nrate = \"20")],
        "11: between of link \"wifi\" is the text \"phone\"; write a list, as in [\"A\", \"B\"]"),
    case(&[("between = [\"phone\", \"router\"]\nrate = \"20", "between = [\"phone\"]\nrate = \"20")],
        "11: between of link \"wifi\" has the wrong number of values (1); write exactly 2, as in [\"A\", \"B\"]"),
    case(&[("set = { state = \"down\" }", "set = \"down\"")],
        "43: set of [[event]] number 1 is the text \"down\"; write a table: set = { … }"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\ndelayed_ack = 40")],
        "32: delayed_ack of flow \"download\" is 40, which has no unit; write for example \"40 ms\" or \"40 s\" (units: ns, us, µs, ms, s, min, h)"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\ndelayed_ack = [1]")],
        "32: delayed_ack of flow \"download\" is a list; write true or false, or a time such as \"20 ms\", above 0"),
    case(&[("queue = { kind = \"red\", limit = \"50 packets\" }", "queue = \"red\"")],
        "24: queue of link \"core\" is the text \"red\"; write a table: queue = { … }"),
    case(&[("[link_defaults]", "[[link_defaults]]")],
        "5: link_defaults is a list; write a table: [link_defaults]"),
    case(&[(ALL, "duration = \"1 s\"\n[link]\nname = \"a\"\n")],
        "2: link is a table; write each link under a header of its own: [[link]]"),
    case(&[("duration = \"60 s\"", "duration = 2024-01-01")],
        "2: duration is the date or time 2024-01-01; write a time such as \"20 ms\" (units: ns, us, µs, ms, s, min, h)"),
    case(&[("\"olia\"", "\"oila\"")],
        "31: congestion of flow \"download\" is \"oila\"; did you mean \"olia\"?"),
    case(&[("\"olia\"", "\"vegas-like-thing\"")],
        "31: congestion of flow \"download\" is \"vegas-like-thing\"; the valid values are {congestion}"),
    case(&[("protocol = \"mptcp\"", "protocol = \"mtcp\"")],
        "30: protocol of flow \"download\" is \"mtcp\"; did you mean \"mptcp\"?"),
    case(&[("kind = \"red\"", "kind = \"token-bucket\"")],
        "24: queue.kind of link \"core\" is \"token-bucket\"; the valid values are {queues}"),
    case(&[("kind = \"red\"", "kind = \"fq_codel\"")],
        "24: queue.kind of link \"core\" is \"fq_codel\"; did you mean \"fq-codel\"?"),
    case(&[("{ kind = \"red\", limit = \"50 packets\" }", "{ kind = \"codel\", target = \"200 ms\" }")],
        "24: queue.target of link \"core\" must be below its queue.interval (100 ms), but is 200 ms"),
    case(&[("duration = \"60 s\"", "duration = \"60 s\"\nip = \"v5\"")],
        "3: ip is \"v5\"; did you mean \"v4\"?"),
    case(&[("model = \"bernoulli\"", "model = \"bernouli\"")],
        "18: loss.model of link \"cellular\" is \"bernouli\"; did you mean \"bernoulli\"?"),
    case(&[("model = \"bernoulli\", ", "")],
        "18: loss of link \"cellular\" has no model; add model = \"bernoulli\" or another model of none, bernoulli, gilbert-elliott"),
    case(&[("kind = \"rate\", rate = \"100 kbit/s\"", "kind = \"cbr\", rate = \"100 kbit/s\"")],
        "38: workload.kind of flow \"call\" is \"cbr\"; did you mean \"rate\"?"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nscheduler = \"lowest_rtt\"")],
        "32: scheduler of flow \"download\" is \"lowest_rtt\"; did you mean \"lowest-rtt\"?"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\npaths = \"full-mesh\"")],
        "32: paths of flow \"download\" is \"full-mesh\"; did you mean \"fullmesh\"?"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\npaths = \"ndiffports\"")],
        "32: paths of flow \"download\": path manager \"ndiffports\": it needs a number of subflows from 1 to 64, as in \"ndiffports:2\""),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\npaths = \"ndiffports:65\"")],
        "32: paths of flow \"download\": path manager \"ndiffports:65\": it needs a number of subflows from 1 to 64, as in \"ndiffports:2\""),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nrecovery = \"newreno\"")],
        "32: recovery of flow \"download\" is \"newreno\"; the valid values are sack, prr, rack"),
    case(&[("state = \"down\"", "state = \"off\"")],
        "43: set.state of [[event]] number 1 is \"off\"; did you mean \"down\"?"),
    case(&[("duration = \"60 s\"\n", "")],
        " the scenario has no duration; add duration = \"60 s\""),
    case(&[("rate = \"20 Mbit/s\"\n", "")],
        "9: link \"wifi\" has no rate; add rate = \"10 Mbit/s\""),
    case(&[("between = [\"phone\", \"router\"]\nrate = \"20", "rate = \"20")],
        "9: link \"wifi\" has no between; add between = [\"A\", \"B\"]"),
    case(&[("protocol = \"mptcp\"\n", "")],
        "26: flow \"download\" has no protocol; add protocol = \"tcp\" or another of tcp, mptcp, sctp, cmt-sctp, udp"),
    case(&[("to = \"phone\"\n", "")],
        "26: flow \"download\" has no to; add to = \"B\""),
    case(&[("at = \"20 s\"\n", "")],
        "40: [[event]] number 1 has no at; add at = \"10 s\""),
    case(&[("set = { state = \"down\" }\n", "set = { }\n")],
        "43: set of [[event]] number 1 changes nothing; give at least one of state, rate, delay, loss"),
    case(&[(", rate = \"100 kbit/s\"", "")],
        "38: workload of flow \"call\" has no rate; add rate = \"2 Mbit/s\""),
    case(&[(ALL, "duration = \"1 s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n")],
        " the scenario has no flow; add a [[flow]] table"),
    case(&[("name = \"call\"", "name = \"call\"\ncongestion = \"reno\"")],
        "35: flow \"call\" is udp, which does not take \"congestion\"; only tcp, mptcp, sctp, cmt-sctp flows do"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"tcp\"\nscheduler = \"lowest-rtt\"")],
        "31: flow \"download\" is tcp, which does not take \"scheduler\"; only mptcp, sctp, cmt-sctp flows do"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nnr_sack = true")],
        "32: flow \"download\" is mptcp, which does not take \"nr_sack\"; only sctp, cmt-sctp flows do"),
    case(&[("workload = { kind = \"rate\", rate = \"100 kbit/s\" }\n", "")],
        "33: flow \"call\" is udp, but a saturated sender needs feedback that udp does not have; add workload = { kind = \"rate\", rate = \"2 Mbit/s\" } or another protocol"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nslow_start = \"coupled\"")],
        "32: slow_start of flow \"download\" is for \"lia\" only, but its congestion is \"olia\"; remove it, or move it to [flow_defaults]"),
    case(&[("name = \"cellular\"", "name = \"wifi\"")],
        "15: two links are called \"wifi\" (the first on line 10); give each its own name"),
    case(&[("name = \"cellular\"\n", ""), ("name = \"wifi\"\n", ""), ("link = \"wifi\"", "link = \"core\"")],
        "13: a link without a name is called \"phone-router\" after its ends, like the one on line 9; give it a name"),
    case(&[("name = \"call\"", "name = \"download\"")],
        "34: two flows are called \"download\" (the first on line 27); give each its own name"),
    case(&[("name = \"wifi\"", "name = \"wi fi\"")],
        "10: name of link \"wi fi\" is \"wi fi\"; names consist of 1 to 100 letters, digits, \"-\" and \"_\""),
    case(&[("name = \"wifi\"", "name = \"\"")],
        "10: name of link \"\" is \"\"; names consist of 1 to 100 letters, digits, \"-\" and \"_\""),
    case(&[("link = \"wifi\"", "link = \"wfi\"")],
        "42: [[event]] number 1: there is no link \"wfi\"; did you mean \"wifi\"?"),
    case(&[("link = \"wifi\"", "link = \"ethernet\"")],
        "42: [[event]] number 1: there is no link \"ethernet\"; the links are wifi, cellular, core"),
    case(&[("from = \"server\"\nto = \"phone\"", "from = \"sever\"\nto = \"phone\"")],
        "28: from of flow \"download\" is \"sever\", which no link leads to; did you mean \"server\"?"),
    case(&[("from = \"server\"\nto = \"phone\"", "from = \"phone\"\nto = \"phone\"")],
        "29: flow \"download\" goes from \"phone\" to itself; name two hosts"),
    case(&[("between = [\"router\", \"server\"]", "between = [\"gateway\", \"server\"]")],
        "29: flow \"download\": no links connect \"server\" with \"phone\"; add the missing [[link]]"),
    case(&[("from = \"phone\"\nto = \"server\"", "from = \"phone\"\nto = \"router\"")],
        "29: flow \"download\": \"phone\" cannot be reached from \"server\", because every way leads through a host, and a node at the end of a flow does not forward; put a router between them"),
    case(&[("between = [\"router\", \"server\"]", "between = [\"server\", \"server\"]")],
        "22: link \"core\" connects \"server\" to itself; name two nodes"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nbackup = [\"cell\"]")],
        "32: backup of flow \"download\": there is no link \"cell\"; the links are wifi, cellular, core"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nbackup = [\"dsl\"]"), ("[[flow]]\nname = \"download\"", "[[link]]\nname = \"dsl\"\nbetween = [\"router\", \"home\"]\nrate = \"1 Mbit/s\"\n\n[[flow]]\nname = \"download\"")],
        "37: backup of flow \"download\": the link \"dsl\" is at neither end of the flow; its ends have wifi, cellular, core"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"cmt-sctp\"\ninitial_path = 2")],
        "31: initial_path of flow \"download\" is 2, but \"phone\" has 2 links; count them from 0: wifi, cellular"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"cmt-sctp\"\ninitial_path = \"core\"")],
        "31: initial_path of flow \"download\" is \"core\", which is no link of the receiving host; the links of \"phone\" are wifi, cellular"),
    case(&[("rate = \"20 Mbit/s\"", "rate = { trace = \"missing.mahi\" }")],
        "12: the trace \"missing.mahi\" cannot be read (missing.mahi: there is no such file); give its path relative to the scenario file"),
    case(&[("at = \"20 s\"", "at = \"60 s\"")],
        "41: [[event]] number 1 happens at 60 s, when the run of 60 s is over; move it forward or make duration longer"),
    case(&[("at = \"20 s\"", "at = \"20 s\"\nevery = \"0 s\"")],
        "42: every of [[event]] number 1 is \"0 s\", but must be greater than 0; write for example \"20 ms\""),
    case(&[("at = \"20 s\"", "at = \"20 s\"\nevery = \"1 ns\"")],
        "42: [[event]] number 1 would happen 40000000000 times; make every longer (at most 1000000 times)"),
    case(&[("set = { state = \"down\" }\n", "set = { state = \"down\" }\n\n[[event]]\nat = \"20 s\"\nlink = \"wifi\"\ndirection = \"reverse\"\nset = { state = \"up\" }\n")],
        "49: two events contradict each other: both set state of link \"wifi\" at 20 s (the other on line 43); keep one of them"),
    case(&[("set = { state = \"down\" }\n", "set = { state = \"down\" }\n\n[[event]]\nat = \"10 s\"\nevery = \"5 s\"\nlink = \"wifi\"\nset = { state = \"down\" }\n")],
        "49: two events repeat each other: both set state of link \"wifi\" at 20 s (the other on line 43); keep one of them"),
    case(&[("name = \"call\"", "name = \"call\"\nstart = \"61 s\"")],
        "35: flow \"call\" starts at 61 s, when the run of 60 s is over; start it earlier or make duration longer"),
    case(&[("name = \"call\"", "name = \"call\"\nstart = \"10 s\"\nstop = \"9 s\"")],
        "36: flow \"call\" stops at 9 s, but starts at 10 s; stop it later"),
    case(&[("rate = \"100 kbit/s\" }", "rate = \"100 kbit/s\", message = { uniform = [\"900 B\", \"100 B\"] } }")],
        "38: message of flow \"call\" goes from 900 B down to 100 B; give the smaller size first"),
    case(&[("rate = \"100 kbit/s\" }", "rate = \"100 kbit/s\", message = 160 }")],
        "38: workload.message of flow \"call\" is 160, which has no unit; write for example \"160 B\" or \"160 kB\" (units: B, kB, KiB, MB, MiB, GB, GiB, TB)"),
    case(&[("rate = \"100 kbit/s\" }", "rate = \"100 kbit/s\", message = { uniform = [\"1 B\", \"2 B\"], exponential = \"3 B\" } }")],
        "38: message of flow \"call\" must have exactly one of uniform, exponential and pareto, but has 2"),
    case(&[("rate = \"100 kbit/s\" }", "rate = \"100 kbit/s\", message = { normal = \"3 B\" } }")],
        "38: unknown key \"normal\" in workload.message of flow \"call\"; the valid keys are uniform, exponential, pareto"),
    set(&[("link.wfi.rate", "5 Mbit/s")],
        " --set link.wfi.rate=5 Mbit/s: there is no link \"wfi\"; did you mean \"wifi\"?"),
    set(&[("link.wifi.rte", "5 Mbit/s")],
        " --set link.wifi.rte=5 Mbit/s: there is no key \"rte\" here; did you mean \"rate\"?"),
    set(&[("link.wifi.rate", "5")],
        " --set link.wifi.rate=5: rate of link \"wifi\" is 5, which has no unit; write for example \"5 Mbit/s\" or \"5 bit/s\" (units: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s)"),
    set(&[("link.wifi.rate", "5 Mbps")],
        " --set link.wifi.rate=5 Mbps: rate of link \"wifi\": unknown unit \"Mbps\" in \"5 Mbps\"; did you mean \"5 Mbit/s\"?"),
    set(&[("link.wifi.rate.trace.x", "5")],
        " --set link.wifi.rate.trace.x=5: \"trace\" has no parts; end the path with it"),
    set(&[("link.wifi.delay.x", "5")],
        " --set link.wifi.delay.x=5: \"delay\" has no parts; end the path with it"),
    set(&[("link.wifi", "5")],
        " --set link.wifi=5: it must say which key of [[link]]: name, between, rate, delay, jitter, mtu, icmp, overhead, queue, loss, reorder, state, reverse"),
    set(&[("link", "5")],
        " --set link=5: it must say which link and which key: link.NAME.KEY=VALUE"),
    set(&[("lnk.wifi.rate", "5")],
        " --set lnk.wifi.rate=5: there is no key \"lnk\"; did you mean \"link\"?"),
    set(&[("flow.download.congestion", "oila")],
        " --set flow.download.congestion=oila: congestion of flow \"download\" is \"oila\"; did you mean \"olia\"?"),
    set(&[("flow.call.congestion", "olia")],
        " --set flow.call.congestion=olia: flow \"call\" is udp, which does not take \"congestion\"; only tcp, mptcp, sctp, cmt-sctp flows do"),
    set(&[("event.1.at", "5 s")],
        " --set event.1.at=5 s: there is no event \"1\"; the only one is \"0\""),
    set(&[("link.wifi.queue.limt", "5 packets")],
        " --set link.wifi.queue.limt=5 packets: there is no key \"limt\" here; did you mean \"limit\"?"),
    set(&[("link.core.queue.kind", "fifo"), ("link.core.queue.min", "0.1")],
        " --set link.core.queue.min=0.1: queue of link \"core\" is \"fifo\", which does not take \"min\"; only \"red\" does"),
    set(&[("", "5 s")],
        " --set =5 s: the path of a key is like link.NAME.rate; write the key before the equals sign"),
    set(&[("duration", "4 s")],
        "3: warmup leaves nothing to measure; make it shorter than duration"),
    set(&[("duration", "20 s")],
        "41: [[event]] number 1 happens at 20 s, when the run of 20 s is over; move it forward or make duration longer"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"20 Mbit/s\"\nreverse = \"1 Mbit/s\"")],
        "13: reverse of link \"wifi\" is the text \"1 Mbit/s\"; write a table: reverse = { … }"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"20 Mbit/s\"\nreverse = { name = \"x\" }")],
        "13: the reverse direction of link \"wifi\" does not take \"name\"; it belongs to [[link]]"),
    case(&[("rate = \"20 Mbit/s\"", "rate = \"20 Mbit/s\"\nreverse = { queue = { limit = \"0 B\" } }")],
        "13: queue.limit of the reverse direction of link \"wifi\" is \"0 B\", but must be greater than 0; write for example \"500 kB\""),
    case(&[("[link_defaults]", "[flow_defaults]\nscheduler = \"round-robbin\"\n\n[link_defaults]")],
        "6: scheduler of [flow_defaults] is \"round-robbin\"; did you mean \"round-robin\"?"),
    case(&[("[link_defaults]", "[flow_defaults]\nfrom = \"phone\"\n\n[link_defaults]")],
        "6: [flow_defaults] does not take \"from\"; it belongs to [[flow]]"),
    case(&[("[link_defaults]", "[flow_defaults]\npaths = \"ndiffports:2\"\n\n[link_defaults]"), ("protocol = \"mptcp\"", "protocol = \"cmt-sctp\"")],
        "6: paths of flow \"download\" is \"ndiffports:2\"; the valid values are destination, fullmesh"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nmtu = 9000")],
        "32: mtu of flow \"download\" is 9000 bytes, but its link \"wifi\" carries at most 1500; lower it, or leave it out to have it follow the links"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"sctp\"\nreceive_buffer = \"1 kB\"")],
        "31: receive_buffer of flow \"download\" is 1000 bytes; SCTP needs at least 1500 bytes"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"sctp\"\nsend_buffer = \"100 kB\"\nworkload = { kind = \"saturated\", message = \"1 MB\" }")],
        "32: flow \"download\" writes messages of up to 1000000 bytes, and its send_buffer of 100000 bytes cannot hold one; make send_buffer larger or messages smaller"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"cmt-sctp\"\nscheduler = \"redundant\"")],
        "31: scheduler of flow \"download\" is \"redundant\"; the valid values are {single-copy schedulers}"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nrto_min = \"2 s\"\nrto_max = \"1.5 s\"")],
        "32: rto_min of flow \"download\" is 2 s, above its rto_max of 1500 ms; make one smaller or the other larger"),
    case(&[("congestion = \"olia\"", "congestion = \"olia\"\nrto_initial = \"90 s\"")],
        "32: rto_initial of flow \"download\" is 90 s, above its rto_max of 60 s; make one smaller or the other larger"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"tcp\"\ndss_checksum = true")],
        "31: flow \"download\" is tcp, which does not take \"dss_checksum\"; only mptcp flows do"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"cmt-sctp\"\necn = true")],
        "31: flow \"download\" is cmt-sctp, which does not take \"ecn\"; only tcp, mptcp flows do"),
    case(&[("protocol = \"mptcp\"\ncongestion = \"olia\"", "protocol = \"cmt-sctp\"\nheartbeat_interval = 30")],
        "31: heartbeat_interval of flow \"download\" is 30, which has no unit; write for example \"30 ms\" or \"30 s\" (units: ns, us, µs, ms, s, min, h)"),
];

fn message(case: &Case) -> String {
    let mut text = BASE.to_owned();
    for (old, new) in case.changes {
        if old.is_empty() {
            text = (*new).to_owned();
        } else {
            assert!(text.contains(old), "the base has no {old:?}");
            text = text.replacen(old, new, 1);
        }
    }
    let sets: Vec<_> = case.sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    match parse(&text, "s.toml", &sets) {
        Err(error) => error.to_string(),
        Ok(_) => "it is accepted".into(),
    }
}

/// What the case expects to be told, the lists of a kind spelt out where it names them: `{queues}`.
fn says(case: &Case) -> String {
    let lists = [
        ("{congestion}", catalogue::choices("congestion")),
        ("{queues}", catalogue::choices("queues")),
        ("{single-copy schedulers}", choices::single_copy_schedulers()),
    ];
    lists.into_iter().fold(case.says.to_owned(), |says, (place, list)| {
        let names: Vec<_> = list.iter().map(|choice| choice.name).collect();
        says.replace(place, &names.join(", "))
    })
}

#[test]
fn every_mistake_gets_its_sentence() {
    for case in CASES {
        assert_eq!(
            message(case),
            format!("s.toml:{}", says(case)),
            "for {:?} and {:?}",
            case.changes,
            case.sets
        );
    }
}

#[test]
fn sentences_are_one_line_and_name_a_remedy() {
    for case in CASES {
        assert!(!case.says.contains('\n'), "{}", case.says);
        assert!(
            case.says.contains("; ")
                || ["must", " such as ", " as in "].iter().any(|word| case.says.contains(word)),
            "{}",
            case.says
        );
    }
}

#[test]
#[ignore = "prints what the parser says now, for a look at changed messages"]
fn print_messages() {
    for (index, case) in CASES.iter().enumerate() {
        println!("{index}\t{}", message(case).trim_start_matches("s.toml:"));
    }
}

#[test]
fn the_base_is_a_scenario() {
    parse(BASE, "s.toml", &[]).unwrap();
}

#[test]
fn a_seed_beyond_what_a_file_can_say_is_refused() {
    let mut scenario = parse(BASE, "s.toml", &[]).unwrap();
    let largest = 9_223_372_036_854_775_807;
    reseed(&mut scenario, largest).unwrap();
    assert_eq!(parse(&to_toml(&scenario), "s.toml", &[]).unwrap().seed, largest);
    for seed in [largest + 1, u64::MAX] {
        let message = reseed(&mut scenario, seed).unwrap_err().to_string();
        assert_eq!(
            message,
            format!("the seed {seed} is too large; choose one from 0 to 9223372036854775807")
        );
    }
    assert_eq!(scenario.seed, largest);
}
