"""The beginning of the command line, also as `python -m anabranch`: Ctrl-C ends it quietly while it is being loaded."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Load the command line and run it."""
    before = signal.getsignal(signal.SIGINT)
    # Whoever has the signal ignored, such as a shell for what it starts in the background, keeps it ignored.
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from anabranch.cli import main as command_line

    signal.signal(signal.SIGINT, before)
    command_line()


def _leave(number: int, _: object) -> None:
    # An exception in the middle of an import would surface as a traceback of whatever was being loaded.
    os.write(2, b"anabranch: interrupted\n")
    os._exit(128 + number)  # as a shell reports a signal


if __name__ == "__main__":
    main()
