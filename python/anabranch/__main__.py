"""Entry point of the command line, also for `python -m anabranch`; Ctrl-C during loading prints no traceback.

The module imports only modules that the interpreter has already loaded: `signal` would load `enum` and much of the
standard library. The launcher of `make build` blocks SIGINT until this module unblocks it.
"""

import _signal  # type: ignore[import-not-found]
import os


def main() -> None:
    """Load the command line and run it."""
    before = _signal.getsignal(_signal.SIGINT)
    # An ignored signal stays ignored: a shell sets this for background commands.
    is_mine = before is _signal.default_int_handler
    if is_mine:
        _signal.signal(_signal.SIGINT, _leave)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
    from anabranch.cli import main as command_line

    try:
        if is_mine:
            _signal.signal(_signal.SIGINT, before)
        command_line()
    except KeyboardInterrupt:
        # Ctrl-C that the command did not handle, such as a second one.
        _leave(_signal.SIGINT, None)
    finally:
        # All work is finished: an exception must not interrupt the interpreter's shutdown.
        if is_mine:
            _signal.signal(_signal.SIGINT, _leave)


def _leave(number: int, _: object) -> None:
    # An exception during an import would print a traceback of the module being loaded.
    os.write(2, b"anabranch: interrupted\n")
    os._exit(128 + number)  # as a shell reports a signal


if __name__ == "__main__":
    main()
