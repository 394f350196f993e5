"""A flow without data is reported with the cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
from anabranch.diagnostics import diagnose
from anabranch.study.readings import DocumentParts
from anabranch.study.silences import runs_to_diagnose
from stored_documents import records_of

if TYPE_CHECKING:
    from anabranch._core.document import Document

PAIR = """
duration = "6 s"
warmup = "3 s"

[[link]]
name = "wire"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"

[[flow]]
name = "stream"
from = "a"
to = "b"
protocol = "tcp"

[[flow]]
name = "datagrams"
from = "b"
to = "a"
protocol = "udp"
workload = { kind = "on-off", on = "1 s", off = "1 s", rate = "1 Mbit/s" }
"""


def said(*settings: str) -> list[str]:
    return diagnosed(anabranch.Scenario.from_toml(PAIR).with_settings(settings))


def diagnosed(scenario: anabranch.Scenario) -> list[str]:
    """The sentences on a run. The fast check before them has to be true for each flow that they are about."""
    document = anabranch.run(scenario).document
    alone: list[Document] = [{**document, "flows": [flow]} for flow in document["flows"]]
    suspects = runs_to_diagnose(DocumentParts(records_of(alone).documents)).tolist()
    assert all(at in suspects or not diagnose(each) for at, each in enumerate(alone))
    return diagnose(document)


def test_flows_with_data_have_no_diagnostics() -> None:
    assert said() == []


def test_link_with_full_loss_is_named() -> None:
    stream, datagrams = said('link.wire.loss={ model = "bernoulli", rate = 1 }')
    assert stream.startswith('"stream" never connected: link "wire" lost all ')
    assert " packets towards b" in stream
    assert datagrams.startswith('"datagrams" never delivered anything: link "wire" lost all ')
    assert " packets towards a" in datagrams


def test_reverse_path_with_full_loss_is_named() -> None:
    (stream,) = said('link.wire.reverse.loss={ model = "bernoulli", rate = 1 }')[:1]
    assert stream.startswith('"stream" never connected: link "wire" lost all ')
    assert stream.endswith(" packets towards a.")


def test_link_that_is_down_is_named() -> None:
    stream, datagrams = said("link.wire.state=down")
    assert stream == '"stream" never connected: link "wire" was down for all 3 packets towards b.'
    assert datagrams.startswith('"datagrams" never delivered anything: link "wire" was down for all ')


def test_receive_buffer_of_one_byte_is_named() -> None:
    (stream,) = said('flow.stream.receive_buffer="1 B"')
    assert stream.startswith('"stream" delivered no more than ')
    assert stream.endswith("its receive buffer of 1 B holds less than one packet.")


def test_completion_before_the_measurement_is_named() -> None:
    (stream,) = said('flow.stream.workload={ kind = "file", size = "1 MB" }')
    assert stream.startswith('"stream" delivered its 1,000,000 bytes before measuring began at 3 s: it was done after')


def test_fallback_to_plain_tcp_is_named() -> None:
    settings = ("flow.stream.protocol=mptcp", "flow.stream.congestion=lia")
    # The first link stays up. A SYN is retransmitted at once when the interface for which it waits comes up.
    text = PAIR.replace('between = ["a", "b"]', 'between = ["a", "r"]')
    behind = """
[[link]]
name = "behind"
between = ["r", "b"]
rate = "10 Mbit/s"
state = "down"

[[event]]
at = "2 s"
link = "behind"
set = { state = "up" }
"""
    scenario = anabranch.Scenario.from_toml(text + behind).with_settings(settings)
    (stream,) = diagnosed(scenario)
    assert stream.startswith('"stream" fell back to plain TCP and had one path: two SYNs were lost, or ')
    without = anabranch.Scenario.from_toml(f'{PAIR}[[host]]\nname = "b"\nmptcp = false\n').with_settings(settings)
    (stream,) = diagnosed(without)
    assert stream.endswith('host "b" does not support Multipath TCP (mptcp = false).')


def test_translator_blocks_connections_from_outside() -> None:
    text = (
        PAIR.replace('between = ["a", "b"]', 'between = ["a", "n"]')
        + """
[[link]]
name = "inner"
between = ["n", "b"]
rate = "10 Mbit/s"

[[middlebox]]
node = "n"
from = ["inner"]
does = { kind = "nat" }
"""
    )
    result = anabranch.run(anabranch.Scenario.from_toml(text))
    (stream,) = result.diagnostics
    assert stream.startswith('"stream" never connected: the middlebox at "n" (nat) dropped 3 of ')
    (row,) = result.middleboxes.rows(named=True)
    assert (row["node"], row["kind"], row["dropped"]) == ("n", "nat", 3)
    assert row["changed"] > 100, "packets from inside pass the middlebox"


def test_missing_route_to_the_address_is_named() -> None:
    """The route to b's first address is missing; its second address is reachable."""
    link = '[[link]]\nname = "other"\nbetween = ["a", "b"]\nrate = "1 Mbit/s"\n'
    scenario = anabranch.Scenario.from_toml(PAIR + link + '[[host]]\nname = "a"\ndefault_route = "other"\n')
    stream = diagnosed(scenario)[0]
    assert stream == '"stream" never connected: host a has no route to the address of b that the flow connects to.'


def test_subflow_that_never_opens_has_a_sentence() -> None:
    text = PAIR.split("[[flow]]", maxsplit=1)[0]
    text += text[text.index("[[link]]") :].replace('"wire"', '"second"')
    text += '[[flow]]\nname = "multipath"\nfrom = "a"\nto = "b"\nprotocol = "mptcp"\n'
    scenario = anabranch.Scenario.from_toml(text)
    assert anabranch.run(scenario).diagnostics == []
    (sentence,) = anabranch.run(
        scenario.with_settings(('link.second.loss={ model = "bernoulli", rate = 1 }',))
    ).diagnostics
    reason = "its handshake got no answer"
    assert sentence.startswith(f'Path "second" of "multipath" never opened: {reason}; link "second" lost all ')


def test_router_that_drops_source_routes_is_named() -> None:
    text = (Path(__file__).parents[1] / "examples/gateways.toml").read_text(encoding="utf-8")
    scenario = anabranch.Scenario.from_toml(text).with_settings(
        ('duration="8 s"', "router.G1.source_routes=drop", "router.G2.source_routes=drop")
    )
    first, second = anabranch.run(scenario).diagnostics[:2]
    remedy = 'to follow them, it needs source_routes = "forward" in its [[router]].'
    for sentence, router in ((first, "G2"), (second, "G1")):
        assert "never opened: its handshake got no answer" in sentence
        assert f'router "{router}" dropped' in sentence
        assert sentence.endswith(remedy)
