"""The guess channel's listening end: one thread that serves all gateways.

It hands each guess on as it comes, while the engine computes; a step of the engine never reads, decodes or waits.
Whatever a gateway does or fails to do costs its own connection.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import selectors
import socket
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from outrider_vllm.address import Address, SettingError, TcpAddress, UnixAddress
from outrider_vllm.messages import VERSION, Answer, BadMessageError, Guess, Hello, Status, Unframer, decode_guess, frame

# Below vLLM's own logger, so that its settings show these lines.
logger = logging.getLogger("vllm.outrider")

MAX_CONNECTIONS = 64
"""Gateways served at once, and connections that have not said hello yet."""

MAX_STRANGERS = 16
"""Of these, the ones that have not said hello yet. For one more the oldest of them is cut off."""

HELLO_SECONDS = 5.0
"""Within which a connection has to say hello."""

_READ = 1024
"""Bytes read at once: few, so that the engine waits for the interpreter's lock no longer than they take to decode."""

_BURST = 256
"""Messages, reads and connections in :data:`_BURST_SECONDS` at most: 25600 a second. What comes faster waits."""

_BURST_SECONDS = 0.010

_GATHER_SECONDS = 0.001
_MAX_GATHER_SECONDS = 0.004
"""From a turn to the next, for each message of it, and at most. A thousand messages a second and more are read together
then, which takes half as much of the engine's core; fewer are read as they come."""

_LOG_SECONDS = 1.0
"""Between lines about who was refused; those in between are counted."""

_PAUSE_SECONDS = 0.002
"""Between attempts to accept a connection where that fails."""


@dataclass
class Counts:
    """What happened at the channel since its start."""

    messages: int = 0
    """Of whatever kind."""
    received: int = 0
    """Guesses."""
    refused: int = 0
    """Connections that were closed for what they sent."""


@dataclass
class _Connection:
    peer: str
    deadline: float
    unframer: Unframer = field(default_factory=Unframer)
    welcome: bool = False


class Channel:
    """Listens from construction to :meth:`close`."""

    def __init__(
        self,
        address: Address,
        token: bytes,
        num_speculative_tokens: int,
        vocabulary: int,
        take: Callable[[Guess], None],
    ) -> None:
        """Listen at ``address`` for gateways that know ``token``; the thread calls ``take`` with each guess.

        Raises:
            SettingError: if one cannot listen there.

        """
        self.counts = Counts()
        self._address = address
        self._token = token
        self._proposals = num_speculative_tokens
        self._vocabulary = vocabulary
        self._take = take
        self._connections: dict[socket.socket, _Connection] = {}
        self._listener = listen(address)
        self._bound = _identity(address)
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._closing = False
        self._burst = 0
        self._burst_at = 0.0
        self._next_turn = 0.0
        self._logged_at = -_LOG_SECONDS
        self._unlogged = 0
        self._thread = threading.Thread(target=self._run, name="outrider-guesses", daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """Count the gateways that were welcomed."""
        return sum(connection.welcome for connection in list(self._connections.values()))

    @property
    def port(self) -> int:
        """The TCP port, also where the system chose it."""
        name = self._listener.getsockname()
        return int(name[1]) if isinstance(name, tuple) else 0

    def close(self) -> None:
        """Stop listening, cut all connections and remove the socket's file."""
        if self._closing:
            return
        self._closing = True
        with contextlib.suppress(OSError):
            self._waker.send(b"x")
        self._thread.join(timeout=5.0)
        # Another engine may have taken the path over.
        if isinstance(self._address, UnixAddress) and _identity(self._address) == self._bound:
            with contextlib.suppress(OSError):
                os.unlink(self._address.path)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        except Exception:
            logger.exception("the guess channel failed and is closed; vLLM writes on without guesses")
        finally:
            for connection in list(self._connections):
                self._drop(connection)
            for one in (self._listener, self._waker, self._woken, self._selector):
                one.close()

    def _turn(self) -> None:
        """Wait for something to happen, and handle it."""
        ready = self._selector.select(self._until_deadline())
        early = self._next_turn - time.monotonic()
        if early > 0:
            time.sleep(early)
        before = self.counts.messages
        for key, _ in ready:
            one = key.fileobj
            if one is self._listener:
                self._accept()
            elif isinstance(one, socket.socket) and one in self._connections:
                self._read(one)
            if self._burst >= _BURST:
                time.sleep(max(0.0, self._burst_at + _BURST_SECONDS - time.monotonic()))
                self._burst = 0
                self._burst_at = time.monotonic()
        now = time.monotonic()
        self._next_turn = now + min(_GATHER_SECONDS * (self.counts.messages - before), _MAX_GATHER_SECONDS)
        for one, connection in list(self._connections.items()):
            if not connection.welcome and now >= connection.deadline:
                self._refuse(one, f"it said no hello within {HELLO_SECONDS:.0f} s")

    def _until_deadline(self) -> float | None:
        deadlines = [c.deadline for c in self._connections.values() if not c.welcome]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _accept(self) -> None:
        try:
            one, peer = self._listener.accept()
        except OSError:
            # The peer has gone, or this process has too many files open: the pause keeps the latter from spinning.
            time.sleep(_PAUSE_SECONDS)
            return
        one.setblocking(False)
        self._burst += 1
        connection = _Connection(str(peer) if peer else "a local process", time.monotonic() + HELLO_SECONDS)
        strangers = [each for each, known in self._connections.items() if not known.welcome]
        if strangers and (len(strangers) >= MAX_STRANGERS or len(self._connections) >= MAX_CONNECTIONS):
            self._refuse(strangers[0], "it has said no hello, and others come")
        if len(self._connections) >= MAX_CONNECTIONS:
            self._answer(one, Status.FULL)
            one.close()
            self._refused(connection.peer, f"there are {MAX_CONNECTIONS} connections")
            return
        if one.family != socket.AF_UNIX:
            # A gateway's machine that has gone frees its connection within minutes.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        self._connections[one] = connection
        self._selector.register(one, selectors.EVENT_READ)

    def _read(self, one: socket.socket) -> None:
        connection = self._connections[one]
        self._burst += 1
        try:
            chunk = one.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            if connection.welcome:
                logger.info("guesses: %s has gone", connection.peer)
            self._drop(one)
            return
        try:
            for body in connection.unframer.push(chunk):
                self._burst += 1
                self.counts.messages += 1
                if connection.welcome:
                    self._guess(body)
                elif not self._hello(one, connection, body):
                    return
        except BadMessageError as error:
            self._refuse(one, str(error))

    def _hello(self, one: socket.socket, connection: _Connection, body: bytes) -> bool:
        """Answer a hello; false if the connection is closed."""
        hello = Hello.decode(body)
        if hello.version != VERSION:
            self._answer(one, Status.WRONG_VERSION)
            self._refuse(one, f"it speaks version {hello.version}, not {VERSION}")
            return False
        if not hmac.compare_digest(hello.token, self._token):
            self._answer(one, Status.WRONG_TOKEN)
            self._refuse(one, "its token is wrong")
            return False
        connection.welcome = True
        self._answer(one, Status.WELCOME)
        logger.info("guesses: %s is connected", connection.peer)
        return True

    def _guess(self, body: bytes) -> None:
        guess = decode_guess(body, self._vocabulary)
        if guess is None:
            return
        self._take(guess)
        self.counts.received += 1

    def _answer(self, one: socket.socket, status: Status) -> None:
        # A few bytes into an empty buffer never block; a peer that has gone is noticed when it is read from.
        with contextlib.suppress(OSError):
            one.send(frame(Answer(status, self._proposals, self._vocabulary).encode()))

    def _refuse(self, one: socket.socket, why: str) -> None:
        self._refused(self._connections[one].peer, why)
        self._drop(one)

    def _refused(self, peer: str, why: str) -> None:
        """Count it, and say so at times: whoever is refused again and again costs no line each."""
        self.counts.refused += 1
        now = time.monotonic()
        if now - self._logged_at < _LOG_SECONDS:
            self._unlogged += 1
            return
        others = f", and {self._unlogged} others before" if self._unlogged else ""
        logger.warning("guesses: %s is cut off: %s%s", peer, why, others)
        self._logged_at = now
        self._unlogged = 0

    def _drop(self, one: socket.socket) -> None:
        del self._connections[one]
        self._selector.unregister(one)
        one.close()


def listen(address: Address) -> socket.socket:
    """A listening socket.

    Raises:
        SettingError: if one cannot listen there.

    """
    try:
        if isinstance(address, UnixAddress):
            return _listen_unix(address.path)
        listener = _listen_tcp(address)
    except OSError as error:
        raise SettingError(
            f"OUTRIDER_GUESSES: cannot listen at {address} ({error.strerror or error}); "
            "with data parallelism {rank} keeps the engines' addresses apart"
        ) from error
    listener.setblocking(False)
    return listener


def _listen_tcp(address: TcpAddress) -> socket.socket:
    """A socket of IPv4 if the host has such an address; `::` takes connections of both families."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    families = {family for family, *_ in found}
    family = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    both = family == socket.AF_INET6 and address.host == "::" and socket.has_dualstack_ipv6()
    where = (address.host, address.port)
    return socket.create_server(where, family=family, backlog=MAX_CONNECTIONS, dualstack_ipv6=both)


def _listen_unix(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode) and not _answers(path):
            # A process that was killed has left it.
            os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        # Nobody can connect before `listen`, so nobody connects with other permissions than these.
        os.chmod(path, 0o660)
        listener.listen(MAX_CONNECTIONS)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _answers(path: str) -> bool:
    """Whether a process listens at a socket's file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True


def _identity(address: Address) -> tuple[int, int] | None:
    """Which file a Unix address is."""
    if not isinstance(address, UnixAddress):
        return None
    try:
        status = os.stat(address.path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
