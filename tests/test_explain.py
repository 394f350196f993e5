"""Explanations: planted faults are found, their remedies gain as much as promised, and wrong input is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import anabranch
from anabranch import InputError, Scenario
from anabranch.explain.endpoint_remedies import host_cost
from anabranch.explain.explanation import Explanation, Options, explain
from anabranch.explain.facts import Facts
from anabranch.explain.finding import Measured
from anabranch.explain.likely import likely_cause
from anabranch.explain.network_remedies import reverse_path
from anabranch.explain.objective import Gain, Objective
from anabranch.explain.remedies import KINDS, WITHOUT_REMEDY
from anabranch.remarks import released_bps
from command import anabranch as command

TWO_PATHS = """
title = "DSL and LTE"
duration = "6 s"
warmup = "1 s"

[[link]]
name = "dsl"
between = ["phone", "server"]
rate = "1 Mbit/s"
delay = "10 ms"
queue = { kind = "fifo", limit = "64 kB" }
reverse = { rate = "8 Mbit/s" }

[[link]]
name = "lte"
between = ["phone", "server"]
rate = "5 Mbit/s"
delay = "20 ms"
queue = { kind = "fifo", limit = "150 kB" }
reverse = { rate = "12 Mbit/s" }

[[flow]]
name = "F"
from = "server"
to = "phone"
protocol = "mptcp"
"""
EVENT = '[[event]]\nat = "2 s"\nlink = "lte"\nset = { state = "down" }\n'
BUSY_HOST = '[[host]]\nname = "phone"\ncost = { packet = "1 ms" }\n'
ALL = Options(reps=1, time_limit_s=600.0)

DELAYED = ("link.dsl.delay=100 ms", "link.lte.delay=100 ms")
PERIODIC = ('link.lte.reverse.loss={model="periodic",every=300}', 'link.dsl.reverse.loss={model="periodic",every=300}')

PLANTED = [
    ("receive-buffer", ("flow.F.receive_buffer=32 kB",), ""),
    ("send-buffer", ("flow.F.send_buffer=32 kB",), ""),
    ("buffers", ("flow.F.send_buffer=32 kB", "flow.F.receive_buffer=32 kB"), ""),
    ("application", ('flow.F.workload={kind="rate",rate="2 Mbit/s"}',), ""),
    ("backup", ('flow.F.backup=["lte"]',), ""),
    ("path-not-used", ("flow.F.protocol=tcp",), ""),
    ("path-not-used", ("flow.F.paths=default",), ""),
    ("path-down", (), EVENT),
    ("path-down", ("link.lte.state=down",), ""),
    ("random-loss", ('link.lte.reverse.loss={model="bernoulli",rate=0.02}',), ""),
    ("queue-too-short", ("link.lte.reverse.queue.limit=3 packets",), ""),
    ("slow-start", ('flow.F.workload={kind="file",size="60 kB"}', *DELAYED), ""),
    ("reverse-path", ("link.lte.rate=40 kbit/s", "link.dsl.rate=40 kbit/s"), ""),
    ("random-loss", ("flow.F.protocol=cmt-sctp", *PERIODIC), ""),
    ("nagle", ("flow.F.protocol=sctp", 'flow.F.workload={kind="request-response",request="3 kB",response="3 kB"}'), ""),
    ("path-not-used", ("flow.F.protocol=sctp",), ""),
    ("initial-path", ('flow.F.workload={kind="file",size="30 kB"}', "link.dsl.delay=150 ms"), ""),
    ("scheduler", ("flow.F.scheduler=redundant",), ""),
    ("host-cost", (), BUSY_HOST),
    ("capacity", (), ""),
]


def two_paths(*settings: str, more: str = "") -> Scenario:
    return Scenario.from_toml(TWO_PATHS + more).with_settings(settings)


def explained(*settings: str, more: str = "") -> Explanation:
    return explain(two_paths(*settings, more=more), ALL)


@pytest.mark.parametrize(("kind", "settings", "more"), PLANTED, ids=[f"{n}-{p[0]}" for n, p in enumerate(PLANTED)])
def test_planted_fault_is_first(kind: str, settings: tuple[str, ...], more: str) -> None:
    found = explained(*settings, more=more)
    tried = (*found.findings, *found.others)
    assert found.left_out == 0
    assert found.first.kind == kind, [(each.kind, each.net, each.settings) for each in tried]
    if found.first.settings:
        assert found.first.net >= 0.9 * max(each.net for each in tried)


THROUGH_M = """
duration = "6 s"
warmup = "1 s"
[link_defaults]
rate = "10 Mbit/s"
delay = "10 ms"
[[link]]
name = "a"
between = ["S", "M"]
[[link]]
name = "a2"
between = ["M", "D"]
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "mptcp"
"""
SECOND_LINK = '[[link]]\nname = "b"\nbetween = ["S", "D"]\nrate = "5 Mbit/s"\n'
COMPETITOR = '[[flow]]\nname = "tcp"\nfrom = "S"\nto = "D"\nprotocol = "tcp"\n'


@pytest.mark.parametrize("kind", ["strip-options", "drop-syn"])
def test_middlebox_is_first(kind: str) -> None:
    box = f'[[middlebox]]\nnode = "M"\ndoes = {{ kind = "{kind}" }}\n'
    found = explain(Scenario.from_toml(THROUGH_M + SECOND_LINK + box), ALL)
    assert found.first.kind == "middlebox"
    assert found.first.subject == "M"


def test_busy_hosts_are_named_with_drops() -> None:
    costs = BUSY_HOST.replace("1 ms", "2 ms").replace('" }', '", backlog = "10 packets" }')
    slow = two_paths(more=costs + costs.replace("phone", "server"))
    one, *rest = host_cost(Facts.of(anabranch.run(slow).document, None))
    assert re.fullmatch(
        r'Host "phone" is too slow for its packets: its processor was busy for [0-9]+ % of the time and dropped '
        r"[0-9,]+ packets beyond its backlog",
        one.cause,
    )
    assert [each.subject for each in (one, *rest)] == ["phone", "server", "phone, server"]
    assert rest[-1].settings == tuple(f'host.{name}.cost={{ packet="0 us" }}' for name in ("phone", "server"))
    assert all(0.3 < each.evidence <= 1.0 for each in (one, *rest))


def test_idle_host_is_no_cause() -> None:
    idle = two_paths(more=BUSY_HOST.replace("1 ms", "10 us"))
    assert not list(host_cost(Facts.of(anabranch.run(idle).document, None)))


def test_small_packets_with_framing_are_first() -> None:
    settings = ("link_defaults.overhead=200", "flow.F.mtu=576")
    found = explain(Scenario.from_toml(THROUGH_M).with_settings(settings), ALL)
    assert found.first.kind == "mtu"
    assert found.first.settings == ("flow.F.mtu=1500",)


def test_remedy_that_only_takes_from_others_is_none() -> None:
    found = explain(Scenario.from_toml(THROUGH_M + COMPETITOR), ALL)
    assert found.first.kind == "cross-traffic"
    assert not found.first.settings
    assert "Other flows take" in found.first.cause


def test_remedy_for_return_path_keeps_forward_path() -> None:
    # The reverse direction of a link inherits the loss, so that the data are lost at random, too.
    lossy = two_paths('link.lte.loss={model="bernoulli",rate=0.01}', "duration=2 s", "warmup=0 s")
    facts = Facts.of(anabranch.run(lossy, seed=1).document, "F")
    [remedy] = [each for each in reverse_path(facts) if "loses acknowledgements" in each.cause]
    repaired = anabranch.run(lossy.with_settings(remedy.settings), seed=1).document["scenario"]["link"][1]
    assert repaired["loss"] == {"model": "none"}
    assert repaired["reverse"]["loss"]["rate"] == pytest.approx(0.01)


def test_gain_has_paired_interval() -> None:
    lossy = two_paths('link.lte.reverse.loss={model="bernoulli",rate=0.02}')
    measured = explain(lossy, Options(reps=4, time_limit_s=600.0)).first.measured
    assert measured is not None
    assert len(measured.gains) == 4
    assert measured.interval is not None
    assert measured.interval.low < measured.relative < measured.interval.high
    assert ", ≥ 82 % interval" in measured.sentence


def test_promised_gain_is_that_of_the_setting() -> None:
    base = two_paths("flow.F.receive_buffer=32 kB")
    found = explain(base, ALL).first
    before, after = (anabranch.run(each).document for each in (base, base.with_settings(found.settings)))
    flows = [document["flows"][0] for document in (before, after)]
    first, second = [flow["goodput_bps"] - released_bps(flow) for flow in flows]
    assert found.net == pytest.approx(second / first - 1.0)


def test_data_of_the_warm_up_is_no_gain() -> None:
    document = anabranch.run(two_paths(), seed=1).document
    flow = document["flows"][0]
    objective = Objective.of(document, "F", "goodput")
    flow["goodput_bps"], flow["paths"][0]["goodput_bps"], flow["paths"][1]["goodput_bps"] = 20e6, 12e6, 6e6
    # 2 of 20 Mbit/s arrived before the measured part; 0.05 of 18 are within half a percent.
    assert objective.value(document) == pytest.approx(18e6)
    flow["goodput_bps"] = 18.05e6
    assert objective.value(document) == pytest.approx(18.05e6)


def test_cause_without_runs_is_marked() -> None:
    found = explain(two_paths("flow.F.receive_buffer=32 kB"), Options(runs=False))
    assert found.first.kind == "receive-buffer"
    assert "Not verified" in found.first.sentence
    assert found.runs == 1
    assert len(found.findings) <= 3


BESIDE_TCP = """
duration = "12 s"
warmup = "4 s"
link_defaults = { rate = "1 Gbit/s", delay = "100 us" }
link = [
    { name = "s0a", between = ["S0", "R1"] },
    { name = "s0b", between = ["S0", "R1"] },
    { name = "s1", between = ["S1", "R1"] },
    { name = "x", between = ["R1", "R2"], rate = "20 Mbit/s", delay = "10 ms", queue = { kind = "red" } },
    { name = "d0a", between = ["R2", "D0"] },
    { name = "d0b", between = ["R2", "D0"] },
    { name = "d1", between = ["R2", "D1"] },
]
flow = [
    { name = "F", from = "S0", to = "D0", protocol = "mptcp", paths = "disjoint" },
    { name = "tcp", from = "S1", to = "D1", protocol = "tcp", congestion = "reno" },
]
"""
TRACE = Path(__file__).parents[1] / "examples" / "cellular-trace.toml"
# The setup of Adhari et al. (2011) without the mechanisms of CMT-SCTP against blocked buffers.
ADSL = """
duration = "20 s"
warmup = "5 s"
link = [
    { name = "A", between = ["S", "D"], rate = "10 Mbit/s", delay = "2 ms", queue.limit = "10 packets" },
    { name = "B", between = ["S", "D"], rate = "0.8 Mbit/s", delay = "28 ms", queue.limit = "100 packets" },
]

[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "cmt-sctp"
congestion = "reno"
scheduler = "round-robin"
ordered = false
receive_buffer = "100 kB"
buffer_splitting = "none"
chunk_rescheduling = false
penalisation = false
"""


def test_full_link_of_several_is_no_free_path() -> None:
    """Without a run of any remedy. The slowest link alone has the same rate whether other flows fill it or not."""
    found = explain(Scenario.from_toml(BESIDE_TCP), Options(runs=False)).findings
    assert found[0].kind == "cross-traffic", found


def test_fast_link_before_a_full_one_has_no_short_queue() -> None:
    """The full link follows a trace, so that only the rate of the link before it is known."""
    found = explain(Scenario.from_file(TRACE, allow_paths=True), Options(runs=False)).findings
    assert found[0].kind == "capacity", found


def test_control_that_fills_a_queue_is_no_slow_control() -> None:
    """The queue of path B holds up path A. BBR keeps it short, and the flow is six times as fast."""
    found = explain(Scenario.from_toml(ADSL), Options(runs=False)).findings
    (cause,) = [each.cause for each in found if each.kind == "control"]
    assert cause == 'Link "B" has a long queue that "reno" fills, and the flow waits for data there'


def test_delays_of_a_long_queue_are_explained() -> None:
    settings = ("link.lte.reverse.queue.limit=2 MB", 'flow.F.workload={kind="rate",rate="25 Mbit/s"}')
    found = explain(two_paths(*settings), Options(reps=1, time_limit_s=600.0, aim="delay"))
    assert found.first.kind in ("bufferbloat", "control", "single-path")
    assert found.unit == "ms"


def test_time_limit_leaves_remedies_out() -> None:
    found = explain(two_paths(), Options(reps=1, time_limit_s=1e-6))
    assert found.left_out > 0


def test_result_is_explained_with_its_scenario(tmp_path: Path) -> None:
    result = anabranch.run(two_paths("flow.F.receive_buffer=32 kB"), seed=3)
    assert result.explain(ALL).first.kind == "receive-buffer"
    result.save(tmp_path / "result.json")
    done = command("explain", str(tmp_path / "result.json"), "--reps", "1", "--json", "--time-limit", "600")
    document = json.loads(done.stdout)
    assert document["findings"][0]["settings"] == ['flow.F.receive_buffer="1 MB"']


def test_changed_result_has_a_note() -> None:
    result = anabranch.run(two_paths())
    result.document["flows"][0]["goodput_bps"] /= 2
    assert "the simulator now has" in result.explain(Options(runs=False)).notes[-1]


def test_result_without_scenario_is_refused(tmp_path: Path) -> None:
    document = dict(anabranch.run(two_paths()).document)
    del document["scenario"]
    (tmp_path / "old.json").write_text(json.dumps(document), encoding="utf-8")
    done = command("explain", str(tmp_path / "old.json"))
    assert done.returncode == 2
    assert 'lacks "scenario"' in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(flow="G"), 'there is no flow "G"'),
        (Options(aim="speed"), 'there is no aim "speed"'),
        (Options(reps=0), "reps must be a whole number from 1 on"),
        (Options(time_limit_s=0.0), "the time limit must be"),
    ],
)
def test_wrong_option_is_refused(options: Options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        explain(two_paths(), options)


def test_flow_of_less_than_three_trips_is_refused() -> None:
    with pytest.raises(InputError, match='"F" is measured for 50 ms, less than 3 round trips of 20 ms'):
        explain(two_paths("flow.F.start=5.95 s"), ALL)


def test_change_of_a_completion_time_is_in_per_cent() -> None:
    measured = explained('flow.F.workload={kind="file",size="60 kB"}', *DELAYED).first.measured
    assert measured is not None
    before, after = measured.ends
    assert f"({100 * (after / before - 1.0):+.0f} %" in measured.sentence


def test_number_without_a_change_stays() -> None:
    objective = Objective("goodput", "Mbit/s", 1e-6, False, "F", "goodput")
    measured = Measured(objective, (Gain(64e3, 64e3, 0.0, 0.0, 0.0),) * 3)
    assert measured.sentence == "goodput stays at 0.064 Mbit/s (+0 %, equal for 3 seeds)"


def test_request_response_has_a_note_on_waiting_times() -> None:
    requests = two_paths('flow.F.workload={kind="request-response",response="20 kB"}')
    assert "those of its requests" in explain(requests, Options(runs=False)).notes[-1]


def test_udp_is_refused() -> None:
    udp = two_paths("flow.F.protocol=udp", 'flow.F.workload={kind="rate",rate="1 Mbit/s"}')
    with pytest.raises(InputError, match="UDP has no control"):
        explain(udp, ALL)


def test_command_prints_sentences_and_draws_gains(tmp_path: Path) -> None:
    file = tmp_path / "home.toml"
    file.write_text(TWO_PATHS, encoding="utf-8")
    options = ("--set", 'flow.F.receive_buffer="32 kB"', "--reps", "2", "--time-limit", "600")
    done = command("explain", str(file), *options, "--plot", str(tmp_path / "gains.png"))
    assert done.returncode == 0, done.stderr
    assert "1. The receive buffer of 32 kB is too small" in done.stdout
    assert '--set flow.F.receive_buffer="1 MB"' in done.stdout
    assert (tmp_path / "gains.png").stat().st_size > 1000


def test_kinds_have_unique_names() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 20


def test_how_to_page_shows_the_output(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs/how-to/slow-aggregate.md").read_text(encoding="utf-8")
    page = page.split("## Explain a capture")[0]
    (scenario,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (tmp_path / "home.toml").write_text(scenario, encoding="utf-8")
    done = command("explain", str(tmp_path / "home.toml"), "--time-limit", "600")
    without_time = r"\d+ runs in .*"
    assert re.sub(without_time, "", done.stdout).strip() == re.sub(without_time, "", shown).strip()


def test_reference_lists_all_kinds() -> None:
    page = (Path(__file__).parent.parent / "docs/reference/command-line.md").read_text(encoding="utf-8")
    for name in (*(kind.name for kind in KINDS), *WITHOUT_REMEDY):
        assert f"| `{name}` |" in page


def test_table_names_the_likely_cause(tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    file.write_text(TWO_PATHS, encoding="utf-8")
    text = " ".join(command("run", str(file), "--set", "flow.F.receive_buffer=32 kB").stdout.split())
    assert "Likely cause: The receive buffer of 32 kB is too small" in text
    assert "Likely cause" not in command("run", str(file)).stdout


@pytest.mark.parametrize(
    "settings",
    [
        ('flow.F.workload={kind="rate",rate="1 Mbit/s"}',),
        ("flow.F.start=5.99 s",),
        ("flow.F.protocol=udp", 'flow.F.workload={kind="rate",rate="1 Mbit/s"}'),
    ],
)
def test_flow_without_likely_cause(settings: tuple[str, ...]) -> None:
    assert likely_cause(anabranch.run(two_paths(*settings)).document) is None


@pytest.mark.parametrize(
    ("settings", "open_s"),
    [
        (("duration=10 s", "flow.F.start=7 s"), 3.0),
        (("duration=10 s", "flow.F.stop=3 s"), 2.0),
        (("duration=10 s", 'flow.F.workload={kind="file",size="9 MB"}'), 3.1),
    ],
)
def test_short_flow_is_compared_with_rate_while_open(settings: tuple[str, ...], open_s: float) -> None:
    explanation = explain(two_paths(*settings), ALL)
    facts = Facts.of(anabranch.run(two_paths(*settings)).document, None)
    assert facts.open_s == pytest.approx(open_s, abs=0.5)
    # The flow has about a third of the links' rate in the table, nearly all of it while it is open.
    assert facts.possible_bps is not None
    assert facts.goodput_bps < 0.4 * facts.possible_bps
    assert facts.gap < 0.2
    assert likely_cause(facts.document) is None
    assert any(f"open for {facts.open_s:.3g} of the 9 s measured" in note for note in explanation.notes)


def test_late_flow_has_the_cause_of_an_early_one() -> None:
    causes = [
        likely_cause(
            anabranch.run(two_paths("duration=20 s", f"flow.F.start={start}", "flow.F.receive_buffer=32 kB")).document
        )
        for start in ("0 s", "17 s")
    ]
    for cause in causes:
        assert cause is not None
        assert "The receive buffer of 32 kB is too small for these paths" in cause
    assert "2.9 of 3.0 s" in str(causes[1])
