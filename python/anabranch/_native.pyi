"""The native module: the simulator behind a handful of functions that take and return plain values."""

import builtins
from collections.abc import Callable
from typing import Literal

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
    pcap: tuple[str, int | None, builtins.list[str], builtins.list[str]] | None = None,
    check_wire: bool = False,
    progress_callback: Callable[[float], None] | None = None,
    trace_changes: bool = False,
) -> str: ...
def layout(toml_text: str, file_name: str, overrides: builtins.list[str]) -> str: ...

class Emulation:
    """A scenario's network between network namespaces. On Linux only."""

    def __init__(
        self,
        toml_text: str,
        file_name: str,
        overrides: builtins.list[str],
        namespaces: dict[str, str],
        seed: int | None = None,
        trace_dir: str | None = None,
        spin_us: int = 0,
    ) -> None: ...
    def start(self) -> None: ...
    def is_over(self) -> bool: ...
    def stop(self) -> str: ...
    def measure(
        self,
        sysctls: dict[str, dict[str, str]],
        differences: builtins.list[str],
        progress_callback: Callable[[float], None] | None = None,
    ) -> str: ...

def validate(toml_text: str, file_name: str, overrides: builtins.list[str]) -> None: ...
def kinds() -> builtins.list[str]: ...
def schema() -> str: ...
def list(kind: str) -> builtins.list[tuple[str, str]]: ...  # noqa: A001
def names(toml_text: str, file_name: str) -> tuple[builtins.list[str], builtins.list[str]]: ...
def directions() -> builtins.list[str]: ...
def metrics() -> builtins.list[tuple[str, str, str, Literal["run", "flow", "path", "link"], str, float]]: ...
def largest_seed() -> int: ...
def reference() -> str: ...
def version() -> str: ...
