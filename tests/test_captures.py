"""Captures: bytes equal those of runs and of the kernel, causes are named, and wrong input is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch import InputError, Scenario, run
from anabranch._core.simulator import Capture
from anabranch.explain.captured import Captures, is_capture, read_captures
from anabranch.explain.weak_signs import weak_findings
from command import anabranch as command
from machine import missing

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
TWO_PATHS = """
title = "DSL and LTE"
duration = "4 s"

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
SMALL_WINDOW = "flow.F.receive_buffer=32 kB"


def simulated(folder: Path, *settings: str, ends: tuple[str, ...] = ()) -> tuple[Mapping[str, Any], Captures]:
    """The flow of a run, and its capture as it is read."""
    file = folder / "run.pcapng"
    scenario = Scenario.from_toml(TWO_PATHS).with_settings(settings)
    result = run(scenario, pcap=Capture(str(file), None, ends, ()))
    return result.document["flows"][0], read_captures(file)


def sent(path: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of a path of a result: first sent there, and sent again there."""
    kinds = path["bytes_by_kind"]
    return sum(kinds.values()) - kinds["retransmission"], kinds["retransmission"]


@pytest.mark.parametrize("ends", [("server",), ()])
@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("flow.F.protocol=tcp",),
        ("flow.F.scheduler=redundant",),
        ('link.lte.reverse.loss={model="bernoulli",rate=0.02}', 'link.lte.loss={model="bernoulli",rate=0.02}'),
        (SMALL_WINDOW, "link.lte.reverse.queue.limit=8 packets"),
        ("ip=v6", "flow.F.dss_checksum=true"),
    ],
)
def test_bytes_equal_those_of_the_run(tmp_path: Path, settings: tuple[str, ...], ends: tuple[str, ...]) -> None:
    flow, captures = simulated(tmp_path, *settings, ends=ends)
    (connection,) = captures.connections
    assert connection.protocol == flow["protocol"]
    found = [(part.way["new_bytes"], part.way["retransmitted_bytes"]) for part in connection.parts]
    assert found == [sent(path) for path in flow["paths"] if path["packets"]]
    assert [part.way["packets"] for part in connection.parts] == [
        path["packets"] for path in flow["paths"] if path["packets"]
    ]
    if connection.protocol == "mptcp":
        again = sum(sum(path["bytes_by_kind"].values()) for path in flow["paths"])
        new = sum(path["bytes_by_kind"]["new"] for path in flow["paths"])
        repeated = sum(part.way["reinjected_bytes"] + part.way["retransmitted_bytes"] for part in connection.parts)
        assert connection.data["bytes"] == new
        assert repeated == again - new


@pytest.mark.parametrize("protocol", ["sctp", "cmt-sctp"])
def test_bytes_of_associations_equal_those_of_the_run(tmp_path: Path, protocol: str) -> None:
    loss = 'link.lte.reverse.loss={model="bernoulli",rate=0.01}'
    flow, captures = simulated(tmp_path, f"flow.F.protocol={protocol}", loss, ends=("server",))
    (connection,) = captures.connections
    assert connection.protocol == "sctp"
    by_bytes = sorted(part.bytes for part in connection.parts if part.bytes)
    assert by_bytes == sorted(total for path in flow["paths"] if (total := sum(path["bytes_by_kind"].values())))
    total = sum(path["bytes_by_kind"]["new"] for path in flow["paths"])
    assert connection.data["bytes"] == total


CMT_SETTINGS: tuple[tuple[str, ...], ...] = (
    (),
    ('link.dsl.reverse.loss={model="bernoulli",rate=0.005}',),
    ("flow.F.receive_buffer=200 kB", "flow.F.chunk_rescheduling=true"),
    ("link.lte.reverse.queue.limit=1 MB",),
)


def association(folder: Path, settings: tuple[str, ...], kept: int | None) -> tuple[Mapping[str, Any], Captures]:
    """The flow of a run of CMT-SCTP, and its capture at the sender with `kept` bytes of each packet."""
    file = folder / "run.pcapng"
    scenario = Scenario.from_toml(TWO_PATHS).with_settings(("flow.F.protocol=cmt-sctp", *settings))
    result = run(scenario, pcap=Capture(str(file), kept, ("server",), ()))
    return result.document["flows"][0], read_captures(file)


@pytest.mark.parametrize("settings", CMT_SETTINGS)
def test_in_flight_bytes_of_associations_equal_the_run(tmp_path: Path, settings: tuple[str, ...]) -> None:
    flow, captures = association(tmp_path, settings, None)
    data = captures.connection().data
    in_flight = sum(path["outstanding_mean_bytes"] for path in flow["paths"])
    assert data["flight_mean_bytes"] == pytest.approx(in_flight, rel=0.05)
    for part, path in zip(captures.connection().parts, flow["paths"], strict=True):
        kinds = path["bytes_by_kind"]
        assert (part.bytes, part.way["new_bytes"]) == (sum(kinds.values()), kinds["new"])
        assert part.way["retransmitted_bytes"] == kinds["retransmission"] + kinds["chunk-rescheduling"]
        assert part.way["flight_mean_bytes"] == pytest.approx(path["outstanding_mean_bytes"], rel=0.1)
        assert part.mean_rtt_s == pytest.approx(path["srtt_mean_s"], rel=0.2)


@pytest.mark.parametrize("settings", CMT_SETTINGS)
def test_sacks_cut_by_the_capture_still_acknowledge(tmp_path: Path, settings: tuple[str, ...]) -> None:
    # The SACKs have more gap blocks than 96 bytes hold. Chunks of the others count as in flight until a later SACK.
    flow, captures = association(tmp_path, settings, 96)
    data = captures.connection().data
    new = sum(path["bytes_by_kind"]["new"] for path in flow["paths"])
    assert data["bytes"] == new
    assert new - data["acknowledged_bytes"] <= data["flight_bytes"] <= data["window_bytes"]
    assert any("cut or malformed" in each["reason"] for each in captures.document["skipped"])


def test_capture_at_the_receiver_shows_what_arrived(tmp_path: Path) -> None:
    _, whole = simulated(tmp_path)
    _, captures = simulated(tmp_path, ends=("phone",))
    for there, here in zip(whole.connections[0].parts, captures.connections[0].parts, strict=True):
        assert here.bytes == there.way["arrived_bytes"]
        assert (here.way["position"], there.way["position"]) == ("receiver", "sender")
        assert here.way["rtt_mean_s"] == pytest.approx(there.way["rtt_mean_s"], rel=0.25)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("receive-buffer", (SMALL_WINDOW,)),
        ("send-buffer", ("flow.F.send_buffer=32 kB",)),
        ("application", ('flow.F.workload={kind="on-off",rate="6 Mbit/s",on="0.2 s",off="0.4 s"}',)),
        ("path-not-used", ("flow.F.paths=default",)),
        ("backup", ('flow.F.backup=["lte"]',)),
        ("random-loss", ('link.lte.reverse.loss={model="bernoulli",rate=0.02}',)),
        ("scheduler", ("flow.F.scheduler=redundant",)),
        ("scheduler", ("flow.F.scheduler=strict-round-robin",)),
        ("application", ('flow.F.workload={kind="rate",rate="3 Mbit/s"}',)),
        ("unknown", ('flow.F.workload={kind="request-response",response="30 kB"}',)),
        ("path-down", ("link.lte.state=down",)),
        ("control", ("link.lte.reverse.queue.limit=3 MB", "link.lte.reverse.rate=3 Mbit/s")),
        ("bufferbloat", ("link.lte.reverse.queue.limit=3 MB", "link.lte.reverse.rate=3 Mbit/s")),
        ("slow-start", ('flow.F.workload={kind="file",size="60 kB"}', "link.dsl.delay=80 ms", "link.lte.delay=80 ms")),
        ("capacity", ()),
    ],
)
def test_planted_cause_is_among_the_findings(tmp_path: Path, kind: str, settings: tuple[str, ...]) -> None:
    _, captures = simulated(tmp_path, *settings, ends=("server",))
    found = captures.explain()
    assert kind in [each.kind for each in found], [each.sentence for each in found]
    assert len(found) <= 3


def test_full_receive_window_is_found_at_the_receiver(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, SMALL_WINDOW, ends=("phone",))
    first = captures.explain()[0]
    assert (first.kind, first.basis) == ("receive-buffer", "measured")


@pytest.mark.parametrize(("kind", "setting"), [("receive-buffer", "64 kB"), ("capacity", "200 kB")])
def test_full_window_costs_nothing_at_full_links(tmp_path: Path, kind: str, setting: str) -> None:
    _, captures = simulated(tmp_path, f"flow.F.receive_buffer={setting}", ends=("server",))
    (connection,) = captures.connections
    waited = connection.share(connection.data["waits"]["window_s"])
    assert waited > 0.3
    assert connection.is_full == (kind == "capacity")
    assert captures.explain()[0].kind == kind


@pytest.mark.parametrize("end", ["server", "phone"])
def test_slow_return_path_is_named_at_both_ends(tmp_path: Path, end: str) -> None:
    slow = [f"link.{name}.{key}" for name in ("dsl", "lte") for key in ("rate=30 kbit/s", "queue.limit=20 packets")]
    _, captures = simulated(tmp_path, *slow, ends=(end,))
    first = captures.explain()[0]
    assert (first.kind, first.basis) == ("reverse-path", "inferred")
    shown = "one acknowledgement for" if end == "server" else "arrive a second time"
    assert shown in first.sentence


def test_receive_buffer_is_named_with_reinjections(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, "flow.F.receive_buffer=200 kB", ends=("server",))
    document = json.loads(json.dumps(captures.document))
    connection = document["connections"][0]
    way = captures.connections[0].way
    connection["directions"][way]["reinjected_bytes"] = connection["directions"][way]["bytes"] // 4
    found = Captures(document).explain()
    assert {"receive-buffer", "reinjection"} <= {each.kind for each in found}


def test_buffer_and_losses_are_named_as_a_pair(tmp_path: Path) -> None:
    loss = 'link.lte.reverse.loss={model="bernoulli",rate=0.02}'
    _, captures = simulated(tmp_path, "flow.F.receive_buffer=64 kB", loss, ends=("server",))
    found = {each.kind: each for each in captures.explain()}
    pair = found["receive-buffer + random-loss"]
    assert found["receive-buffer"].remedy in pair.remedy
    assert found["random-loss"].remedy in pair.remedy


def test_late_data_in_an_ample_window_are_a_queue(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, "flow.F.receive_buffer=200 kB", ends=("server",))
    document = json.loads(json.dumps(captures.document))
    connection = document["connections"][0]
    way = captures.connections[0].way
    main = max(connection["subflows"], key=lambda subflow: subflow["directions"][way]["bytes"])["directions"][way]
    main["rtt_mean_s"] = 2.0 * main["rtt_min_s"] + 0.05
    assert Captures(document).explain()[0].kind == "capacity"
    connection["directions"][way]["reinjected_bytes"] = connection["directions"][way]["bytes"] // 4
    connection["directions"][way]["waits"]["window_s"] = 0.5 * captures.connections[0].lasts_s
    assert Captures(document).explain()[0].kind == "control"
    # A window that the rate needs without queues is not ample.
    connection["directions"][way]["window_bytes"] = 50_000
    assert Captures(document).explain()[0].kind == "receive-buffer"


@pytest.mark.parametrize(("late", "kind"), [((6.0, 6.0), "reverse-path"), ((1.5, 6.0), "control")])
def test_one_late_subflow_is_no_slow_return_path(tmp_path: Path, late: tuple[float, float], kind: str) -> None:
    _, captures = simulated(tmp_path, ends=("phone",))
    document = json.loads(json.dumps(captures.document))
    way = captures.connections[0].way
    for ratio, subflow in zip(late, document["connections"][0]["subflows"], strict=True):
        found = subflow["directions"][way]
        found |= {
            "position": "middle",
            "rtt_mean_s": ratio * found["rtt_min_s"],
            "lost_before_bytes": found["bytes"] // 10,
        }
    assert Captures(document).explain()[0].kind == kind


def test_receiver_of_sctp_shows_no_idle_sender(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, "flow.F.protocol=cmt-sctp", ends=("phone",))
    connection = captures.connection()
    assert connection.is_beside_receiver
    assert connection.share(connection.data["waits"]["idle_s"]) > 0.1
    assert not {"application", "scheduler"} & {each.kind for each in captures.explain()}


def test_scheduler_is_named_for_answers_on_slow_subflow(tmp_path: Path) -> None:
    requests = 'flow.F.workload={kind="request-response",response="30 kB"}'
    _, captures = simulated(tmp_path, requests, ends=("server",))
    assert captures.explain()[0].kind == "unknown"
    document = json.loads(json.dumps(captures.document))
    way = captures.connections[0].way
    main = max(document["connections"][0]["subflows"], key=lambda subflow: subflow["directions"][way]["bytes"])
    main["directions"][way]["rtt_mean_s"] = 5.0 * main["directions"][way]["rtt_min_s"]
    first, second, last = Captures(document).explain()
    assert (first.kind, first.basis) == ("control", "inferred")
    assert (second.kind, second.basis) == ("scheduler", "inferred")
    assert last.kind == "unknown"


def test_segmentation_offload_does_not_hide_full_links(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, ends=("server",))
    document = json.loads(json.dumps(captures.document))
    for subflow in document["connections"][0]["subflows"]:
        for direction in subflow["directions"]:
            direction["longest"] = 40 * direction["longest"]
    assert Captures(document).explain()[0].kind == "capacity"


def test_links_without_acknowledgements_are_not_full(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, ends=("server",))
    document = json.loads(json.dumps(captures.document))
    for subflow in document["connections"][0]["subflows"]:
        subflow["is_open"] = False
        for direction in subflow["directions"]:
            direction.update(rtt_min_s=None, rtt_mean_s=None, rtt_max_s=None, largest_rate_bps=None)
    captures = Captures(document)
    assert not captures.connections[0].is_full
    assert captures.explain()[0].kind == "unknown"


def test_removed_option_is_a_middlebox(tmp_path: Path) -> None:
    scenario = TWO_PATHS.replace('between = ["phone", "server"]', 'between = ["phone", "box"]')
    box = """
[[link]]
name = "core"
between = ["box", "server"]
rate = "100 Mbit/s"
delay = "1 ms"

[[middlebox]]
node = "box"
does = { kind = "strip-options" }
"""
    file = tmp_path / "box.toml"
    file.write_text(scenario + box, encoding="utf-8")
    done = command("run", str(file), "--pcap", str(tmp_path / "box.pcapng"), "--pcap-end", "server")
    assert done.returncode == 0, done.stderr
    found = read_captures(tmp_path / "box.pcapng").explain()
    assert found[0].kind == "middlebox"


def test_command_prints_subflows_findings_and_a_figure(tmp_path: Path) -> None:
    simulated(tmp_path, SMALL_WINDOW, ends=("server",))
    capture, figure = tmp_path / "run.pcapng", tmp_path / "data.png"
    done = command("explain", str(capture), "--plot", str(figure), "--plot-kind", "sequences")
    assert done.returncode == 0, done.stderr
    assert "1. The sender waits for the receive window" in done.stdout
    assert "(measured, confidence" in done.stdout
    assert figure.stat().st_size > 1000
    document = json.loads(command("explain", str(capture), "--json", "--flow", "1").stdout)
    assert (document["connection"], document["findings"][0]["kind"]) == (1, "receive-buffer")


def test_keys_are_in_the_reference(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, ends=("server",))
    page = (ROOT / "docs/reference/captures.md").read_text(encoding="utf-8")

    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for each in value.values() for key in keys(each)}
        return {key for each in value for key in keys(each)} if isinstance(value, list) else set()

    assert [key for key in keys(dict(captures.document)) if f"| `{key}` |" not in page] == []
    assert [key for key in captures.explain()[0].document() if f"| `{key}` |" not in page] == []


def test_subflows_are_a_table(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, ends=("server",))
    table = captures.subflows()
    assert table.height == 4
    assert table.filter(table["to"] == "server")["bytes"].to_list() == [
        part.bytes for part in captures.connections[0].parts
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty, not a capture"),
        (b"title = 1", "is no capture in pcap or pcapng format"),
        (b"\x1f\x8b\x08\x00", "is compressed with gzip; unpack it first with gunzip"),
        (b"\x0a\x0d\x0d\x0aabcd", "its header is unreadable"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(content)
    done = command("explain", str(file))
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())
    assert len(done.stderr.strip().splitlines()) <= 2


def test_options_of_runs_are_refused(tmp_path: Path) -> None:
    simulated(tmp_path, ends=("server",))
    capture = str(tmp_path / "run.pcapng")
    for options, sentence in [
        (("--seed", "3"), "--seed is for scenarios"),
        (("--set", "duration=1 s"), "--set is for scenarios"),
        (("--flow", "F"), "write for example --flow 1"),
        (("--flow", "9"), "there is no connection 9"),
        (("--plot", str(tmp_path / "x.png"), "--plot-kind", "gains"), "a capture cannot be run again"),
        (("--plot-kind", "sequences"), "--plot-kind needs --plot"),
        ((str(tmp_path / "missing.pcap"),), "cannot be read: No such file"),
    ]:
        done = command("explain", capture, *options)
        assert (done.returncode, sentence in " ".join(done.stderr.split())) == (2, True), done.stderr
    scenario = tmp_path / "two.toml"
    scenario.write_text(TWO_PATHS, encoding="utf-8")
    done = command("explain", str(scenario), str(scenario))
    assert (done.returncode, "only captures can be read together" in " ".join(done.stderr.split())) == (2, True)
    with pytest.raises(InputError, match="0 captures; give 1 to 32"):
        read_captures([])


def test_captures_are_recognised(tmp_path: Path) -> None:
    simulated(tmp_path, ends=("server",))
    other = tmp_path / "run"
    other.write_bytes((tmp_path / "run.pcapng").read_bytes()[:64])
    assert is_capture(other)
    assert not is_capture(tmp_path)
    assert not is_capture(tmp_path / "missing")


def test_how_to_page_shows_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/how-to/slow-aggregate.md").read_text(encoding="utf-8")
    (scenario,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    part = page.split("## Explain a capture")[1]
    (shown,) = re.findall(r"```text\n(.*?)```", part, re.DOTALL)
    (tmp_path / "home.toml").write_text(scenario, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert command("run", "home.toml", "--pcap", "home.pcapng", "--pcap-end", "server").returncode == 0
    assert command("explain", "home.pcapng").stdout.strip() == shown.strip()


KERNEL = """
title = "Two ways"
duration = "3 s"
[[link]]
name = "one"
between = ["A", "B"]
rate = "6 Mbit/s"
delay = "10 ms"
queue = { kind = "fifo", limit = "30 packets" }
[[link]]
name = "two"
between = ["A", "B"]
rate = "4 Mbit/s"
delay = "15 ms"
queue = { kind = "fifo", limit = "30 packets" }
[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "mptcp"
workload = { kind = "file", size = "1 MB" }
"""


@pytest.mark.machine
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.skipif(not Path("/proc/sys/net/mptcp").exists(), reason="this kernel has no Multipath TCP")
@pytest.mark.parametrize(
    "settings", [(), ("flow.F.protocol=tcp",), ('link.two.loss={model="bernoulli",rate=0.02}', "offload=false")]
)
def test_bytes_equal_the_counters_of_the_kernel(tmp_path: Path, settings: tuple[str, ...]) -> None:
    file = tmp_path / "kernel.pcapng"
    scenario = tmp_path / "kernel.toml"
    scenario.write_text(KERNEL, encoding="utf-8")
    options = [part for setting in settings for part in ("--set", setting)]
    done = command("run", str(scenario), "--world", "kernel", "--json", "--pcap", str(file), *options)
    assert done.returncode == 0, done.stderr
    counters = [path["kernel"] for path in json.loads(done.stdout)["flows"][0]["paths"] if path["packets"]]
    (connection,) = read_captures(file).connections
    found = [(part.bytes, part.way["retransmitted_bytes"], part.way["data_packets"]) for part in connection.parts]
    assert found == [(each["bytes_sent"], each["bytes_retrans"], each["data_segs_out"]) for each in counters]


def test_duplicated_losses_point_to_the_scheduler(tmp_path: Path) -> None:
    loss = 'link.lte.reverse.loss={model="bernoulli",rate=0.02}'
    _, captures = simulated(tmp_path, "flow.F.scheduler=redundant", loss, ends=("server",))
    assert "scheduler" in [each.kind for each in captures.explain()]
    assert "send-buffer" not in [each.kind for each in captures.explain()]


def test_unknown_times_show_no_idle_application(tmp_path: Path) -> None:
    _, captures = simulated(tmp_path, 'flow.F.workload={kind="rate",rate="3 Mbit/s"}', ends=("server",))
    document = json.loads(json.dumps(captures.document))
    way = captures.connections[0].way
    assert "application" in [each.kind for each in weak_findings(captures.connection())]
    for subflow in document["connections"][0]["subflows"]:
        subflow["directions"][way] |= {"rtt_min_s": None, "rtt_mean_s": None}
    assert "application" not in [each.kind for each in weak_findings(Captures(document).connection())]
