"""Options of the meter's flows, in the notation of NetPerfMeter: accepted and refused ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch.errors import InputError
from anabranch.meter.flows import specified
from anabranch.meter.plan import TestPlan
from anabranch.meter.specification import Distribution, Switches, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

FLOWS = (Path(__file__).parent / "meter" / "netperfmeter_flows.txt").read_text(encoding="utf-8").splitlines()[1:]
LINE = "tcp:const0:const1400:const0:const0"


def options(text: str) -> Mapping[str, object]:
    """The options of a flow for the native module."""
    (plan,) = specified(text, 1)
    return plan.options


def test_hundred_flows_of_netperfmeter_are_read() -> None:
    assert len(set(FLOWS)) >= 100
    for line in FLOWS:
        flow = parse(line)
        assert line.startswith(f"{flow.protocol}:")
        given = [part for part in re.split(r":|,(?=rtx_|unrel)", line) if "=" in part]
        assert list(flow.options) == [part.split("=")[0] for part in given]


def test_every_kind_of_option_is_read() -> None:
    flow = parse(
        "sctp:exp2.5:uniform10,20:3:pareto100,1.5:id=7:description=a b:maxmsgsize=1400:defragtimeout=5000:"
        "unordered=0.25:unreliable=0.5,rtx_timeout=250:rtx_trials=3:sndbuf=100000:rcvbuf=200000:onoff=0,+2.5,+exp3:"
        "nodelay=on:cc=cubic:ccid=2:cmt=cmtrpv2:ndiffports=4:pathmgr=fullmesh:scheduler=default:error_on_abort=off:"
        "debug=off:v6only"
    )
    assert flow.outgoing.rate == Distribution("exp", (2.5,))
    assert flow.incoming is not None
    assert (flow.incoming.rate, flow.incoming.size) == (Distribution("const", (3,)), Distribution("pareto", (100, 1.5)))
    kinds = ((False, "const", 0.0), (True, "const", 2.5), (True, "exp", 3.0))
    times = tuple((relative, Distribution(kind, (mean,))) for relative, kind, mean in kinds)
    assert flow.options == {
        "id": 7, "description": "a b", "maxmsgsize": 1400, "defragtimeout": 5000, "unordered": 0.25, "unreliable": 0.5,
        "rtx_timeout": 250, "rtx_trials": 3, "sndbuf": 100_000, "rcvbuf": 200_000, "onoff": Switches(times, False),
        "nodelay": True, "cc": "cubic", "ccid": 2, "cmt": "cmtrpv2", "ndiffports": 4, "pathmgr": "fullmesh",
        "scheduler": "default", "error_on_abort": False, "debug": False, "v6only": True,
    }  # fmt: skip
    assert parse("udp:default").outgoing.rate.values == (25,)


@pytest.mark.parametrize(
    ("more", "carried"),
    [
        ("id=3:description=A b", {"id": 3, "description": "A b"}),
        ("maxmsgsize=1000", {"max_message": 1000}),
        ("sndbuf=100000:rcvbuf=50000", {"send_buffer": 100_000, "receive_buffer": 50_000}),
        ("ordered=1:unordered=0:reliable=1", {}),
        ("onoff=1,4,+2", {"on_off": {"times_s": [1.0, 4.0, 6.0], "repeats": False}}),
        ("onoff=+1,+2,repeat", {"on_off": {"times_s": [1.0, 3.0], "repeats": True}}),
        ("nodelay=on", {"nagle": False}),
        ("nodelay=off", {"nagle": True}),
        ("cc=reno", {"congestion": "reno"}),
        ("cmt=off", {}),
        ("cmt=mptcp:scheduler=default:pathmgr=default", {"scheduler": "default"}),
        ("cmt=like-mptcp:pathmgr=kernel", {"path_manager": "kernel"}),
        ("error_on_abort=off", {"tolerates_abort": True}),
        ("error_on_abort=on:debug=off", {"tolerates_abort": False}),
    ],
)
def test_supported_options_are_carried_out(more: str, carried: dict[str, Any]) -> None:
    assert options(f"{LINE}:{more}") == carried


def test_options_of_sctp_are_carried_out() -> None:
    line = "sctp:const2:const1000:const3:const500"
    for more, carried in [
        ("unordered=0.9:unreliable=0.3,rtx_timeout=250", {"unordered": 0.9, "unreliable": 0.3, "rtx_timeout_ms": 250}),
        ("ordered=0.25:reliable=0", {"unordered": 0.75, "unreliable": 1.0}),
        ("unreliable=1:rtx_trials=2", {"unreliable": 1.0, "rtx_trials": 2}),
        ("ordered=1:reliable=1:association=3", {"association": 3}),
        ("cc=cubic:nodelay=off", {"congestion": "cubic", "nagle": True}),
    ]:
        first, back = specified(f"{line}:{more}", 1)
        assert first.options == carried
        assert back.options == {**carried, "shares_connection": True}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{LINE}:id=-1", "write a whole number from 0"),
        (f"{LINE}:id=1:id=2", 'the option "id" is given twice'),
        (f"{LINE}:description=", "write a name of 1 to 255 printable characters"),
        (f"{LINE}:maxmsgsize=70000", "write a whole number from 1 to 65535"),
        (f"{LINE}:defragtimeout=100", "this meter counts messages, not frames"),
        (f"{LINE}:ordered=1.5", "write a fraction from 0 to 1"),
        (f"{LINE}:unordered=0.5", "all messages over tcp are ordered; write ordered=1"),
        (f"{LINE}:ordered=0.7:unordered=0.7", "must add up to 1"),
        ("udp:const5:const100:reliable=1", "all messages over udp are unreliable; write unreliable=1"),
        ("sctp:const5:const100:unreliable=1.5", "write a fraction from 0 to 1"),
        ("sctp:const5:const100:rtx_timeout=250", "rtx_timeout needs unreliable messages"),
        ("sctp:const5:const100:unreliable=0:rtx_trials=2", "rtx_trials needs unreliable messages"),
        ("sctp:const5:const100:unreliable=1:rtx_trials=2:rtx_timeout=9", "exclude each other"),
        ("sctp:const5:const100:unreliable=1:rtx_trials=256", "write a whole number from 0 to 255"),
        (f"{LINE}:rtx_trials=2", "rtx_trials is an option of sctp; omit it with tcp"),
        (f"{LINE}:association=2", "association is an option of sctp"),
        (f"{LINE}:sndbuf=0", "write a whole number from 1"),
        (f"{LINE}:rcvbuf=lots", "write a whole number from 1"),
        (f"{LINE}:onoff=", "write times in seconds"),
        (f"{LINE}:onoff=+1,+2,+3,repeat", "an even number of times"),
        (f"{LINE}:onoff=1,2,repeat", "each with a +"),
        (f"{LINE}:onoff=+exp3", "random times of onoff are not supported"),
        (f"{LINE}:start=1:onoff=3", "start and onoff exclude each other"),
        (f"{LINE}:start=soon", "write a time in seconds"),
        (f"{LINE}:nodelay=yes", "write on or off"),
        ("udp:const5:const100:nodelay=on", "nodelay is an option of tcp, mptcp and sctp"),
        ("udp:const5:const100:cc=reno", "cc is an option of tcp, mptcp and sctp"),
        (f"{LINE}:cmt=on", "write one of off, cmt, cmtrpv1"),
        ("sctp:const5:const100:cmt=cmtrpv2", "sends new data over one path"),
        (f"mp{LINE}:cmt=off", "cmt=off contradicts the protocol mptcp"),
        (f"mp{LINE}:ndiffports=2", "the path manager opens subflows"),
        (f"{LINE}:pathmgr=kernel", "pathmgr is an option of mptcp"),
        (f"{LINE}:scheduler=default", "scheduler is an option of mptcp"),
        (f"{LINE}:error_on_abort=0", "write on or off"),
        (f"{LINE}:debug=on", "this meter sets no SO_DEBUG"),
        (f"{LINE}:ccid=2", "it is an option of DCCP"),
        (f"{LINE}:v6only", "write the option -6 instead"),
        (f"{LINE}:maxmsgsiz=9", 'did you mean "maxmsgsize"?'),
        ("tcp:onoff=3:const0:const9", "then options"),
        ("dccp:const0:const1400", "this meter has no DCCP, which Linux has removed; use udp"),
    ],
)
def test_unsupported_options_are_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)) as raised:
        specified(text, 1)
    assert str(raised.value).startswith(f"--flow {text}: ")


def test_directions_with_other_workloads_share_a_connection() -> None:
    flows = specified("tcp:const5:const1000:const3:exp500:start=0.5", 1)
    assert [(flow.direction, flow.shares_connection) for flow in flows] == [("forward", False), ("reverse", True)]
    plan = TestPlan(flows)
    assert plan.names == ["tcp-1"]
    document = json.loads(plan.json())
    assert document["options"] == [{}, {"shares_connection": True}]
    assert document["scenario"].count('start = "0.500000000 s"') == len(flows)
