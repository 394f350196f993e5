"""`anabranch emulate`, `testbed` and `doctor`: a scenario's network for any program."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli import paths
from anabranch.errors import InputError, RunFailed, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch._core.document import LatenessResult
    from anabranch._core.simulator import Request
    from anabranch.testbed.bed import Links, Lock, Testbed

_READY = "ready"
_START_TIMEOUT_S = 30.0
"""Time limit for the start or the removal of a testbed."""

_file = click.argument("scenario", type=click.Path())
_set = click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True,
    help='Change a setting, e.g. link.beta.rate="20 Mbit/s". May be repeated.',
)  # fmt: skip
_spin = click.option(
    "--spin", "spin_us", metavar="MICROSECONDS", type=click.IntRange(0, 10_000), default=0, show_default=True,
    help="Poll the clock for this time before a packet is due; more exact than sleeping, but uses a core.",
)  # fmt: skip
_links = click.option(
    "--links", type=click.Choice(["emulator", "netem"]), default="emulator", show_default=True,
    help="Emulate links by the simulator's network, or by the kernel's netem and tbf where available.",
)  # fmt: skip
_machine = click.option(
    "--machine", type=click.Choice(["a", "b"]),
    help="Start the part of a machine. Without it, the whole network is on this machine.",
)  # fmt: skip
_part = click.option(
    "--machine", type=click.Choice(["a", "b"]),
    help="Part of a testbed on two machines; else the only one here.",
)  # fmt: skip


@click.command(
    context_settings={"ignore_unknown_options": True}, short_help="Run a command on a host of a scenario's network"
)
@_file
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--in", "host", metavar="HOST", help="Host to run it on; by default the first flow's sending host.")
@_set
@_spin
@_links
@paths.option
def emulate(
    scenario: str,
    command: tuple[str, ...],
    host: str | None,
    settings: tuple[str, ...],
    spin_us: int,
    links: Links,
    allow_paths: bool,
) -> int:
    """Run COMMAND on a host of SCENARIO's network: anabranch emulate S.toml -- ping D0.

    The names of the scenario's hosts resolve to their addresses there; $ANABRANCH_HOSTS lists the network namespaces of
    all hosts, for `ip netns exec`. The scenario's events happen in real time, counted from the start. The exit status
    is the command's.
    """
    from anabranch.testbed import rootless

    rootless.restart_in_user_namespace()
    from anabranch.testbed.bed import Testbed

    network = Testbed(_request(scenario, settings, allow_paths), spin_us=spin_us, links=links)
    name = _host(network, host or network.flows[0]["from"])
    with network as bed:
        bed.start()
        status = _run(bed, name, list(command))
        _report_lateness(bed.stop())
    return status


@click.group(short_help="Keep a scenario's network up and enter its hosts")
def testbed() -> None:
    """Keep a scenario's network up, enter its hosts, and take it down again."""


@testbed.command()
@_file
@_set
@_spin
@_links
@_machine
@paths.option
def up(
    scenario: str, settings: tuple[str, ...], spin_us: int, links: Links, machine: str | None, allow_paths: bool
) -> None:
    """Start SCENARIO's hosts and network, which stay up until "down".

    With --machine, start the part of one of two machines, and wait for the other one for a minute. Prints a line for
    each host on this machine: its name, its network namespace and its addresses.
    """
    _need_root("up")
    from anabranch.testbed import reasons
    from anabranch.testbed.bed import Testbed, holder

    name = _name(scenario, machine)
    if holder(name) is not None:
        raise InputError("this testbed is up already; use: anabranch testbed down", scenario)
    # Errors of the scenario must be reported here, not by the background process.
    bed = Testbed(_request(scenario, settings, allow_paths), name, links=links, machine=machine)
    reasons.take(name)
    options = [part for setting in settings for part in ("--set", setting)]
    options += ["--allow-paths"] if allow_paths else []
    if machine is not None:
        options += ["--machine", machine]
        click.echo(f"anabranch: waiting for machine {'b' if machine == 'a' else 'a'}", err=True)
    keeper = subprocess.Popen(
        [sys.executable, "-m", "anabranch", "testbed", "keep", scenario, *options,
         "--spin", str(spin_us), "--links", links],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True,
    )  # fmt: skip
    assert keeper.stdout is not None
    try:
        said = keeper.stdout.readline().strip()
    except KeyboardInterrupt:
        # The process has its own session, which receives no Ctrl-C.
        keeper.terminate()
        keeper.wait(_START_TIMEOUT_S)
        raise
    if said != _READY:
        keeper.wait(_START_TIMEOUT_S)
        raise InputError(said.removeprefix("anabranch: ") or "the testbed did not come up")
    _table([(host, namespace, *bed.addresses(host).values()) for host, namespace in bed.namespaces.items()])


@testbed.command("list", short_help="List the testbeds that are up")
def list_() -> None:
    """List the testbeds that are up, including those of runs: name, process, scenario and machine.

    Below each testbed that `testbed set` can change are the present values of its links and its tunnels' packet counts.
    """
    from anabranch.testbed.bed import kept, present, tunnels

    found = kept()
    if not found:
        click.echo("anabranch: no testbed is up", err=True)
    rows: list[tuple[str, ...]] = [
        (
            name,
            str(content.get("pid", "")),
            str(content.get("file", "")),
            *([f"machine {content['machine']}"] if "machine" in content else []),
        )
        for name, content in found.items()
    ]
    for name, row in zip(found, _aligned(rows), strict=True):
        click.echo(row)
        try:
            links, counters = present(name), tunnels(name)
        except (InputError, RunFailed):
            # Only the owner can read the values.
            continue
        for line in _aligned([row for link, models in links for row in _link_rows(link, models)]):
            click.echo(f"  {line}")
        for line in _aligned([_counter_row(of_tunnel) for of_tunnel in counters]):
            click.echo(f"  {line}")


@testbed.command("set", short_help="Change the links of a testbed that is up")
@_file
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option(
    "--direction", type=click.Choice(["both", "forward", "reverse"]), default="both", show_default=True,
    help="Directions of the links to change.",
)  # fmt: skip
@_part
def set_(scenario: str, settings: tuple[str, ...], direction: str, machine: str | None) -> None:
    """Change links of SCENARIO's testbed, which is up: anabranch testbed set S.toml link.wlan.rate="5 Mbit/s".

    The keys of a link are rate, delay, jitter, loss, queue, state and reorder. All settings of a call apply at once, or
    none. With two machines, each changes the directions of links that begin at its nodes. Prints the old and the new
    values.
    """
    _need_root("set")
    from anabranch.testbed.bed import change

    name, found = _present(scenario, machine)
    if found.get("links") == "netem":
        raise InputError(
            "links of netem cannot be changed; start the testbed without --links netem: anabranch testbed up", scenario
        )
    directions: dict[tuple[str, ...], list[str]] = {}
    for value in change(name, settings, direction):
        for key, old, new in _differences(value["key"], value["old"], value["new"]):
            directions.setdefault((f"link.{value['link']}.{key}", old, new), []).append(value["direction"])
    _table([(key, " and ".join(of), old, "->", new) for (key, old, new), of in directions.items()])


@testbed.command(hidden=True)
@_file
@_set
@_spin
@_links
@_machine
@paths.option
def keep(
    scenario: str, settings: tuple[str, ...], spin_us: int, links: Links, machine: str | None, allow_paths: bool
) -> None:
    """Keep a testbed up until a signal ends this process."""
    from anabranch.testbed import reasons
    from anabranch.testbed.bed import Testbed

    told = False

    def end(*_: object) -> None:
        nonlocal told
        told = True

    name = _name(scenario, machine)
    request = _request(scenario, settings, allow_paths)
    with Testbed(request, name, spin_us=spin_us, links=links, machine=machine) as bed:
        # Until then, a signal raises an exception: the start may wait for another machine.
        bed.start()
        signal.signal(signal.SIGTERM, end)
        click.echo(_READY)
        sys.stdout.flush()
        # The parent has closed its end of the pipe.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        while not told and not bed.broken:
            time.sleep(0.05)
        try:
            bed.stop()
        except RunFailed as error:
            reasons.note(name, str(error))
            raise


@testbed.command(
    context_settings={"ignore_unknown_options": True}, short_help="Run a command or a shell on a host of a testbed"
)
@_file
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--in", "host", metavar="HOST", help="Host to enter; by default the first flow's sending host.")
@_part
@paths.option
def shell(scenario: str, command: tuple[str, ...], host: str | None, machine: str | None, allow_paths: bool) -> int:
    """Run COMMAND, or a shell, on a host of SCENARIO's testbed, which is up."""
    _need_root("shell")
    from anabranch.testbed.bed import Testbed

    present, content = _present(scenario, machine)
    bed = Testbed(_request(scenario, (), allow_paths), present, machine=content.get("machine"))
    name = _host(bed, host or bed.flows[0]["from"])
    return _run(bed, name, list(command) or [os.environ.get("SHELL", "/bin/sh")])


@testbed.command(short_help="Take a testbed down and clean up dead ones")
@click.argument("scenario", type=click.Path(), required=False)
@_part
def down(scenario: str | None, machine: str | None) -> None:
    """Take SCENARIO's testbed down, and remove the remains of testbeds whose process has ended.

    If this is one part of a testbed on two machines, the part on the other machine ends, too.
    """
    _need_root("down")
    from anabranch.testbed import reasons
    from anabranch.testbed.bed import holder, sweep

    if scenario is not None:
        name = _only(scenario, machine)
        found = holder(name)
        if found is not None:
            process = int(found.get("pid", 0))
            if process <= 1:
                raise RunFailed("the testbed is still starting; try again later")
            os.kill(process, signal.SIGTERM)
            deadline = time.monotonic() + _START_TIMEOUT_S
            while holder(name) is not None:
                if time.monotonic() > deadline:
                    raise RunFailed(f"process {process}, which owns the testbed, did not stop in time; kill it")
                time.sleep(0.02)
            click.echo("taken down")
        elif not Path(scenario).exists():
            raise InputError("no such file, and no testbed of it is up", scenario)
        else:
            reason = reasons.take(name)
            click.echo("this testbed is not up" if reason is None else f"this testbed has ended: {reason}")
    for namespace in sweep():
        click.echo(f"removed {namespace}")


@click.command(short_help="Check this machine for the kernel's world")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a list.")
def doctor(as_json: bool) -> int:
    """Check whether this machine meets the requirements of the kernel's world, and list remedies."""
    from anabranch.testbed.doctor import examine

    findings = examine()
    if as_json:
        click.echo(json.dumps([finding.__dict__ for finding in findings], indent=2))
    else:
        rows: list[tuple[str, ...]] = []
        for finding in findings:
            remedy = f"; {finding.remedy}" if finding.remedy and not finding.there else ""
            rows.append(("yes" if finding.there else "no", finding.what, f"{finding.detail}{remedy}"))
        _table(rows)
    return 0 if all(finding.there for finding in findings if finding.needed) else 1


def _request(scenario: str, settings: tuple[str, ...], allow_paths: bool) -> Request:
    """Reads and checks the scenario of a file with its settings."""
    from anabranch._core.simulator import Request
    from anabranch.scenario import Scenario

    chosen = Scenario.from_file(scenario, allow_paths=allow_paths).with_settings(settings)
    chosen.validate()
    return Request(chosen.text, chosen.file, chosen.overrides)


def _name(scenario: str, machine: str | None) -> str:
    """Name of the testbed that `testbed up` makes for a file, or of one machine's part of it."""
    whole = str(Path(scenario).resolve())
    return "t" + hashlib.sha256((f"{whole}\0{machine}" if machine else whole).encode()).hexdigest()[:6]


def _only(scenario: str, machine: str | None) -> str:
    """Name of a file's testbed: the part of this machine, or the only one that is up."""
    from anabranch.testbed.bed import holder

    if machine is not None:
        return _name(scenario, machine)
    up = [part for part in (None, "a", "b") if holder(_name(scenario, part)) is not None]
    if len(up) > 1:
        raise InputError("several testbeds of this file are up on this machine; add --machine a or b", scenario)
    return _name(scenario, up[0] if up else _last(scenario))


def _last(scenario: str) -> str | None:
    """The part of a file's testbed that has ended by itself, if there is one."""
    from anabranch.testbed import reasons

    return next((part for part in ("a", "b") if reasons.exists(_name(scenario, part))), None)


def _present(scenario: str, machine: str | None) -> tuple[str, Lock]:
    """Name of a file's testbed that is up, and the content of its lock."""
    from anabranch.testbed.bed import holder

    name = _only(scenario, machine)
    found = holder(name)
    if found is None:
        raise InputError("this testbed is not up; use: anabranch testbed up", scenario)
    return name, found


def _need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise InputError(
            f"only root may use anabranch testbed {what}, because a testbed outlives the command; "
            f"without root use: anabranch emulate SCENARIO -- COMMAND"
        )


def _host(bed: Testbed, name: str) -> str:
    if name in bed.hosts and name not in bed.namespaces:
        here = f"hosts here are {', '.join(bed.namespaces)}; add --in HOST" if bed.namespaces else "no host is here"
        raise InputError(f'host "{name}" is on the other machine; {here}', bed.request.file)
    if name not in bed.namespaces:
        raise InputError(f'there is no host "{name}" ({nearest(name, list(bed.namespaces))})', bed.request.file)
    return name


def _run(bed: Testbed, host: str, command: list[str]) -> int:
    """Run a command on a host and return its exit status."""
    from anabranch.testbed.enter import arguments

    hosts = {name: bed.address(name) for name in bed.hosts}
    listed = " ".join(f"{name}={namespace}" for name, namespace in bed.namespaces.items())
    environment = {**os.environ, "ANABRANCH_HOSTS": listed}
    with _leave_interrupts_to_command():
        process = subprocess.Popen(arguments(bed.namespaces[host], hosts, command), env=environment)
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                continue
    # A shell returns 128 plus the number of the signal.
    return 128 - status if status < 0 else status


@contextmanager
def _leave_interrupts_to_command() -> Iterator[None]:
    """Ignores Ctrl-C in this process: the terminal also sends it to the command, whose end ends the testbed."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _table(rows: list[tuple[str, ...]]) -> None:
    """Print rows with aligned columns."""
    for line in _aligned(rows):
        click.echo(line)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]


_CHANGEABLE = ("state", "rate", "delay", "jitter", "loss", "queue", "reorder")
"""Keys of links that `testbed set` changes."""


def _counter_row(counters: Mapping[str, object]) -> tuple[str, ...]:
    """A row with the counters of a tunnel."""
    counted = (f"{key.replace('_', ' ')} {value}" for key, value in counters.items() if key != "link")
    return (f"tunnel {counters['link']}", *counted)


def _link_rows(link: str, models: Sequence[Mapping[str, object] | None]) -> list[tuple[str, ...]]:
    """Rows with the values of a link: one, or one for each direction that this machine emulates if they differ."""
    forward, reverse = models
    if forward is not None and forward == reverse:
        rows = [("both", forward)]
    else:
        both = (("forward", forward), ("reverse", reverse))
        rows = [(direction, model) for direction, model in both if model is not None]
    return [(link, direction, *(f"{key} {_shown(model.get(key))}" for key in _CHANGEABLE)) for direction, model in rows]


def _differences(key: str, old: Any, new: Any) -> list[tuple[str, str, str]]:
    """The keys whose values differ, with both values; the key itself if none does."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [(key, _shown(old), _shown(new))]
    rows = [
        (f"{key}.{part}", _shown(old.get(part)), _shown(new.get(part)))
        for part in dict.fromkeys([*new, *old])
        if old.get(part) != new.get(part)
    ]
    return rows or [(key, _shown(old), _shown(new))]


def _shown(value: Any) -> str:
    """A value of a link in one word or table."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_shown(part)}" for key, part in value.items()) + " }"
    return json.dumps(value) if isinstance(value, bool | list) else str(value)


def _report_lateness(lateness: LatenessResult | None) -> None:
    if lateness is not None and lateness["overloaded"]:
        click.echo(
            f"anabranch: the machine did not keep up: {100 * lateness['late_share']:.1f} % of the packets were more "
            f"than 1 ms late, and {lateness['lost']:,} were lost before they entered the network",
            err=True,
        )
