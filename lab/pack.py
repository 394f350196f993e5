"""Packs the module of the laboratory for its page: `python pack.py CORE.wasm PACKED`.

`crates/unpack` describes the format: the length in four bytes, the lowest first, then raw LZMA.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

_FILTER = {
    "id": lzma.FILTER_LZMA1,
    "preset": 9 | lzma.PRESET_EXTREME,
    "lc": 3,
    "lp": 0,
    "pb": 0,
}


def packed(data: bytes) -> bytes:
    """The data in the page's format."""
    return len(data).to_bytes(4, "little") + lzma.compress(data, format=lzma.FORMAT_RAW, filters=[_FILTER])


if __name__ == "__main__":
    core, out = (Path(name) for name in sys.argv[1:])
    out.write_bytes(packed(core.read_bytes()))
