"""Every study that comes with the package: it loads, its points are valid scenarios, and one of them runs."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from typing import TYPE_CHECKING

import pytest

from anabranch._core.simulator import Request, simulate, validate
from anabranch.fairness.shares import fair
from anabranch.metrics import METRICS, FairnessMetric, read_all, subjects
from anabranch.scenario import Scenario
from anabranch.study.definition import load
from anabranch.study.engine import request_of
from anabranch.study.library import shipped
from registries import shipped_names

if TYPE_CHECKING:
    from anabranch._core.document import Document
    from anabranch.study.model import Study

STUDIES = sorted(shipped())

EXCHANGE = """
duration = "1 s"
[[link]]
between = ["client", "server"]
rate = "10 Mbit/s"
delay = "5 ms"
[[flow]]
from = "client"
to = "server"
protocol = "tcp"
workload = { kind = "request-response", response = "10 kB", count = 3 }
"""
OUTAGE = """
duration = "8 s"
warmup = "1 s"
[[link]]
name = "only"
between = ["client", "server"]
rate = "10 Mbit/s"
delay = "5 ms"
[[flow]]
from = "client"
to = "server"
protocol = "tcp"
[[event]]
at = "2 s"
link = "only"
set = { state = "down" }
[[event]]
at = "3 s"
link = "only"
set = { state = "up" }
"""
SHARED = """
duration = "30 s"
[[link]]
name = "one"
between = ["client", "router"]
rate = "50 Mbit/s"
delay = "5 ms"
[[link]]
name = "two"
between = ["client", "router"]
rate = "50 Mbit/s"
delay = "5 ms"
[[link]]
name = "bottleneck"
between = ["router", "server"]
rate = "10 Mbit/s"
delay = "5 ms"
[[flow]]
from = "client"
to = "server"
protocol = "mptcp"
congestion = "lia"
couple = "shared"
"""
LINK = """
duration = "10 s"
[[link]]
name = "only"
between = ["client", "server"]
rate = "10 Mbit/s"
delay = "5 ms"
[[flow]]
from = "client"
to = "server"
"""
CALL = f"""
{LINK}
protocol = "udp"
voice = "g711"
playout = "40 ms"
workload = {{ kind = "messages", message = "160 B", interval = "20 ms" }}
"""
ARRIVING = f"""
{LINK}
protocol = "tcp"
workload = {{ kind = "file", size = "20 kB", arrivals = {{ mean_interval = "100 ms" }} }}
"""
COSTLY = f"""
{LINK}
protocol = "tcp"
[[host]]
name = "client"
cost = {{ packet = "5 us" }}
"""
OF_CALLS = {"lost", "duplicated", "jitter", "r-factor", "mos"}
"""Metrics of UDP flows only; the last two of calls only."""
OF_ARRIVALS = {
    "arrived",
    "unfinished",
    "refused",
    *(m for m in METRICS if m.startswith(("completion-time-", "slowdown-"))),
}
"""Metrics of flows with arrivals only."""
OF_HOSTS = {"host-utilisation", "host-drops"}
"""Metrics of hosts with a cost only."""
OF_SHARED = {"path-bottleneck-share", "path-coupled-share"}
"""Metrics of paths only, and only if shared bottlenecks are detected."""
OF_LOSSY_PATHS = {"loss-spread"}
"""Metrics of flows with several paths and losses only."""
OF_OUTAGES = {"recovery-time", "recovered-share", "path-back-time"} | {
    "gap",
    "gap-delivered",
    "repeated",
    "first-data-after-event",
}
"""Metrics only of runs with events, and of flows whose links went down and came up again."""
OF_EXCHANGES = {"reverse-goodput", "answers", *(m for m in METRICS if m.startswith("response-time-"))}
"""Metrics of flows only whose remote application answers."""


@pytest.fixture(params=STUDIES)
def study(request: pytest.FixtureRequest) -> Study:
    return load(shipped()[request.param])


def shortened(request: Request) -> Request:
    """Duration: six seconds, or six seconds after the last event. Events occur at whole seconds in every study."""
    last = max((int(e["at"].removesuffix(" s")) for e in tomllib.loads(request.scenario).get("event", ())), default=0)
    return dataclasses.replace(request, overrides=(*request.overrides, f'duration="{last + 6} s"', 'warmup="1 s"'))


def test_every_point_is_a_valid_scenario(study: Study) -> None:
    for effort in (study.quick, study.full):
        for run in study.runs(dataclasses.replace(effort, repetitions=1)):
            validate(request_of(study, run))


def test_one_short_point_of_each_experiment_runs(study: Study) -> None:
    seen = set()
    for run in study.runs(study.quick):
        if run.point.experiment in seen:
            continue
        seen.add(run.point.experiment)
        document = simulate(shortened(request_of(study, run)))
        assert all(flow["goodput_bps"] > 0 for flow in document["flows"]), run.title
    assert seen


def test_quick_points_are_among_the_full_ones(study: Study) -> None:
    full = {p.key for p in study.points(study.full)}
    assert {p.key for p in study.points(study.quick)} <= full


def test_only_paired_variants_share_seeds(study: Study) -> None:
    variants: dict[int, set[object]] = {}
    for run in study.runs(study.full):
        apart = {name: value for name, value in run.point.values.items() if name not in study.paired}
        variants.setdefault(run.seed, set()).add((run.point.experiment, run.repetition, *apart.items()))
    assert all(len(apart) == 1 for apart in variants.values())


def test_controls_and_schedulers_are_paired(study: Study) -> None:
    for name, parameter in study.parameters.items():
        keys = {key.rpartition(".")[2] for sets in (parameter.sets, *parameter.choices.values()) for key in sets}
        if keys & {"congestion", "scheduler"} and "protocol" not in keys:
            assert name in study.paired


def test_figures_and_labels_name_existing_subjects(study: Study) -> None:
    for figure in study.figures:
        over = study.experiments[figure.experiment].over
        for parameter in (figure.x, figure.rows, figure.columns, *figure.where):
            assert not parameter or parameter in over, (figure.name, parameter)


@pytest.mark.parametrize(("parameter", "kind"), [("scheduler", "schedulers"), ("control", "congestion")])
def test_matrix_varies_over_all_entries(parameter: str, kind: str) -> None:
    values = load(shipped()["matrix"]).parameters[parameter].values
    assert sorted(map(str, values)) == sorted(shipped_names(kind))


def test_every_published_value_has_its_point() -> None:
    study = load(shipped()["lugowski2017-bottleneck"])
    assert study.published is not None
    found = sum(len(study.published.at(point)) for point in study.points(study.full))
    assert found == len(study.published.rows)


def test_every_metric_is_in_a_real_result() -> None:
    study = load(shipped()["lugowski2017-bottleneck"])
    one_way = simulate(shortened(request_of(study, study.runs(study.quick)[0])))
    exchange = simulate(Request(EXCHANGE, "exchange.toml"))
    request = request_of(study, study.runs(study.quick)[0])
    fairness = fair(Scenario(request.scenario, request.file, request.overrides))
    outage = simulate(Request(OUTAGE, "outage.toml"))
    shared = simulate(Request(SHARED, "shared.toml"))
    call, arriving, costly = (simulate(Request(text, "link.toml")) for text in (CALL, ARRIVING, COSTLY))
    places = (
        dict.fromkeys(OF_EXCHANGES, exchange)
        | dict.fromkeys(OF_CALLS, call)
        | dict.fromkeys(OF_ARRIVALS, arriving)
        | dict.fromkeys(OF_HOSTS, costly)
        | dict.fromkeys(OF_OUTAGES, outage)
        | dict.fromkeys(OF_SHARED | OF_LOSSY_PATHS, shared)
    )
    of_one_way = _by_metric(one_way)
    for metric in METRICS.values():
        if isinstance(metric, FairnessMetric):
            values = metric.of(of_one_way["goodput"], fairness)
            assert values, metric.name
            assert all(value == value for value in values.values()), metric.name  # noqa: PLR0124  no NaN
        else:
            document = places.get(metric.name, one_way)
            assert _by_metric(document)[metric.name].keys() == {name for name, _ in subjects(document, metric.level)}, (
                metric.name
            )


def test_flow_recovers_at_the_next_timer_expiry() -> None:
    (flow,) = simulate(Request(OUTAGE, "outage.toml"))["flows"]
    # After a second without an answer the timer has doubled to just above a second; then the window grows again.
    assert 0.0 < flow["recovery_s"] < 2.0
    assert 0.95 < flow["recovered_share"] < 1.05


def _by_metric(document: Document) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for metric, subject, value in read_all(document):
        assert subject not in found.setdefault(metric, {})
        found[metric][subject] = value
    return found


def test_path_with_new_data_counts_as_usable() -> None:
    path = {"data_packets": 9, "retransmissions": 2, "reinjections": 6}
    resent_only = {**path, "reinjections": 7}
    from_the_kernel = {**path, "reinjections": None}
    silent = {"data_packets": 0, "retransmissions": 0, "reinjections": 0}
    flow = {"name": "F", "paths": [path, resent_only, from_the_kernel, silent]}
    assert METRICS["usable-paths"].value(flow) == 2.0


def test_loss_spread_compares_the_paths() -> None:
    def path(sent: int, lost: int) -> dict[str, int]:
        return {"data_packets": sent, "retransmissions": lost}

    def spread(*paths: dict[str, int]) -> float:
        return METRICS["loss-spread"].value({"name": "F", "paths": list(paths)})

    assert METRICS["path-loss"].value(path(200, 3)) == 1.5
    assert math.isnan(METRICS["path-loss"].value(path(0, 0)))
    assert spread(path(100, 2), path(1000, 20), path(0, 0)) == 0.0
    assert spread(path(100, 3), path(100, 1)) == pytest.approx(1.0)
    assert spread(path(100, 3), path(100, 0), path(100, 0)) == pytest.approx(3.0)
    assert math.isnan(spread(path(100, 3)))
    assert math.isnan(spread(path(100, 0), path(100, 0)))
