"""Gateways, good and bad."""

import contextlib
import os
import random
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway import Gateway, closed, connect, read_answer
from outrider_vllm import channel as channel_module
from outrider_vllm.address import Address, SettingError, TcpAddress, UnixAddress, parse_address
from outrider_vllm.channel import MAX_CONNECTIONS, MAX_STRANGERS, Channel, listen
from outrider_vllm.messages import Guess, Hello, Status, frame

TOKEN = b"0123456789abcdef"


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.001)


Served = tuple[Channel, Address, list[Guess]]


def ignore(_: Guess) -> None:
    pass


@pytest.fixture(params=["unix", "tcp"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    taken: list[Guess] = []
    if request.param == "unix":
        address: Address = UnixAddress(str(tmp_path / "guesses.sock"))
        one = Channel(address, TOKEN, 8, 100, taken.append)
    else:
        one = Channel(TcpAddress("127.0.0.1", 0), TOKEN, 8, 100, taken.append)
        address = TcpAddress("127.0.0.1", one.port)
    yield one, address, taken
    one.close()


def test_guesses_arrive_in_order(served: Served) -> None:
    one, address, taken = served
    gateway = Gateway(address, TOKEN)
    assert (gateway.answer.status, gateway.answer.num_speculative_tokens, gateway.answer.vocabulary) == (0, 8, 100)
    for i in range(1000):
        gateway.guess([1] * i, [i % 100])
    until(lambda: one.counts.received == 1000)
    assert one.connections == 1
    assert taken == [Guess.after([1] * i, [i % 100]) for i in range(1000)]


def test_a_crowd_is_read_together(served: Served) -> None:
    one, address, _ = served
    gateway = Gateway(address, TOKEN)
    turns = 0
    turn = one._turn

    def counted() -> None:
        nonlocal turns
        turns += 1
        turn()

    one._turn = counted  # type: ignore[method-assign]
    began = time.monotonic()
    for i in range(400):
        gateway.guess([1] * i, [i % 100])
        time.sleep(0.0001)
    until(lambda: one.counts.received == 400)
    # As long as it takes here: a turn every four milliseconds, after some with less to read.
    assert turns < 10 + (time.monotonic() - began) / 0.002


def test_hellos_are_judged(served: Served) -> None:
    _, address, _ = served
    for token in (b"", TOKEN[:-1], TOKEN + b"0", b"1123456789abcdef"):
        gateway = Gateway(address, token)
        assert gateway.answer.status is Status.WRONG_TOKEN
        assert closed(gateway.socket)
    gateway = Gateway(address, TOKEN, version=2)
    assert (gateway.answer.status, gateway.answer.version) == (Status.WRONG_VERSION, 1)
    assert closed(gateway.socket)
    assert Gateway(address, TOKEN).answer.status is Status.WELCOME


def test_connections_are_bounded(served: Served) -> None:
    one, address, _ = served
    gateways = [Gateway(address, TOKEN) for _ in range(MAX_CONNECTIONS)]
    until(lambda: one.connections == MAX_CONNECTIONS)
    with contextlib.suppress(ConnectionError):
        # Where the refusal crosses the hello, the kernel may drop it.
        assert read_answer(connect(address)).status is Status.FULL
    gateways[0].close()
    until(lambda: one.connections == MAX_CONNECTIONS - 1)
    assert Gateway(address, TOKEN).answer.status is Status.WELCOME


def test_who_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    _, address, _ = served
    welcome = Gateway(address, TOKEN)
    monkeypatch.setattr(channel_module, "HELLO_SECONDS", 0.05)
    silent, slow = connect(address), connect(address)
    slow.sendall(frame(Hello(1, TOKEN).encode())[:-1])
    assert closed(silent)
    assert closed(slow)
    welcome.guess([1], [2])


def test_hostile_bytes_close_their_own_connection(served: Served) -> None:
    one, address, taken = served
    good = Gateway(address, TOKEN)
    hello = frame(Hello(1, TOKEN).encode())
    guess = Guess.after([1] * 20, [2, 3]).encode()
    source = random.Random(6)
    attacks = [
        b"GET / HTTP/1.1\r\nHost: guesses\r\n\r\n",
        frame(b""),
        b"\xff" * 100,
        hello + b"\x01\x10\x00\x00",
        hello + frame(b""),
        hello + frame(b"\x01"),
        hello + frame(Guess.after([1], [100]).encode()),
        *(hello + frame(guess[:end]) for end in range(1, len(guess))),
        *(hello + frame(b"\x01" + source.randbytes(source.randrange(60))) for _ in range(200)),
    ]
    before = one.counts.refused
    for attack in attacks:
        attacker = connect(address)
        with contextlib.suppress(ConnectionError):
            attacker.sendall(attack)
            attacker.shutdown(socket.SHUT_WR)
            while attacker.recv(100):
                pass
        attacker.close()
    until(lambda: one.connections == 1)
    assert one.counts.refused - before > 200
    good.guess([1], [2])
    until(lambda: one.counts.received == 1)
    assert taken == [Guess.after([1], [2])]


def test_a_connection_cut_anywhere_loses_only_its_last_message(served: Served) -> None:
    one, address, _ = served
    message = frame(Guess.after([1] * 20, [2, 3]).encode())
    for end in range(len(message)):
        gateway = Gateway(address, TOKEN)
        gateway.socket.sendall(message + message[:end])
        gateway.close()
    until(lambda: one.counts.received == len(message) and one.connections == 0)
    assert one.counts.refused == 0


def test_unknown_kinds_are_skipped(served: Served) -> None:
    one, address, _ = served
    gateway = Gateway(address, TOKEN)
    gateway.socket.sendall(frame(b"\x07later"))
    gateway.guess([1], [2])
    until(lambda: one.counts.received == 1)


def test_strangers_take_no_gateways_place(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    one, address, _ = served
    strangers = [connect(address) for _ in range(2 * MAX_STRANGERS)]
    gateway = Gateway(address, TOKEN)
    assert gateway.answer.status is Status.WELCOME
    # The oldest have made way, and not each with a line in the log.
    assert all(closed(stranger) for stranger in strangers[:MAX_STRANGERS])
    assert one.counts.refused > MAX_STRANGERS
    assert len(caplog.records) < MAX_STRANGERS / 2
    gateway.guess([1], [2])
    until(lambda: one.counts.received == 1)


def test_strangers_make_way_where_all_places_are_taken(served: Served) -> None:
    one, address, _ = served
    gateways = [Gateway(address, TOKEN) for _ in range(MAX_CONNECTIONS - 4)]
    strangers = [connect(address) for _ in range(4)]
    gateways.append(Gateway(address, TOKEN))
    assert gateways[-1].answer.status is Status.WELCOME
    assert closed(strangers[0])
    assert one.connections == MAX_CONNECTIONS - 3


def test_reads_are_limited_and_not_only_messages(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    one, address, _ = served
    monkeypatch.setattr(channel_module, "_READ", 1)
    gateway = Gateway(address, TOKEN)
    start = time.monotonic()
    # One message, and a read for each of its 4000 bytes: some 15 bursts.
    gateway.socket.sendall(frame(b"\x07" + bytes(3999)))
    gateway.guess([1], [2])
    until(lambda: one.counts.received == 1)
    assert time.monotonic() - start > 0.1


@pytest.mark.parametrize("kind", [Guess.after([1], [1]).encode(), b"\x07later"])
def test_a_flood_is_slowed_down_and_holds_up_nobody(served: Served, kind: bytes) -> None:
    one, address, taken = served
    flooding, other = Gateway(address, TOKEN), Gateway(address, TOKEN)
    stop = threading.Event()

    def pour() -> None:
        with contextlib.suppress(OSError):
            while not stop.is_set():
                flooding.socket.sendall(frame(kind) * 100)

    start = time.monotonic()
    thread = threading.Thread(target=pour)
    thread.start()
    time.sleep(0.1)
    other.guess([1], [2])
    until(lambda: any(guess.ids == (2,) for guess in taken))
    # A burst and what one read holds, each 10 ms.
    assert one.counts.messages < 370 * (100 * (time.monotonic() - start) + 2)
    assert one.connections == 2
    stop.set()
    flooding.close()
    thread.join()


def test_the_sockets_file_is_for_owner_and_group_and_goes_with_the_channel(tmp_path: Path) -> None:
    path = tmp_path / "guesses.sock"
    before = os.umask(0)
    try:
        one = Channel(UnixAddress(str(path)), b"", 8, 100, ignore)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    gateway = Gateway(UnixAddress(str(path)))
    one.close()
    one.close()
    assert closed(gateway.socket)
    assert not path.exists()


def test_a_dead_process_leaves_a_file_that_is_replaced_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "guesses.sock"
    address = UnixAddress(str(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
        dead.listen()
    first = Channel(address, b"", 8, 100, ignore)
    with pytest.raises(SettingError, match=r"cannot listen at unix:.*in use"):
        Channel(address, b"", 8, 100, ignore)
    assert Gateway(address).answer.status is Status.WELCOME
    # Who was replaced by force leaves its successor's file alone.
    path.unlink()
    second = Channel(address, b"", 8, 100, ignore)
    first.close()
    assert Gateway(address).answer.status is Status.WELCOME
    second.close()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(SettingError, match="in use"):
        Channel(UnixAddress(str(path)), b"", 8, 100, ignore)
    assert path.read_text() == "mine"
    with pytest.raises(SettingError, match="cannot listen"):
        Channel(UnixAddress(str(tmp_path / "no" / "folder")), b"", 8, 100, ignore)


def test_addresses() -> None:
    assert parse_address("unix:/run/g-{rank}.sock", 3) == UnixAddress("/run/g-3.sock")
    assert parse_address("tcp:0.0.0.0:8790", 3) == TcpAddress("0.0.0.0", 8790)
    assert parse_address("tcp:10.0.0.1:8790+{rank}", 3) == TcpAddress("10.0.0.1", 8793)
    assert str(parse_address("tcp:[::1]:8790", 0)) == "tcp:[::1]:8790"
    for bad in ("", "unix:", "/run/g.sock", "tcp:8790", "tcp::8790", "tcp:h:", "tcp:h:x", "tcp:h:70000", "tcp:h:1+2"):
        with pytest.raises(SettingError, match="has to be unix:PATH or tcp:HOST:PORT"):
            parse_address(bad, 0)


def test_both_families_reach_the_port_of_all_interfaces() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listen(TcpAddress("::", 0)) as listener:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, listener.getsockname()[1]), timeout=5).close()


def test_names_are_listened_at_in_their_family(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(TcpAddress("localhost", 0)) as listener:
        socket.create_connection(("127.0.0.1", listener.getsockname()[1]), timeout=5).close()
    only_six = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: only_six)
    monkeypatch.setattr(socket, "create_server", lambda *_, family, **__: socket.socket(family))
    with listen(TcpAddress("six.example", 0)) as listener:
        assert listener.family == socket.AF_INET6
