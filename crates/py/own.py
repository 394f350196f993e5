"""Write the manifest of a native module with the algorithms of a crate outside the workspace, for `make own`.

The package has the sources and dependencies of crates/py, the versions of Cargo.lock, and the crate as `own`. The
module calls its function `register` when it is loaded.

Usage: own.py CRATE FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Refused(Exception):  # noqa: N818  one sentence for the user
    """The folder has no such crate."""


def manifest(crate: Path) -> str:
    """The manifest of the native module with a crate.

    Raises:
        Refused: If the folder contains no crate.

    """
    try:
        text = (crate / "Cargo.toml").read_text(encoding="utf-8")
    except OSError:
        raise Refused(
            f"{crate} contains no Cargo.toml; name the folder of a crate: make own CRATE=../my-control"
        ) from None
    try:
        package = tomllib.loads(text)["package"]["name"]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise Refused(f"{crate / 'Cargo.toml'} is not the manifest of a package: {error}") from None
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    module = tomllib.loads((ROOT / "crates/py/Cargo.toml").read_text(encoding="utf-8"))
    shared = workspace["workspace"]
    about = {key: shared["package"][key] for key in ("version", "edition", "rust-version", "license")}
    library = {"name": "_native", "crate-type": ["cdylib"], "path": str(ROOT / "crates/py/src/lib.rs")}
    parts: list[tuple[str, dict[str, Any]]] = [
        ("package", {"name": module["package"]["name"], **about, "publish": False}),
        ("lib", library | {"test": False, "doctest": False}),
        ("features", {"default": ["own"], "own": []}),
        ("workspace", {}),
        ("dependencies", _resolved(module["dependencies"], shared["dependencies"])),
        ("dependencies.own", {"package": package, "path": str(crate.resolve())}),
    ]
    for target, tables in module["target"].items():
        key = f"target.{json.dumps(target)}.dependencies"
        parts.append((key, _resolved(tables["dependencies"], shared["dependencies"])))
    parts += [(f"profile.{name}", _flat(profile)) for name, profile in workspace["profile"].items()]
    return "\n".join(_section(name, values) for name, values in parts)


def _resolved(dependencies: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """The dependencies, those of the workspace spelt out with absolute paths."""
    found = {}
    for name in dependencies:
        entry = shared[name]
        if isinstance(entry, dict) and "path" in entry:
            entry = {**entry, "path": str(ROOT / entry["path"])}
        found[name] = entry
    return found


def _flat(profile: dict[str, Any]) -> dict[str, Any]:
    """A profile without its settings of single packages, because the new workspace lacks some of these packages."""
    return {key: value for key, value in profile.items() if key != "package"}


def _section(name: str, values: dict[str, Any]) -> str:
    lines = [f"[{name}]", *(f"{key} = {_value(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items()) + " }"
    # Texts, numbers, truth values and lists of these are written in TOML as in JSON.
    return json.dumps(value, ensure_ascii=False)


def main(arguments: list[str]) -> int:
    """Write manifest and lock file; 2 for a mistake in the arguments."""
    crate, folder = map(Path, arguments)
    try:
        text = manifest(crate)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(text, encoding="utf-8")
    shutil.copyfile(ROOT / "Cargo.lock", folder / "Cargo.lock")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
