"""Finding studies: those that come with the package, and users' own by path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError, nearest
from anabranch.study.definition import load
from anabranch.study.model import FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.study.code import Function
    from anabranch.study.model import Study


def shipped() -> dict[str, Path]:
    """Folders of the studies that come with the package, by name."""
    root = Path(__file__).parent.parent / "studies"
    return {folder.name: folder for folder in sorted(root.iterdir()) if (folder / FILE).is_file()}


def find(
    name: str | Path,
    metrics: Mapping[str, Function] | None = None,
    *,
    allow_paths: bool = False,
    allow_code: bool = False,
) -> Study:
    """A study by its name, or by the path of its folder or its study.toml.

    Args:
        name: The name or the path.
        metrics: Further metrics of its runs, by name.
        allow_paths: Whether it may name files outside its folder.
        allow_code: Whether it may name functions in Python.

    Raises:
        InputError: If there is no such study, or it has a mistake.

    """
    known = shipped()
    if str(name) in known:
        return load(known[str(name)], metrics)
    path = Path(name)
    if path.name == FILE and path.is_file():
        return load(path.parent, metrics, allow_paths=allow_paths, allow_code=allow_code)
    if path.is_dir():
        return load(path, metrics, allow_paths=allow_paths, allow_code=allow_code)
    hint = nearest(str(name), list(known))
    raise InputError(f'there is no study "{name}" ({hint}); a study of your own is named by the path of its folder')
