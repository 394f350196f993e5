"""The manifest of a native module with a crate outside the workspace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CRATE = ROOT / "crates/sim/examples/own_crate"


def own(crate: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "crates/py/own.py"), str(crate), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_manifest_adds_the_crate_to_the_module(tmp_path: Path) -> None:
    assert own(CRATE, tmp_path / "own").returncode == 0
    manifest = tomllib.loads((tmp_path / "own/Cargo.toml").read_text(encoding="utf-8"))
    module = tomllib.loads((ROOT / "crates/py/Cargo.toml").read_text(encoding="utf-8"))
    assert Path(manifest["lib"]["path"]).samefile(ROOT / "crates/py/src/lib.rs")
    assert manifest["features"]["default"] == ["own"]
    assert set(manifest["dependencies"]) == {*module["dependencies"], "own"}
    entries = [entry for entry in manifest["dependencies"].values() if isinstance(entry, dict)]
    paths = [entry["path"] for entry in entries if "path" in entry]
    assert len(paths) > 3
    assert all((Path(path) / "Cargo.toml").is_file() for path in paths)
    assert manifest["dependencies"]["own"]["package"] == "own-algorithms"
    assert (tmp_path / "own/Cargo.lock").read_bytes() == (ROOT / "Cargo.lock").read_bytes()


def test_control_and_scheduler_of_another_workspace_work(tmp_path: Path) -> None:
    """Its tests run a control through the laws of all controls, and select a path with a scheduler."""
    crate = tmp_path / "algorithms"
    shutil.copytree(CRATE, crate)
    shutil.copy(ROOT / "Cargo.lock", crate)
    manifest = (crate / "Cargo.toml").read_text(encoding="utf-8")
    (crate / "Cargo.toml").write_text(manifest.replace("../../..", str(ROOT / "crates")), encoding="utf-8")
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    done = subprocess.run(
        ["cargo", "test", "--offline", "--quiet"],
        cwd=crate,
        env={**os.environ, "CARGO_TARGET_DIR": f"{target}/own-crate"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "test result: ok. 2 passed" in done.stdout


def test_folders_without_a_crate_are_refused(tmp_path: Path) -> None:
    done = own(tmp_path, tmp_path / "own")
    assert (done.returncode, done.stderr) == (
        2,
        f"{tmp_path} contains no Cargo.toml; name the folder of a crate: make own CRATE=../my-control\n",
    )
    (tmp_path / "Cargo.toml").write_text("[workspace]\n", encoding="utf-8")
    done = own(tmp_path, tmp_path / "own")
    assert done.returncode == 2
    assert "is not the manifest of a package" in done.stderr
