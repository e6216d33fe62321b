"""The channel's bytes."""

import random

import pytest

from outrider_vllm.messages import (
    MAX_BODY,
    Answer,
    BadMessageError,
    Guess,
    Hello,
    Status,
    Unframer,
    decode_guess,
    frame,
)

HELLO = Hello(1, b"secret")
ANSWER = Answer(Status.WELCOME, 8, 4096)
GUESS = Guess.after([7, 300], [1, 2, 70000])
LONG = Guess.after(list(range(40)), list(range(32)))


def test_bytes_stand() -> None:
    assert frame(HELLO.encode()).hex() == "120000004f5554524944455201000600736563726574"
    assert frame(ANSWER.encode()).hex() == "09000000000100080000100000"
    assert frame(GUESS.encode()).hex() == "1b000000010200000002070000002c01000003010000000200000070110100"


def test_round_trips() -> None:
    assert Hello.decode(HELLO.encode()) == HELLO
    assert Answer.decode(ANSWER.encode()) == ANSWER
    for guess in (GUESS, LONG, Guess.after([], [5])):
        assert decode_guess(guess.encode(), 70_001) == guess
    assert len(LONG.tail) == 64


@pytest.mark.parametrize("body", [HELLO.encode(), GUESS.encode(), LONG.encode()])
def test_every_proper_prefix_and_one_byte_more_fail(body: bytes) -> None:
    decode = Hello.decode if body == HELLO.encode() else lambda some: decode_guess(some, 0)
    for end in range(len(body)):
        with pytest.raises(BadMessageError):
            decode(body[:end])
    with pytest.raises(BadMessageError):
        decode(body + b"\0")


def test_answers_of_other_lengths_and_statuses_fail() -> None:
    for body in (ANSWER.encode()[:-1], ANSWER.encode() + b"\0", b"\x04" + ANSWER.encode()[1:]):
        with pytest.raises(BadMessageError):
            Answer.decode(body)


def test_bad_guesses_are_named() -> None:
    good = Guess.after([1] * 20, [3, 4]).encode()
    assert decode_guess(good, 5) is not None
    with pytest.raises(BadMessageError, match="the id 4, the vocabulary 4"):
        decode_guess(good, 4)
    with pytest.raises(BadMessageError, match="tail of 16 ids"):
        decode_guess(good[:1] + (15).to_bytes(4, "little") + good[5:], 5)
    with pytest.raises(BadMessageError, match="has 0 ids"):
        decode_guess(Guess.after([1], []).encode(), 5)
    with pytest.raises(BadMessageError, match="has 33 ids"):
        decode_guess(Guess.after([1], [1] * 33).encode(), 5)
    with pytest.raises(BadMessageError, match="the id 2147483648"):
        decode_guess(Guess.after([1], [2**31]).encode(), 0)


def test_unknown_kinds_are_skipped() -> None:
    assert decode_guess(b"\x02whatever", 5) is None


def test_any_bytes_decode_or_fail() -> None:
    source = random.Random(1)
    for _ in range(20_000):
        body = source.randbytes(source.randrange(40))
        if source.random() < 0.5:
            body = b"\x01" + source.randrange(20).to_bytes(4, "little") + body
        for decode in (Hello.decode, Answer.decode, lambda some: decode_guess(some, 9)):
            try:
                value = decode(body)
            except BadMessageError:
                continue
            if isinstance(value, Guess | Hello):
                assert value.encode() == body


def test_a_stream_is_cut_into_the_same_bodies_wherever_it_is_split() -> None:
    bodies = [HELLO.encode(), b"", GUESS.encode(), LONG.encode(), bytes(MAX_BODY)]
    stream = b"".join(map(frame, bodies))
    source = random.Random(2)
    for _ in range(200):
        unframer = Unframer()
        read: list[bytes] = []
        at = 0
        while at < len(stream):
            size = source.choice([1, 3, 50, 5000])
            read += unframer.push(stream[at : at + size])
            at += size
        assert read == bodies


def test_long_bodies_are_refused_before_they_come() -> None:
    with pytest.raises(BadMessageError, match="4097 bytes"):
        Unframer().push((MAX_BODY + 1).to_bytes(4, "little"))
