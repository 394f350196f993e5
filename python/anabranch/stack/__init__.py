"""Anabranch's own TCP, Multipath TCP, SCTP and CMT-SCTP on real packets, for Python programs. On Linux only.

A `Stack` is a host in a thread of the process, behind TUN interfaces (TCP, Multipath TCP; needs CAP_NET_ADMIN) or over
UDP (SCTP, RFC 6951; needs no rights). `Stack.connect` returns a `Stream` of bytes, `Stack.associate` an `Association`
with messages, `Stack.listen` a `Listener`. The calls wait in the calling thread and release the interpreter meanwhile;
threads may share all objects. `anabranch.stack.aio` has the same classes for asyncio.

>>> from anabranch.stack import Stack
>>> with Stack(udp=["127.0.0.3", "127.0.0.4"]) as server, Stack(udp=["127.0.0.1", "127.0.0.2"]) as client:
...     listener = server.listen(7)
...     association = client.associate(["127.0.0.3", "127.0.0.4"], 7)
...     association.send(b"hello")
...     print(listener.accept_association().receive().data)

Errors are those of Python's sockets: `ConnectionRefusedError`, `ConnectionResetError`, `ConnectionAbortedError`,
`BrokenPipeError`, `TimeoutError`, otherwise `OSError`; a mistake in an argument is an `InputError`.
"""

from anabranch.stack.blocking import Association, Listener, Stack, Stream
from anabranch.stack.values import Message, Tun

__all__ = ["Association", "Listener", "Message", "Stack", "Stream", "Tun"]
