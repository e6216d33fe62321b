"""A gateway's end of the guess channel, for tests and scripts."""

from __future__ import annotations

import socket
import struct

from outrider_vllm.address import Address, UnixAddress
from outrider_vllm.messages import VERSION, Answer, Guess, Hello, frame


class Gateway:
    """A connection that has said hello."""

    def __init__(self, address: Address, token: bytes = b"", version: int = VERSION) -> None:
        """Connect, and read the answer."""
        self.socket = connect(address)
        self.socket.sendall(frame(Hello(version, token).encode()))
        self.answer = read_answer(self.socket)

    def guess(self, text: list[int], ids: list[int]) -> None:
        """Say that ``text`` is likely to go on with ``ids``."""
        self.socket.sendall(frame(Guess.after(text, ids).encode()))

    def close(self) -> None:
        """Cut the connection."""
        self.socket.close()


def connect(address: Address) -> socket.socket:
    """A connection that has said nothing yet."""
    if isinstance(address, UnixAddress):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.connect(address.path)
    else:
        one = socket.create_connection((address.host, address.port))
    one.settimeout(10.0)
    return one


def read_answer(one: socket.socket) -> Answer:
    """The proposer's answer."""
    (length,) = struct.unpack("<I", _read(one, 4))
    return Answer.decode(_read(one, length))


def closed(one: socket.socket) -> bool:
    """Whether the other end has closed the connection; waits for it."""
    try:
        return one.recv(1) == b""
    except ConnectionError:
        return True


def _read(one: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = one.recv(count - len(data))
        if not chunk:
            raise ConnectionError("closed by the proposer")
        data += chunk
    return data
