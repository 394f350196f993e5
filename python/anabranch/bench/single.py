"""Runs one scenario and nothing else, for tools that watch a process: `python -m anabranch.bench.single [MODULE]`.

The request is JSON on standard input, the result document JSON on standard output. `MODULE` is a library file to use
instead of the package's native module, such as one with symbols.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys

NATIVE = "anabranch._native"


def use(file: str) -> None:
    """Load a library file as the native module."""
    loader = importlib.machinery.ExtensionFileLoader(NATIVE, file)
    spec = importlib.util.spec_from_file_location(NATIVE, file, loader=loader)
    if spec is None:
        raise ImportError(file)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[NATIVE] = module


def main() -> None:
    """Run the request."""
    for file in sys.argv[1:]:
        use(file)
    from anabranch._core.simulator import Request, simulate

    asked = json.load(sys.stdin)
    json.dump(simulate(Request(asked["scenario"], asked["file"], tuple(asked["overrides"]))), sys.stdout)


if __name__ == "__main__":
    main()
