"""The cost of packets at hosts: its metrics in studies, and the worlds that have it."""

import json

import pytest

import anabranch
from anabranch import _native
from anabranch.errors import InputError
from anabranch.metrics import read_all
from anabranch.testbed.settings import settings

# 200 packets a second, which take 3 ms each at D.
DATAGRAMS = """
duration = "4 s"
warmup = "1 s"
[[link]]
name = "a"
between = ["S", "D"]
rate = "100 Mbit/s"
delay = "10 ms"
[[host]]
name = "D"
cost = { packet = "3 ms" }
[[flow]]
name = "in"
from = "S"
to = "D"
protocol = "udp"
workload = { kind = "rate", rate = "1.6 Mbit/s", message = "1000 B" }
"""


def test_hosts_have_metrics() -> None:
    document = anabranch.run(anabranch.Scenario.from_toml(DATAGRAMS)).document
    values = {(metric, subject): value for metric, subject, value in read_all(document) if metric.startswith("host-")}
    assert values == {("host-drops", "D"): 0, ("host-utilisation", "D"): pytest.approx(60, abs=0.2)}


def test_kernel_refuses_cost() -> None:
    layout = json.loads(_native.layout(DATAGRAMS, "s.toml", []))
    with pytest.raises(InputError, match=r'host "D": cost has no meaning in the kernel\'s world'):
        settings(layout)


def test_cost_of_zero_runs_on_kernels() -> None:
    layout = json.loads(_native.layout(DATAGRAMS.replace("3 ms", "0 ms"), "s.toml", []))
    assert set(settings(layout)) == {"S", "D"}


def test_packets_cost_as_much_in_real_time() -> None:
    document = anabranch.run(anabranch.Scenario.from_toml(DATAGRAMS), world="user").document
    (host,) = document["hosts"]
    assert host["utilisation"] == pytest.approx(0.6, abs=0.05)
    # 80 us of serialisation, 10 ms of propagation, and the service at the host.
    delay = document["flows"][0]["delivery_delay_s"]
    assert delay is not None
    assert delay["p50"] >= 0.013
