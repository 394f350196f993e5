"""`anabranch lab` serves its page to the user's own browser only, and refuses scenarios that the page cannot open."""

from __future__ import annotations

import json
import re
import socket
import threading
import tomllib
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from anabranch import run
from anabranch.cli.lab import lab
from anabranch.errors import InputError
from anabranch.lab import page as pages
from anabranch.lab.server import PageServer
from anabranch.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LESSONS = sorted((ROOT / "lab" / "lessons").glob("*.toml"))
BUILT = '<p>page</p><script type="application/json" id="given">null</script>'
SCENARIO = """
title = "a </script> in a title"
duration = "1 s"

[[link]]
between = ["a", "b"]
rate = "1 Mbit/s"

[[flow]]
from = "a"
to = "b"
protocol = "tcp"
"""


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer("<p>page</p>", 0) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield served
        served.shutdown()
        thread.join()


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lab.html"
    file.write_text(BUILT, encoding="utf-8")
    monkeypatch.setattr(pages, "BUILT", file)


def answer(server: PageServer, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, str]:
    """Status and text of a request; without a Host header it has the right one."""
    port = server.server_address[1]
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
        connection.putheader(name, value.format(port=port))
    connection.endheaders()
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def test_server_listens_on_loopback_only(server: PageServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_address[1]}/"


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}"])
def test_own_names_get_the_page(server: PageServer, host: str) -> None:
    assert answer(server, Host=host) == (200, "<p>page</p>")
    assert answer(server, Host=host, Origin=f"http://{host}") == (200, "<p>page</p>")
    assert answer(server, method="HEAD", Host=host) == (200, "")


@pytest.mark.parametrize(
    "host", ["example.org", "example.org:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.example:{port}", ""]
)
def test_other_host_is_refused(server: PageServer, host: str) -> None:
    status, text = answer(server, Host=host)
    assert status == 403
    assert "page</p>" not in text


@pytest.mark.parametrize("origin", ["http://example.org", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "null"])
def test_other_origin_is_refused(server: PageServer, origin: str) -> None:
    status, text = answer(server, Origin=origin)
    assert status == 403
    assert "page</p>" not in text


def test_second_host_header_is_refused(server: PageServer) -> None:
    port = server.server_address[1]
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(f"GET / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nHost: example.org\r\n\r\n".encode())
        assert connection.makefile().readline().split()[1] == "403"


@pytest.mark.parametrize("path", ["/etc/passwd", "/../lab.html", "/?x", "http://example.org/"])
def test_server_has_no_other_path(server: PageServer, path: str) -> None:
    status, text = answer(server, path)
    assert status == 404
    assert "page</p>" not in text


def test_other_method_is_refused(server: PageServer) -> None:
    assert answer(server, method="POST")[0] == 501


def test_used_port_is_an_error(server: PageServer) -> None:
    with pytest.raises(InputError, match="choose another --port"):
        PageServer("", server.server_address[1])


@pytest.mark.usefixtures("built")
def test_export_contains_scenario_and_seed(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    done = CliRunner().invoke(lab, [str(file), "--seed", "7", "--export", str(tmp_path / "out.html")])
    assert done.exit_code == 0, done.output
    html = (tmp_path / "out.html").read_text(encoding="utf-8")
    given = re.findall(r'id="given">(.*?)</script>', html)
    assert [json.loads(text) for text in given] == [{"scenario": SCENARIO, "seed": 7}]
    assert html.count("</script") == 1


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "7"], "--seed needs a SCENARIO"),
        (["--export", "out.html", "--port", "90"], "--export starts no server"),
        (["--export", "out.html", "--no-browser"], "--export starts no server"),
    ],
)
def test_options_without_effect_are_refused(words: list[str], message: str) -> None:
    done = CliRunner().invoke(lab, words)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def test_closed_connection_leaves_no_traceback(server: PageServer, capfd: pytest.CaptureFixture[str]) -> None:
    port = server.server_address[1]
    ours, theirs = socket.socketpair()
    theirs.sendall(f"GET / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    theirs.close()
    server.process_request_thread(ours, ("127.0.0.1", 0))
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("built")
def test_page_without_scenario_is_as_built() -> None:
    assert pages.page(None, None) == BUILT


@pytest.mark.usefixtures("built")
def test_too_large_scenario_is_an_error() -> None:
    comment = "#" * 300 * 1024
    with pytest.raises(InputError, match=r"net.toml: has 301 KiB, but the page opens scenarios of at most 256 KiB"):
        pages.page(SCENARIO + comment, None, "net.toml")


@pytest.mark.usefixtures("built")
def test_trace_is_an_error_and_stays_unread(tmp_path: Path) -> None:
    text = SCENARIO.replace('"1 Mbit/s"', '{ trace = "missing.mahi" }')
    with pytest.raises(InputError, match="follows a trace"):
        pages.page(text, None, str(tmp_path / "net.toml"))
    text = SCENARIO.replace("between", 'delay = { trace = "missing.csv" }\nbetween')
    with pytest.raises(InputError, match="give the link constant values"):
        pages.page(text, None, str(tmp_path / "net.toml"))


@pytest.mark.usefixtures("built")
def test_mistake_in_scenario_has_file_and_line() -> None:
    with pytest.raises(InputError, match=r'net.toml:7: unknown key "rat"'):
        pages.page(SCENARIO.replace("rate =", "rat ="), None, "net.toml")


def test_missing_page_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "BUILT", tmp_path / "none.html")
    with pytest.raises(InputError, match=r"install Node.js .* make lab"):
        pages.page(None, None)


@pytest.mark.parametrize("file", LESSONS, ids=lambda file: file.stem)
def test_scenarios_of_lessons_run(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert tomllib.loads(text)["title"]
    result = run(Scenario.from_toml(text, str(file)), seed=1)
    assert all(goodput > 0 for goodput in result.flows["goodput_bps"])
