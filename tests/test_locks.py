"""Lock files of commands that run as root, and the files that mark namespaces of testbeds."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from anabranch.errors import InputError, RunFailed
from anabranch.testbed import bed, controls, locks, namespaces

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="testbeds need Linux")


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_and_files_are_for_their_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    # An earlier version made these files readable for all users.
    folder.mkdir(mode=0o755)
    (folder / "turn").touch(mode=0o644)
    with locks.hold(folder / "turn"):
        assert (_mode(folder), _mode(folder / "turn")) == (0o700, 0o600)
    monkeypatch.setattr(controls, "FOLDER", folder / "controls")
    with controls._hold_mutex():
        assert (_mode(folder / "controls"), _mode(folder / "controls" / "turn")) == (0o700, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_cannot_open_lock_files(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with locks.hold(tmp_path / "run" / "turn"):
        pass
    opened = subprocess.run(
        ["cat", str(tmp_path / "run" / "turn")], user=65534, group=65534, extra_groups=[], check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert opened.returncode != 0
    assert "Permission denied" in opened.stderr


def test_held_lock_is_an_error_that_names_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOCK_TIMEOUT_S", 0.1)
    handle = locks.open_lock(tmp_path / "turn")
    fcntl.flock(handle, fcntl.LOCK_SH)
    try:
        with pytest.raises(RunFailed, match=rf"turn is locked by process {os.getpid()} for more than 0 s"):
            locks.hold(tmp_path / "turn").__enter__()
    finally:
        os.close(handle)
    with locks.hold(tmp_path / "turn"):
        pass


def test_user_without_access_to_locks_gets_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bed, "LOCKS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=f"only root can read the locks of testbeds in {tmp_path}; run it as root"):
        bed.kept()


def test_only_marked_namespaces_are_testbeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keepers, marks = tmp_path / "netns", tmp_path / "run" / "namespaces"
    keepers.mkdir()
    monkeypatch.setattr(namespaces, "FOLDER", keepers)
    monkeypatch.setattr(namespaces, "MARKS", marks)

    def create(name: str) -> Path:
        (keepers / name).touch(exist_ok=False)
        return keepers / name

    monkeypatch.setattr(namespaces, "create", create)
    create("ab-012345-foreign")
    namespaces.create_marked("ab-012345-own")
    with pytest.raises(FileExistsError):
        namespaces.create_marked("ab-012345-foreign")
    assert list(bed.existing()) == [("012345", "ab-012345-own")]
    # Another program's namespace of the same name has another number.
    (keepers / "another").touch()
    (keepers / "another").replace(keepers / "ab-012345-own")
    assert list(bed.existing()) == []


def test_interrupted_namespace_stays_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keepers, marks = tmp_path / "netns", tmp_path / "run" / "namespaces"
    keepers.mkdir()
    monkeypatch.setattr(namespaces, "FOLDER", keepers)
    monkeypatch.setattr(namespaces, "MARKS", marks)

    def interrupted(name: str) -> Path:
        (keepers / name).touch(exist_ok=False)
        raise KeyboardInterrupt

    monkeypatch.setattr(namespaces, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        namespaces.create_marked("ab-012345-own")
    assert namespaces.is_marked("ab-012345-own")
    (keepers / "ab-012345-own").unlink()
    namespaces.sweep_marks()
    assert list(marks.iterdir()) == []


@pytest.mark.machine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")
def test_sweep_leaves_namespaces_of_other_programs() -> None:
    name = "ab-0dd0dd-foreign"
    namespaces.create(name)
    try:
        within = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "60"])
        assert name not in bed.sweep()
        assert within.poll() is None
        within.kill()
        within.wait()
    finally:
        namespaces.remove(name)
