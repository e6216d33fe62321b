"""A client of Outrider's protocol: Python's standard library, and shared-codec/FORMAT.md, whose words it uses.

    target/release/outrider serve &
    python3 examples/client.py http://127.0.0.1:8787 "Once upon a time" 0.7

It has no draft model: it drafts what followed the text's last token the last time. Under coupled drafting any guess
will do, because the text depends on prompt, seed and sampling alone. So it is written a second time without drafts,
and at temperature 0 once more by the server alone, and has to be the same.
"""

import base64
import hashlib
import json
import os
import socket
import struct
import sys
import urllib.parse
import urllib.request

SEED, MAX_NEW_TOKENS, DRAFTS = 1, 96, 4
VERSION, COUPLED, EXACT = 8, 7, 0


class Socket:
    """A WebSocket, as far as it is needed here: whole binary messages."""

    def __init__(self, host: str, port: int) -> None:
        self.stream = socket.create_connection((host, port), timeout=60)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.stream.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /session HTTP/1.1", f"Host: {host}:{port}", "Connection: Upgrade", "Upgrade: websocket"]
        lines += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", "", ""]
        self.stream.sendall("\r\n".join(lines).encode())
        status = self.file.readline().decode().strip()
        assert " 101 " in status, f"the server answered {status}"
        while self.file.readline() != b"\r\n":
            pass

    def send(self, data: bytes, opcode: int = 2) -> None:
        length = bytes([128 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
        # The mask of zeros leaves the bytes as they are.
        self.stream.sendall(bytes([128 | opcode]) + length + bytes(4) + data)

    def receive(self) -> bytes:
        while True:
            opcode, length = (byte & 127 for byte in self.file.read(2))
            if length > 125:
                length = int.from_bytes(self.file.read(2 if length == 126 else 8), "big")
            data = self.file.read(length)
            if opcode == 2:
                return data
            assert opcode == 9, f"the server closed: {data!r}"
            self.send(data, opcode=10)


class Reader:
    """The fields of a frame."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def uint(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.uint(1)
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([128 | value & 127]) + varint(value >> 7)


class Session:
    """A connection that has shaken hands, and its generations."""

    def __init__(self, host: str, port: int, vocabulary: dict[str, int], temperature: float) -> None:
        digest = hashlib.sha256()
        for token, which in sorted(vocabulary.items(), key=lambda entry: entry[1]):
            digest.update(struct.pack("<II", which, len(token.encode())) + token.encode())
        self.socket, self.vocab, self.generation = Socket(host, port), max(vocabulary.values()) + 1, 0
        self.temperature = temperature
        self.socket.send(b"\x01OUTR" + struct.pack("<HI", VERSION, self.vocab) + digest.digest())
        welcome = self.receive(0x81)
        _, _, self.context, self.most_drafts, _, _ = struct.unpack("<HIIBBB", welcome.take(13))

    def receive(self, kind: int) -> Reader:
        """The next frame, which has to be of this kind."""
        frame = Reader(self.socket.receive())
        found = frame.uint(1)
        if found == 0x8E:
            frame.varint()
            code = frame.uint(2)
            raise SystemExit(f"error {code:04x}: {frame.take(frame.varint()).decode()}")
        assert found == kind, f"frame {found:02x} in place of {kind:02x}"
        if kind != 0x81:
            assert frame.varint() == self.generation
        return frame

    def request(self, prompt: list[int]) -> bytes:
        self.generation += 1
        sampling = struct.pack("<f", self.temperature) + varint(0) + struct.pack("<f", 1.0) + struct.pack("<Q", SEED)
        ids = b"".join(map(varint, [len(prompt), *prompt]))
        return varint(self.generation) + sampling + varint(MAX_NEW_TOKENS) + ids

    def alone(self, prompt: list[int]) -> list[int]:
        """What the server writes alone."""
        self.socket.send(b"\x03" + self.request(prompt))
        text, finish = [], 0
        while not finish:
            tokens = self.receive(0x86)
            flags, _, _ = tokens.uint(1), tokens.uint(1), tokens.uint(1)
            finish, _, _ = flags & 15, tokens.varint(), tokens.varint()
            text += [tokens.varint() for _ in range(tokens.varint())]
        return text

    def drafted(self, prompt: list[int], most: int) -> tuple[list[int], int, int]:
        """What comes of rounds of so many drafts at most: the text, the rounds and the accepted drafts."""
        self.socket.send(b"\x02" + bytes([COUPLED, EXACT, 1]) + self.request(prompt))
        text, accepted_drafts, width = list(prompt), 0, (self.vocab - 1).bit_length()
        for number in range(MAX_NEW_TOKENS):
            # The server adds a token of its own, for which there has to be room.
            room = min(self.context, len(prompt) + MAX_NEW_TOKENS) - len(text) - 1
            drafts = guess(text, min(most, self.most_drafts, room))
            bits = "".join(f"{draft:0{width}b}" for draft in drafts)
            payload = bytes(int(bits[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(bits), 8))
            self.socket.send(b"\x04" + varint(self.generation) + varint(number) + bytes([len(drafts)]) + payload)
            verdict = self.receive(0x84)
            answered, accepted, flags = verdict.varint(), verdict.uint(1), verdict.uint(1)
            assert answered == number and accepted <= len(drafts)
            text += drafts[:accepted] + ([verdict.varint()] if flags >> 4 == 1 else [])
            accepted_drafts += accepted
            if flags & 15:
                return text[len(prompt) :], number + 1, accepted_drafts
        raise SystemExit("the generation has no end")


def guess(text: list[int], most: int) -> list[int]:
    """What followed the last time that the text's last token stood there."""
    last = next((at for at in range(len(text) - 2, -1, -1) if text[at] == text[-1]), len(text))
    return text[last + 1 : last + 1 + most]


def main(server: str, prompt: str, temperature: str = "0") -> None:
    address = urllib.parse.urlsplit(server)
    with urllib.request.urlopen(f"{server}/pair/tokenizer.json") as file:
        tokenizer = json.load(file)
    vocabulary = tokenizer["model"]["vocab"] | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    # Byte-level tokens spell bytes that are no printable characters as those from U+0100 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + at) for at, byte in enumerate(sorted({*range(256)} - {*printable}))}
    bytes_of = {letter: byte for byte, letter in letters.items()}
    # The longest token that fits, in place of the tokenizer's merges: other cuts of words, of the same text.
    spelled, ids = "".join(letters[byte] for byte in prompt.encode()), [0]
    while spelled:
        token = next(spelled[:n] for n in range(len(spelled), 0, -1) if spelled[:n] in vocabulary)
        spelled, ids = spelled[len(token) :], [*ids, vocabulary[token]]

    session = Session(address.hostname or "127.0.0.1", address.port or 80, vocabulary, float(temperature))
    text, rounds, accepted = session.drafted(ids, DRAFTS)
    spelling = {which: token for token, which in vocabulary.items()}
    found = bytes(bytes_of.get(letter, 63) for which in text for letter in spelling[which])
    print(prompt + found.decode(errors="replace"))
    print(f"{len(text)} tokens in {rounds} forward passes of the server; {accepted} drafts were accepted")
    assert session.drafted(ids, 0)[0] == text, "without drafts it is another text"
    assert session.temperature > 0 or session.alone(ids) == text, "the server alone writes another text"
    session.socket.send(b"\x0f")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["http://127.0.0.1:8787", "Once upon a time"]))
