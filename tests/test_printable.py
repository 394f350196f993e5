"""Text of peers and files is printed without characters that control a terminal."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.text import Text

import small_study
from anabranch.errors import InputError
from anabranch.printable import hidden, printable
from anabranch.report.table_layout import Column, Sheet
from anabranch.report.terminal import say
from anabranch.study.definition import load
from command import anabranch

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "\x1b]0;PWNED\x07\x1b[2J forged\nline \u202e\x9b"
SHOWN = r"\x1b]0;PWNED\x07\x1b[2J forged\nline \u202e\x9b"


def test_control_characters_are_escaped() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("müde 日本 – 5 µs") == "müde 日本 – 5 µs"
    assert printable("a\nb", "\n") == "a\nb"
    assert (hidden("a\tb\n"), hidden(HOSTILE)) == (None, r"\x1b")


def test_tables_and_sentences_show_escapes() -> None:
    console = Console(file=io.StringIO(), width=200)
    sheet = Sheet([Column(HOSTILE, words=True)], HOSTILE)
    sheet.add(HOSTILE)
    sheet.add(Text("own"))
    sheet.print(console)
    say(console, HOSTILE)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.count(r"\x1b]0;PWNED") == 4


def test_errors_show_escapes() -> None:
    done = anabranch("run", "no\x1b[2Jsuch.toml")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert r"no\x1b[2Jsuch.toml" in done.stderr


@pytest.mark.parametrize("title", ["\\u001b[31mred", "a\\u202eb"])
def test_titles_with_control_characters_are_refused(tmp_path: Path, title: str) -> None:
    folder = small_study.write(tmp_path / "study")
    file = folder / "study.toml"
    lines = file.read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(lines, 1) if line.startswith("title = "))
    lines[place - 1] = f'title = "{title}"'
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=rf"study\.toml:{place}: a text has the control character") as refused:
        load(folder)
    assert hidden(str(refused.value)) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the meter needs Linux")
def test_refusal_of_a_meter_server_shows_escapes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as lines:
                lines.readline()
                lines.write(json.dumps({"refused": {"reason": HOSTILE}}).encode() + b"\n")

        rogue = threading.Thread(target=refuse)
        rogue.start()
        done = anabranch("meter", "run", "127.0.0.1", "-p", str(listener.getsockname()[1]), "-t", "0.2")
        rogue.join()
    assert done.returncode == 1
    assert hidden(done.stderr.removesuffix("\n"), "") is None
    assert "PWNED" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the meter needs Linux")
def test_version_of_a_meter_client_cannot_forge_lines() -> None:
    command = [sys.executable, "-m", "anabranch", "meter", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            hello = {"hello": {"protocol": 9, "version": HOSTILE, "boot": ""}}
            client.sendall(json.dumps(hello).encode() + b"\n")
            line = process.stdout.readline()
        process.terminate()
    assert hidden(line.removesuffix("\n"), "") is None
    assert "PWNED" in line
    assert "install the same version on both machines" in line
