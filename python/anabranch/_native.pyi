"""The native module: the simulator behind a handful of functions that take and return plain values."""

import builtins
from collections.abc import Callable

class InputError(ValueError):
    """A mistake in a scenario or a setting; `args[0]` is the message."""

    file: str | None
    line: int | None

def run(
    toml_text: str,
    file_name: str,
    overrides: builtins.list[str],
    seed: int | None = None,
    trace_dir: str | None = None,
    pcap: str | None = None,
    check_wire: bool = False,
    progress_callback: Callable[[float], None] | None = None,
) -> str: ...
def validate(toml_text: str, file_name: str, overrides: builtins.list[str]) -> None: ...
def kinds() -> builtins.list[str]: ...
def schema() -> str: ...
def list(kind: str) -> builtins.list[tuple[str, str]]: ...  # noqa: A001
def reference() -> str: ...
def version() -> str: ...
