"""A second decoder of the Outrider wire format, written from shared-codec/FORMAT.md alone.

python3 tests/golden/decode.py tests/golden/*.json

Decodes every frame of every golden file, learns what the adaptive code learns, and compares with the values beside them.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from typing import Any

sys.dont_write_bytecode = True  # Before the other half is imported: no folder of bytecode beside the golden files.

from adaptive import Adaptive, Refused, need, subset

VERSION = 8
MAX_FRAME = 2_097_152
MAX_TOKEN_BITS = 8 * (MAX_FRAME - 64)
FINISHES = ["none", "end of text", "max new tokens", "context full"]
LATTICE = {1: "K-SQS", 2: "QS", 3: "C-SQS"}
OTHERS = {4: "dense", 5: "TK-SLT", 6: "DSSD", 7: "coupled"}
# The bound of a rule's parameter, and whether it may be that.
RULES = {1: (1, False), 2: (1, False), 3: (1, True), 5: (1, True), 9: (1, True), 10: (1, True), 11: (1, True), 15: (1, True)}
# Rules without a bound, and those whose parameter may be below 0: down to −bound if there is one.
UNBOUNDED = {4, 6, 7, 8, 12, 13, 14}
NEGATIVE = {5, 6, 7, 8, 15}
ONE_STATISTIC, MANY_STATISTICS, OF_VOCABULARY = {3, 4, 5, 6, 7, 8, 15}, {9, 12, 13}, {12, 13}


class Reader:
    """The fields of a frame."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        need(self.at + count <= len(self.data), "truncated")
        self.at += count
        return self.data[self.at - count : self.at]

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def uint(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varint(self, least: int = 0, most: int = 2**32 - 1) -> int:
        value, shift = 0, 0
        while True:
            byte = self.uint(1)
            value |= (byte & 127) << shift
            need(value < 2**32 and shift < 35, "varint too large")
            if byte < 128:
                need(byte > 0 or shift == 0, "varint not in its shortest form")
                need(least <= value <= most, "varint out of range")
                return value
            shift += 7

    def ids(self, least: int = 0) -> list[int]:
        return [self.varint() for _ in range(self.varint(least))]

    def f32(self, negative: bool = False) -> float:
        """A number that is at least 0, unless it may be negative (and not −0)."""
        raw = self.take(4)
        value = struct.unpack("<f", raw)[0]
        need(raw[3] < 128 or negative and value < 0, "negative")
        need(math.isfinite(value), "not a number")
        return value

    def probability(self, zero: bool = False) -> float:
        value = self.f32()
        need(value <= 1 and (zero or value > 0), "not a probability")
        return value


class Bits:
    """The fields of a payload: the highest bit first."""

    def __init__(self, data: bytes) -> None:
        self.value, self.left = int.from_bytes(data, "big"), 8 * len(data)

    def take(self, count: int) -> int:
        need(count <= self.left, "payload truncated")
        self.left -= count
        return (self.value >> self.left) & ((1 << count) - 1)

    def below(self, count: int) -> int:
        """A number below `count`, in ⌈log2 count⌉ bits."""
        value = self.take((count - 1).bit_length())
        need(value < count, "number out of range")
        return value

    def probability(self) -> int:
        """A binary16 number in [0, 1], as a multiple of 2^-24."""
        bits = self.take(16)
        need(bits <= 0x3C00, "not a binary16 probability")
        exponent, fraction = bits >> 10, bits & 1023
        return fraction if exponent == 0 else (1024 + fraction) << (exponent - 1)

    def end(self) -> None:
        need(self.left < 8 and self.take(self.left) == 0, "bytes or bits after the payload")


def rank_work(n: int, k: int) -> int:
    """What ranking a k-subset of n costs."""
    short = min(k, n - k)
    return short * -(-min(n, short * n.bit_length()) // 64)


class Scheme:
    """A generation's scheme: what its payloads mean."""

    def __init__(self, parameters: dict[str, Any], vocab: int) -> None:
        self.name, self.vocab = parameters["scheme"], vocab
        self.resolution = parameters.get("lattice_resolution", 0)
        self.size = parameters.get("support_size", vocab)
        self.adaptive: Adaptive | None = None
        need(1 <= vocab <= 1 << 24, "V out of range")
        need(1 <= self.size <= vocab, "K is not in 1..=V")
        index = (self.size - 1).bit_length()
        pairs = {"dense": 16 * vocab, "TK-SLT": self.size * (16 + (vocab - 1).bit_length())}
        token_bits = pairs.get(self.name, 0) + index
        need(token_bits <= MAX_TOKEN_BITS, "a token does not fit into a frame")
        if self.name in LATTICE.values():
            need(1 <= self.resolution <= 65536, "resolution out of range")
            if parameters["code"] == "adaptive":
                most = min(self.size, self.resolution)
                need(most <= 2048, "distributions too large")
                self.adaptive = Adaptive(vocab, self.resolution, most)
            else:
                self.check_size(self.size)

    def check_size(self, size: int) -> None:
        need(size <= self.vocab, "K above V")
        work = rank_work(self.vocab, size) + rank_work(self.resolution + size - 1, size - 1)
        need(work <= 1 << 19, "ranks too large")

    def text(self, ids: list[int]) -> None:
        """Tokens that were committed without a round."""
        if self.adaptive:
            self.adaptive.text(ids)

    def round(self, payload: bytes, count: int) -> list[Any]:
        if self.adaptive:
            return self.adaptive.round(payload, count)
        bits = Bits(payload)
        drafts = [self.draft(bits) for _ in range(count)]
        bits.end()
        return drafts

    def draft(self, bits: Bits) -> Any:
        if self.name == "coupled":
            return bits.below(self.vocab)
        if self.name == "DSSD":
            draft = {"id": bits.below(self.vocab), "count": bits.probability(), "total": bits.take(25)}
            need(1 <= draft["count"] <= draft["total"], "counts")
            return draft
        if self.name == "dense":
            size, ids = self.vocab, list(range(self.vocab))
            counts = [bits.probability() for _ in ids]
            index = bits.below(self.vocab)
        elif self.name == "TK-SLT":
            size = self.size
            ids = [bits.below(self.vocab) for _ in range(size)]
            need(all(a < b for a, b in zip(ids, ids[1:])), "ids do not ascend")
            counts = [bits.probability() for _ in ids]
            index = bits.below(size)
        else:
            size = 1 + bits.below(self.vocab) if self.name == "C-SQS" else self.size
            self.check_size(size)
            ids = subset(self.vocab, size, bits.below(math.comb(self.vocab, size)))
            slots = self.resolution + size - 1
            bars = [-1, *subset(slots, size - 1, bits.below(math.comb(slots, size - 1))), slots]
            counts = [b - a - 1 for a, b in zip(bars, bars[1:])]
            index = bits.below(size)
        need(counts[index] > 0, "the draft has no mass")
        need(sum(counts) < 1 << 25, "sum of the counts")
        mass = {which: count for which, count in zip(ids, counts) if count}
        empty = [which for which, count in zip(ids, counts) if not count]
        smallest = (which for which in range(self.vocab) if which not in mass)
        need(all(which == small for which, small in zip(empty, smallest)), "filled up with other ids than the smallest")
        return {"id": ids[index], "ids": list(mass), "counts": list(mass.values()), "support_size": size}


def read_scheme(reader: Reader) -> dict[str, Any]:
    """A scheme's byte and parameters."""
    byte = reader.uint(1)
    if byte & 127 in LATTICE:
        scheme: dict[str, Any] = {"scheme": LATTICE[byte & 127]}
        if byte & 127 == 1:
            scheme["support_size"] = reader.varint()
        scheme |= {"lattice_resolution": reader.varint(), "code": "adaptive" if byte & 128 else "enumerative"}
        return scheme
    need(byte in OTHERS, "unknown scheme")
    scheme = {"scheme": OTHERS[byte]}
    if byte == 5:
        scheme["support_size"] = reader.varint()
    if byte == 6:
        scheme["samples"] = reader.uint(1)
    return scheme


def read_rule(reader: Reader) -> dict[str, Any]:
    """A rule's byte and parameter."""
    byte = reader.uint(1)
    number = byte & 63
    parameter = reader.f32(negative=True) if number else 0.0
    blocks = {"blocks": True} if byte & 64 else {}
    return {"rule": {"number": number, "parameter": parameter}, "evidence": byte > 127, **blocks}


def check_rule(frame: dict[str, Any]) -> None:
    """Whether the rule of a Prompt is one."""
    number, parameter = frame["rule"]["number"], frame["rule"]["parameter"]
    most, inclusive = RULES.get(number, (0, True))
    size = abs(parameter)
    need(parameter >= 0 or number in NEGATIVE, "negative parameter")
    need(number in UNBOUNDED or size < most or inclusive and size == most, "rule out of range")
    need(number in RULES or number in UNBOUNDED or number == 0, "unknown rule")


def read_statistics(payload: bytes, count: int, rule: int) -> tuple[list[list[int]], bytes]:
    """What precedes the drafts, and the rest."""
    reader, statistics = Reader(payload), []
    if rule in ONE_STATISTIC or rule in MANY_STATISTICS:
        for _ in range(count):
            numbers = reader.varint() if rule in MANY_STATISTICS else 1
            need(numbers <= len(payload), "truncated")
            statistics.append([reader.uint(2) for _ in range(numbers)])
    need(all(number < 0x7C00 for numbers in statistics for number in numbers), "not a statistic")
    return statistics, reader.rest()


def read_request(reader: Reader) -> dict[str, Any]:
    """What Prompt and Generate ask for."""
    return {
        "generation": reader.varint(1),
        "temperature": reader.f32(),
        "top_k": reader.varint(),
        "top_p": reader.probability(),
        "seed": reader.uint(8),
        "max_new_tokens": reader.varint(1),
        "prompt": reader.ids(1),
    }


def read_ticket(reader: Reader) -> dict[str, str]:
    """A session's id and secret."""
    return {"session": reader.take(16).hex(), "secret": reader.take(16).hex()}


def read_distribution(reader: Reader) -> list[list[Any]]:
    """The ids that have mass, each with its probability."""
    layout, begin = reader.uint(1), reader.at
    need(layout <= 1, "unknown layout")
    pairs, following = [], 0
    for _ in range(reader.varint(1)):
        which = following + (reader.varint() if layout == 0 else 0)
        need(which < (1 << 32) - 1, "id too large")
        probability = reader.probability(zero=layout == 1)
        following = which + 1
        if probability:
            pairs.append([which, probability])
    need(len(pairs) > 0 and pairs[-1][0] + 1 == following, "the last probability is 0")

    def varint_size(value: int) -> int:
        return max(1, -(-value.bit_length() // 7))

    gaps = [which - before - 1 for (before, _), (which, _) in zip([[-1, 0], *pairs], pairs)]
    sparse = varint_size(len(pairs)) + sum(varint_size(gap) + 4 for gap in gaps)
    full = varint_size(following) + 4 * following
    need((layout == 0) == (sparse <= full), "the longer layout")
    assert reader.at - begin == (full if layout else sparse)
    return pairs


def read_frame(data: bytes) -> dict[str, Any]:
    """A frame's fields."""
    need(len(data) <= MAX_FRAME, "frame too long")
    reader = Reader(data)
    kind = reader.uint(1)
    if kind == 0x01:
        need(reader.take(4) == b"OUTR", "not a Hello")
        need(reader.uint(2) == VERSION, "another version")
        frame = {"frame": "Hello", "vocab_size": reader.uint(4), "tokenizer_hash": reader.take(32).hex()}
    elif kind == 0x08:
        need(reader.take(4) == b"OUTR", "not a Resume")
        need(reader.uint(2) == VERSION, "another version")
        frame = {"frame": "Resume", **read_ticket(reader)}
        frame |= {"attempt": reader.varint(), "generation": reader.varint(), "length": reader.varint()}
    elif kind == 0x81:
        need(reader.uint(2) == VERSION, "another version")
        frame = {"frame": "Welcome", "vocab_size": reader.uint(4), "context_length": reader.uint(4)}
        frame |= {"max_draft": reader.uint(1), "max_in_flight": reader.uint(1), "max_guesses": reader.uint(1)}
        frame["max_branches"] = reader.uint(1)
        flags = reader.uint(1)
        need(flags < 4, "unknown flags")
        frame |= {"own_draws": flags & 1 != 0, "fewest_passes": flags & 2 != 0}
        frame["end_of_text"] = reader.ids()
        need(frame["max_draft"] <= 64, "too many drafts")
        need(frame["max_in_flight"] > 0, "no round in flight")
        frame |= {**read_ticket(reader), "detached_seconds": reader.varint()}
        frame["pass_micros"] = [reader.varint() for _ in range(5)]
    elif kind == 0x02:
        frame = {"frame": "Prompt", "parameters": read_scheme(reader), **read_rule(reader), "max_in_flight": reader.uint(1)}
        need(frame["max_in_flight"] > 0, "no round in flight")
        frame |= read_request(reader)
    elif kind == 0x03:
        frame = {"frame": "Generate", **read_request(reader)}
    elif kind in (0x04, 0x07, 0x14, 0x17):
        frame = {"frame": "Draft", "generation": reader.varint(1), "round": reader.varint()}
        flight = reader.varint(1) if kind & 0x10 else 0
        frame |= {"epoch": flight >> 1, "continued": flight & 1 == 1}
        count = reader.uint(1)
        need(count & 127 <= 64, "too many drafts")
        need(count & 127 > 0 or not frame["continued"], "a continued round of nothing")
        frame |= {"count": count & 127, "resampled": reader.varint() if count & 128 else None}
        frame |= {"stream": 0, "passed": []}
        if kind & 0x0F == 0x07:
            frame |= {"stream": reader.varint(), "passed": reader.ids()}
            need(frame["stream"] > 0 or len(frame["passed"]) > 0, "long for nothing")
            need(frame["stream"] == 0 or frame["count"] == 0, "drafts and a stream")
        frame["payload"] = reader.rest() if frame["stream"] == 0 else b""
    elif kind == 0x09:
        frame = {"frame": "Guesses", "generation": reader.varint(1), "chain": reader.varint(1)}
        frame |= {"position": reader.varint(), "patience": reader.varint()}
        count = reader.uint(1)
        need(count & 127 <= 64, "too many guesses")
        frame |= {"count": count & 127, "parent": reader.varint(1) if count & 128 else None}
        need(frame["parent"] is None or frame["parent"] < frame["chain"], "a branch of no earlier chain")
        frame["payload"] = reader.rest().hex() if frame["count"] else ""
    elif kind == 0x05:
        frame = {"frame": "Cancel", "generation": reader.varint(1)}
    elif kind == 0x0A:
        frame = {"frame": "Shape", "generation": reader.varint(1), "answered": reader.varint()}
        try:
            frame["options"] = reader.take(reader.varint(0, 65536)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("not UTF-8") from error
    elif kind == 0x06:
        frame = {"frame": "Resample", "generation": reader.varint(1), "round": reader.varint()}
    elif kind == 0x84:
        frame = {"frame": "Verdict", "generation": reader.varint(1), "round": reader.varint()}
        frame["accepted"], flags = reader.uint(1), reader.uint(1)
        need(frame["accepted"] <= 64 and flags & 15 <= 3 and flags >> 4 <= 3, "verdict out of range")
        frame["finish"] = FINISHES[flags & 15]
        need(flags >> 4 < 2 or flags & 15 == 0, "a finish with what the edge resamples")
        need(flags > 0 or frame["accepted"] > 0, "a verdict of nothing")
        if flags >> 4 == 1:
            frame["token"] = reader.varint()
        elif flags >> 4 == 2:
            frame["samples"] = [[reader.varint(), reader.probability()] for _ in range(reader.varint(1))]
        elif flags >> 4 == 3:
            frame["distribution"] = read_distribution(reader)
    elif kind == 0x85:
        frame = {"frame": "Distribution", "generation": reader.varint(1), "round": reader.varint()}
        frame["distribution"] = read_distribution(reader)
    elif kind == 0x87:
        frame = {"frame": "Evidence", "generation": reader.varint(1), "round": reader.varint(), "index": reader.uint(1)}
        need(frame["index"] < 64, "index out of range")
        frame |= {"rejection": reader.probability(zero=True), "divergence": reader.probability(zero=True)}
        frame["distribution"] = read_distribution(reader)
    elif kind == 0x86:
        frame = {"frame": "Tokens", "generation": reader.varint(1)}
        flags = reader.uint(1)
        need(flags & ~16 <= 3, "unknown finish")
        frame |= {"finish": FINISHES[flags & 15], "own": flags > 15, "heard": reader.uint(1), "accepted": reader.uint(1)}
        frame |= {"pass": reader.varint(), "position": reader.varint(), "tokens": reader.ids(1)}
        behind = len(frame["tokens"]) - frame["accepted"]
        need(frame["accepted"] <= 64 and (behind == 1 or behind == 0 and flags & 15 > 0), "tokens out of range")
        need(frame["accepted"] > 0 or not frame["own"], "own drafts that none was of")
    elif kind == 0x8E:
        frame = {"frame": "Error", "generation": reader.varint(), "code": reader.uint(2)}
        try:
            frame["message"] = reader.take(reader.varint(0, 512)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("not UTF-8") from error
    else:
        need(kind == 0x0F, "unknown frame")
        frame = {"frame": "Bye"}
    need(reader.at == len(data), "bytes after the last field")
    return frame


def noise(seed: int, position: int, which: int) -> int:
    """E of coupled drafting."""
    words = list(struct.unpack("<4I", b"expand 32-byte k")) + [seed & 0xFFFFFFFF, seed >> 32] + [0] * 6
    nonce = (1 << 32) + position
    words += [which // 8, 0, nonce & 0xFFFFFFFF, nonce >> 32]
    state = words[:]

    def mix(a: int, b: int, c: int, d: int) -> None:
        for first, second, third, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[first] = (state[first] + state[second]) & 0xFFFFFFFF
            mixed = state[third] ^ state[first]
            state[third] = (mixed << turn | mixed >> (32 - turn)) & 0xFFFFFFFF

    for _ in range(4):
        for column in range(4):
            mix(column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            mix(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    stream = struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(state, words)))
    u = int.from_bytes(stream[8 * (which % 8) :][:8], "little") | 1
    zeros = 64 - u.bit_length()
    m, bits = u << zeros, 0
    for _ in range(40):
        square = m * m
        bit = square >> 127
        m, bits = square >> (63 + bit), bits << 1 | bit
    return ((zeros + 1) << 40) - bits


class Session:
    """Frames one after the other."""

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab
        self.scheme: Scheme | None = None
        self.rule = 0
        self.pending: list[Any] = []

    def decode(self, data: bytes) -> dict[str, Any]:
        frame = read_frame(data)
        if frame["frame"] == "Prompt":
            self.scheme = Scheme(frame["parameters"], self.vocab)
            check_rule(frame)
            neutral = frame["temperature"] == 1 and frame["top_k"] == 0 and frame["top_p"] == 1
            self.rule = 0 if neutral else frame["rule"]["number"]
            self.whole = self.rule in OF_VOCABULARY and frame["temperature"] > 0
            need(all(which < self.vocab for which in frame["prompt"]), "a prompt's id outside the vocabulary")
            self.scheme.text(frame["prompt"])
        elif frame["frame"] == "Draft" and self.scheme is None:
            frame["payload"] = frame["payload"].hex()
        elif frame["frame"] == "Draft":
            self.scheme.text(frame["passed"])
            frame["statistics"], payload = read_statistics(frame.pop("payload"), frame["count"], self.rule)
            frame["drafts"] = self.pending = self.scheme.round(payload, frame["count"])
            if self.rule in MANY_STATISTICS:
                sizes = [self.vocab if self.whole else len(draft["ids"]) for draft in self.pending]
                need([len(numbers) for numbers in frame["statistics"]] == sizes, "statistics of other ids")
        elif frame["frame"] == "Verdict" and self.scheme and self.scheme.adaptive:
            token = [frame["token"]] if "token" in frame else []
            self.scheme.adaptive.verdict(self.pending[: frame["accepted"]], token)
        elif frame["frame"] == "Tokens" and self.scheme:
            self.scheme.text(frame["tokens"])
        return frame


def check_noise(law: dict[str, Any]) -> bool:
    """The id that a law chooses; or the least probability at which one id is chosen before another of probability 1."""

    def e(which: int) -> int:
        return noise(law["seed"], law["position"], which)

    if law["law"] == "pair":
        least = struct.unpack("<d", struct.pack("<Q", law["least_bits"]))[0]
        first, second = e(law["first"]), e(law["second"])
        return second / least < first <= second / math.nextafter(least, 0)
    weight = (lambda which: 1.0) if law["law"] == "uniform" else (lambda which: 1.0 / (which + 1))
    return min(range(law["vocab_size"]), key=lambda which: e(which) / weight(which)) == law["chosen"]


def check(path: str) -> int:
    """Checks one golden file; how many things it checked."""
    with open(path, encoding="utf-8") as file:
        golden = json.load(file)
    checked = 0
    for session in golden.get("sessions", []):
        state = Session(session["vocab_size"])
        for at, step in enumerate(session["frames"]):
            place = f"{path}: {session['name']}: frame {at}"
            try:
                found = state.decode(bytes.fromhex(step["hex"]))
            except Refused as why:
                assert "error" in step, f"{place}: refused: {why}"
            else:
                assert "error" not in step, f"{place}: {step['error']} was not refused"
                assert found == step["value"], f"{place}: found {found}, not {step['value']}"
            checked += 1
    for law in golden.get("noise", []):
        assert check_noise(law), f"{path}: {law}"
        checked += 1
    return checked


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"{argument}: {check(argument)} checked")
