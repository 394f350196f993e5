"""The native module matches its stub file and behaves as Python expects of a module."""

from __future__ import annotations

import ast
import inspect
import json
import threading
from pathlib import Path

import pytest

from anabranch import _native
from command import interrupted

STUB = Path(_native.__file__).with_name("_native.pyi")

SCENARIO = """
duration = "10 s"
[[link]]
name = "wire"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
[[flow]]
name = "flow"
from = "a"
to = "b"
protocol = "tcp"
"""


def stub() -> dict[str, ast.FunctionDef | ast.ClassDef]:
    nodes = ast.parse(STUB.read_text(encoding="utf-8")).body
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_stub_lists_the_names_of_the_module() -> None:
    public = {name for name in vars(_native) if not name.startswith("_")}
    assert set(stub()) == public


@pytest.mark.parametrize("name", sorted(n for n, node in stub().items() if isinstance(node, ast.FunctionDef)))
def test_stub_has_the_parameters_of_the_module(name: str) -> None:
    promised = stub()[name]
    assert isinstance(promised, ast.FunctionDef)
    real = inspect.signature(getattr(_native, name)).parameters.values()
    assert [argument.arg for argument in promised.args.args] == [parameter.name for parameter in real]
    defaults = [p.default for p in real if p.default is not inspect.Parameter.empty]
    assert [ast.literal_eval(default) for default in promised.args.defaults] == defaults
    assert getattr(_native, name).__doc__


def test_mistake_has_line_and_column() -> None:
    with pytest.raises(_native.InputError) as caught:
        _native.validate(SCENARIO.replace("Mbit/s", "Mbps"), "folder/x.toml", [])
    assert isinstance(caught.value, ValueError)
    assert (caught.value.file, caught.value.line) == ("folder/x.toml", 6)
    assert caught.value.args == ('rate of link "wire": unknown unit "Mbps" in "10 Mbps"; did you mean "10 Mbit/s"?',)


def test_mistake_in_an_override_names_it() -> None:
    with pytest.raises(_native.InputError) as caught:
        _native.validate(SCENARIO, "x.toml", ["link.wire.rate=20 Mbit/s", "flow.flow.congestion=rno"])
    assert caught.value.line is None
    assert str(caught.value).startswith("--set flow.flow.congestion=rno: ")
    assert str(caught.value).endswith('did you mean "reno"?')


def test_each_kind_has_a_described_list() -> None:
    assert {"congestion", "schedulers", "queues"} <= set(_native.kinds())
    for kind in _native.kinds():
        entries = _native.list(kind)
        assert entries
        assert all(name and description for name, description in entries)


def test_result_contains_its_scenario() -> None:
    result = json.loads(_native.run(SCENARIO, "x.toml", ["flow.flow.congestion=cubic"], seed=7))
    assert result["seed"] == result["scenario"]["seed"] == 7
    assert result["scenario"]["flow"][0]["congestion"] == "cubic"
    assert result["scenario"]["link"][0]["queue"] == {"kind": "fifo", "limit": "100 packets"}


def test_progress_rises_from_zero_to_one() -> None:
    shares: list[float] = []
    _native.run(SCENARIO, "x.toml", [], progress_callback=shares.append)
    assert shares == sorted(shares)
    assert shares[0] >= 0
    assert shares[-1] == 1


def test_callback_exception_stops_the_run() -> None:
    def stop(share: float) -> None:
        raise LookupError(share)

    with pytest.raises(LookupError):
        _native.run(SCENARIO, "x.toml", [], progress_callback=stop)


def test_other_threads_run_during_a_run() -> None:
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    counter = threading.Thread(target=count)
    counter.start()
    try:
        _native.run(SCENARIO, "x.toml", ['duration="300 s"'])
    finally:
        done.set()
        counter.join()
    assert ticks > 0


def test_ctrl_c_stops_a_run() -> None:
    script = (
        "from anabranch import _native\n"
        "report = lambda share: print('running', flush=True) if share < 1e-6 else None\n"
        f"_native.run({SCENARIO!r}, 'x.toml', ['duration=\"1000000 s\"'], progress_callback=report)\n"
    )
    assert "KeyboardInterrupt" in interrupted(script, "running")
