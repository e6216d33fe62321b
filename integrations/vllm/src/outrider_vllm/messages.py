"""The guess channel's messages, version 1: bytes to values and back.

Every message is a u32 length and a body of that many bytes; integers are little-endian.

    gateway                                            proposer
       │  Hello: "OUTRIDER", u16 version, u16 n, token     │
       │──────────────────────────────────────────────────▶│
       │  Answer: u8 status, u16 version, u16 proposals,   │
       │          u32 vocabulary                           │
       │◀──────────────────────────────────────────────────│
       │  Guess: u8 1, u32 position, u8 t, t × u32 tail,   │
       │         u8 c, c × u32 ids                         │
       │──────────────────────────────────────────────────▶│  any number of them

Decoding is total: any bytes give a value or a :class:`BadMessageError`.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

MAGIC = b"OUTRIDER"
VERSION = 1

MAX_BODY = 4096
"""Bytes in the largest body; whoever announces more is cut off."""

TAIL = 16
"""Ids of a text's end that, with its length, say which text a guess follows."""

MAX_IDS = 32
"""Ids in one guess."""

_LENGTH = struct.Struct("<I")
_HELLO = struct.Struct("<8sHH")
_ANSWER = struct.Struct("<BHHI")
_GUESS = struct.Struct("<BIB")
_KIND_GUESS = 1
_ID = 4


class BadMessageError(Exception):
    """A message that no correct gateway sends; its connection is closed."""


class Status(enum.IntEnum):
    """What a proposer answers to a hello."""

    WELCOME = 0
    WRONG_VERSION = 1
    WRONG_TOKEN = 2
    FULL = 3


@dataclass(frozen=True)
class Hello:
    """A gateway's first message."""

    version: int
    token: bytes

    def encode(self) -> bytes:
        """The body's bytes."""
        return _HELLO.pack(MAGIC, self.version, len(self.token)) + self.token

    @classmethod
    def decode(cls, body: bytes) -> Hello:
        """Read a body.

        Raises:
            BadMessageError: if it is no hello.

        """
        if len(body) < _HELLO.size:
            raise BadMessageError(f"the hello has {len(body)} bytes, fewer than {_HELLO.size}")
        magic, version, length = _HELLO.unpack_from(body)
        if magic != MAGIC:
            raise BadMessageError("the first message does not begin with OUTRIDER")
        if len(body) != _HELLO.size + length:
            raise BadMessageError(f"the hello announces a token of {length} bytes and is {len(body)} bytes long")
        return cls(version, body[_HELLO.size :])


@dataclass(frozen=True)
class Answer:
    """The proposer's only message."""

    status: Status
    num_speculative_tokens: int
    vocabulary: int
    version: int = VERSION

    def encode(self) -> bytes:
        """The body's bytes."""
        return _ANSWER.pack(self.status, self.version, self.num_speculative_tokens, self.vocabulary)

    @classmethod
    def decode(cls, body: bytes) -> Answer:
        """Read a body.

        Raises:
            BadMessageError: if it is no answer.

        """
        if len(body) != _ANSWER.size:
            raise BadMessageError(f"the answer has {len(body)} bytes, not {_ANSWER.size}")
        status, version, proposals, vocabulary = _ANSWER.unpack(body)
        try:
            known = Status(status)
        except ValueError:
            raise BadMessageError(f"the answer's status is {status}") from None
        return cls(known, proposals, vocabulary, version)


@dataclass(frozen=True)
class Guess:
    """What a text of ``position`` tokens that ends with ``tail`` is likely to go on with."""

    position: int
    tail: bytes
    """The text's last ``min(16, position)`` ids, four little-endian bytes each."""
    ids: tuple[int, ...]

    @classmethod
    def after(cls, text: list[int], ids: list[int]) -> Guess:
        """The guess that ``text`` goes on with ``ids``."""
        return cls(len(text), pack_ids(text[-TAIL:]), tuple(ids))

    def encode(self) -> bytes:
        """The body's bytes."""
        head = _GUESS.pack(_KIND_GUESS, self.position, len(self.tail) // _ID)
        return head + self.tail + bytes([len(self.ids)]) + pack_ids(self.ids)


def decode_guess(body: bytes, vocabulary: int) -> Guess | None:
    """Read the body of a message after the hello; ``None`` is a kind that this version does not know.

    Ids have to be below ``vocabulary``; 0 means that it is unknown.

    Raises:
        BadMessageError: if it is no guess.

    """
    if not body:
        raise BadMessageError("the message is empty")
    if body[0] != _KIND_GUESS:
        return None
    if len(body) < _GUESS.size:
        raise BadMessageError(f"the guess has {len(body)} bytes, fewer than {_GUESS.size}")
    _, position, tail_length = _GUESS.unpack_from(body)
    if tail_length != min(TAIL, position):
        raise BadMessageError(f"the guess at position {position} has a tail of {tail_length} ids")
    count_at = _GUESS.size + tail_length * _ID
    if len(body) <= count_at:
        raise BadMessageError("the guess ends before its ids")
    count = body[count_at]
    if not 1 <= count <= MAX_IDS:
        raise BadMessageError(f"the guess has {count} ids")
    if len(body) != count_at + 1 + count * _ID:
        raise BadMessageError(f"the guess announces {count} ids and is {len(body)} bytes long")
    ids = struct.unpack_from(f"<{count}I", body, count_at + 1)
    # Without a known vocabulary, what fits vLLM's own 32-bit token ids.
    bound = vocabulary or 2**31
    if max(ids) >= bound:
        raise BadMessageError(f"the guess has the id {max(ids)}, the vocabulary {bound}")
    return Guess(position, body[_GUESS.size : count_at], ids)


def pack_ids(ids: tuple[int, ...] | list[int]) -> bytes:
    """Four little-endian bytes an id."""
    return struct.pack(f"<{len(ids)}I", *ids)


def frame(body: bytes) -> bytes:
    """The message: the body's length and the body."""
    return _LENGTH.pack(len(body)) + body


class Unframer:
    """Cuts a stream of bytes into bodies; holds at most one incomplete message and the last chunk."""

    def __init__(self) -> None:
        """Begin a stream."""
        self._rest = b""

    def push(self, chunk: bytes) -> list[bytes]:
        """The bodies that ``chunk`` completes, in order.

        Raises:
            BadMessageError: if a body is announced that is longer than allowed.

        """
        data = self._rest + chunk
        bodies: list[bytes] = []
        at = 0
        while len(data) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, at)
            if length > MAX_BODY:
                raise BadMessageError(f"a message of {length} bytes is announced, {MAX_BODY} are allowed")
            end = at + _LENGTH.size + length
            if len(data) < end:
                break
            bodies.append(data[at + _LENGTH.size : end])
            at = end
        self._rest = data[at:]
        return bodies
