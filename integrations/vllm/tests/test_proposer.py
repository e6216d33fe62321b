"""The proposer inside an engine that judges as vLLM does: texts stay the target's, and come in fewer steps."""

import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import numpy as np
import pytest

from gateway import Gateway
from outrider_vllm import Proposer, SettingError
from outrider_vllm.address import Address, TcpAddress, UnixAddress
from stub_vllm import Engine, Judge, Probabilities, config, judge, likeliest, random_target

VOCABULARY = 12
TARGET = random_target(VOCABULARY, seed=11)
K = 4


class Clock:
    """Every look at it takes ten microseconds: judged rows cost nothing."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.000_01
        return self.now


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Address:
    path = str(tmp_path / "guesses.sock")
    monkeypatch.setenv("OUTRIDER_GUESSES", f"unix:{path}")
    return UnixAddress(path)


@pytest.fixture
def proposer(address: Address) -> Iterator[Proposer]:
    assert address
    one = Proposer(config(), Clock())
    yield one
    one.close()


def arrived(proposer: Proposer, count: int) -> None:
    """Wait until so many guesses have come."""
    channel = proposer.channel
    assert channel is not None
    deadline = time.monotonic() + 10
    while channel.counts.received < count:
        assert time.monotonic() < deadline
        time.sleep(0.000_5)


def prompts(count: int, length: int = 20) -> list[list[int]]:
    source = random.Random(7)
    return [[source.randrange(VOCABULARY) for _ in range(length)] for _ in range(count)]


def texts(engine: Engine, starts: list[list[int]], tokens: int) -> list[list[int]]:
    requests = [engine.add(start, tokens) for start in starts]
    engine.run()
    return [request.text for request in requests]


def send_true(gateway: Gateway, start: list[int], tokens: int, group: int = 5) -> int:
    """Guess a greedy text in groups; how many."""
    truth = likeliest(TARGET, start, tokens)
    for at in range(0, tokens, group):
        gateway.guess(start + truth[:at], truth[at : at + group])
    return -(-tokens // group)


def test_true_guesses_write_the_same_text_in_fewer_steps(proposer: Proposer, address: Address) -> None:
    starts = prompts(6)
    gateway = Gateway(address)
    arrived(proposer, sum([send_true(gateway, start, 60) for start in starts]))
    engine = Engine(proposer, TARGET, greedy=True)
    assert texts(engine, starts, 60) == [start + likeliest(TARGET, start, 60) for start in starts]
    assert engine.steps < 30
    assert proposer.counts.accepted > 6 * 35


def lies(gateway: Gateway, start: list[int], source: random.Random) -> None:
    gateway.guess(start, [source.randrange(VOCABULARY) for _ in range(32)])


def late(gateway: Gateway, start: list[int], source: random.Random) -> None:
    gateway.guess(start[:10], [*start[10:], source.randrange(VOCABULARY)])


def early(gateway: Gateway, start: list[int], source: random.Random) -> None:
    future = start + likeliest(TARGET, start, source.randrange(5, 30))
    gateway.guess(future, likeliest(TARGET, future, 7))


def another_sessions(gateway: Gateway, start: list[int], source: random.Random) -> None:
    other = [source.randrange(VOCABULARY) for _ in start]
    gateway.guess(other, likeliest(TARGET, other, 20))


def colliding(gateway: Gateway, start: list[int], source: random.Random) -> None:
    # As long, and the last 16 ids the same.
    gateway.guess([source.randrange(VOCABULARY) for _ in start[:-16]] + start[-16:], [source.randrange(VOCABULARY)] * 6)


def off_by_one(gateway: Gateway, start: list[int], source: random.Random) -> None:
    assert source
    gateway.guess(start, likeliest(TARGET, start, 20)[1:])


KINDS = [lies, late, early, another_sessions, colliding, off_by_one]


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_guessed_the_greedy_text_stays(
    proposer: Proposer, address: Address, kind: Callable[[Gateway, list[int], random.Random], None]
) -> None:
    source = random.Random(8)
    gateway = Gateway(address)
    starts = prompts(12)
    for start in starts:
        kind(gateway, start, source)
    arrived(proposer, len(starts))
    assert texts(Engine(proposer, TARGET, greedy=True), starts, 40) == [s + likeliest(TARGET, s, 40) for s in starts]


def test_rows_that_come_go_move_and_are_preempted(proposer: Proposer, address: Address) -> None:
    source = random.Random(9)
    gateway = Gateway(address)
    engine = Engine(proposer, TARGET, greedy=True, rows=5, chunk=8)
    sent = 0
    requests = []
    for start in prompts(60, length=30):
        requests.append((start, engine.add(start, source.randrange(1, 50))))
        sent += send_true(gateway, start, 40)
        lies(gateway, start + likeliest(TARGET, start, source.randrange(20)), source)
        sent += 1
    arrived(proposer, sent)
    while engine.running or engine.waiting:
        engine.step()
        if engine.running and source.random() < 0.1:
            engine.preempt(source.randrange(len(engine.running)))
    for start, request in requests:
        assert request.text == start + likeliest(TARGET, start, len(request.text) - len(start))
        assert len(request.text) == request.end
    assert proposer.counts.accepted > 200


def test_texts_end_at_the_models_longest(address: Address) -> None:
    proposer = Proposer(config(max_model_len=64), Clock())
    starts = prompts(3)
    gateway = Gateway(address)
    arrived(proposer, sum([send_true(gateway, start, 60) for start in starts]))
    written = texts(Engine(proposer, TARGET, greedy=True, max_model_len=64), starts, 100)
    assert written == [start + likeliest(TARGET, start, 44) for start in starts]
    # Asked there all the same, it proposes nothing that would not fit.
    ids = np.zeros((1, 64), dtype=np.int32)
    for length in range(55, 65):
        gateway.guess([0] * length, [0] * 8)
    arrived(proposer, sum([12, 12, 12, 10]))
    for length in range(55, 65):
        for _ in range(3):
            (proposal,) = proposer.propose([[0]], np.array([length], dtype=np.int32), ids)
            assert length + len(proposal) + 1 <= 64 or not proposal
    proposer.close()


def over_accepting(p: Probabilities, guess: int, source: np.random.Generator) -> int:
    """The planted error: a total variation of about 0.02 at each guessed token."""
    return guess if source.random() < 0.05 else judge(p, guess, source)


def deviations(proposer: Proposer, address: Address, rule: Judge) -> tuple[float, float]:
    """How far the first three tokens of 24000 texts are from the target's closed form, in standard deviations.

    First over all 64 triples (chi-square), then how often a token is the guess for its place.
    """
    count = 24_000
    target = random_target(4, seed=12)
    start = [one % 4 for one in prompts(1)[0]]
    gateway = Gateway(address)
    gateway.guess(start, likeliest(target, start, 4))
    for first in range(4):
        gateway.guess([*start, first], likeliest(target, [*start, first], 4))
    arrived(proposer, 5)
    engine = Engine(proposer, target, greedy=False, seed=13, rows=64, judge=rule)
    seen = np.zeros((4, 4, 4))
    for text in texts(engine, [start] * count, 3):
        seen[tuple(text[-3:])] += 1
    assert proposer.counts.accepted > count / 3

    expected = np.zeros((4, 4, 4))
    guessed = variance = 0.0
    for a in range(4):
        after_a = target([*start, a])
        for b in range(4):
            after_b = target([*start, a, b])
            expected[a, b] = count * target(start)[a] * after_a[b] * after_b
            p = after_b.max()
            guessed += seen[a, b, after_b.argmax()] - seen[a, b].sum() * p
            variance += seen[a, b].sum() * p * (1 - p)
        p = after_a.max()
        guessed += seen[a, after_a.argmax()].sum() - seen[a].sum() * p
        variance += seen[a].sum() * p * (1 - p)
    chi_square = float(((seen - expected) ** 2 / expected).sum())
    return (chi_square - 63) / (2 * 63) ** 0.5, float(guessed / variance**0.5)


def test_at_temperature_one_texts_are_distributed_as_the_targets(proposer: Proposer, address: Address) -> None:
    triples, guesses = deviations(proposer, address, judge)
    assert abs(triples) < 4
    assert abs(guesses) < 4


def test_the_statistic_sees_an_engine_that_accepts_too_much(proposer: Proposer, address: Address) -> None:
    _, guesses = deviations(proposer, address, over_accepting)
    assert guesses > 5


def test_a_hundred_cuts_lose_nothing(proposer: Proposer, address: Address) -> None:
    starts = prompts(100)
    engine = Engine(proposer, TARGET, greedy=True, rows=16)
    requests = [engine.add(start, 30) for start in starts]
    sent = 0
    for start in starts:
        gateway = Gateway(address)
        sent += send_true(gateway, start, 30)
        gateway.socket.sendall(b"\x20\x00\x00\x00\x01\x02")
        gateway.close()
        engine.step()
    engine.run()
    arrived(proposer, sent)
    assert [request.text for request in requests] == [start + likeliest(TARGET, start, 30) for start in starts]
    assert Gateway(address).answer.status == 0


def test_over_tcp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    token = tmp_path / "token"
    monkeypatch.setenv("OUTRIDER_GUESSES", "tcp:127.0.0.1:0")
    with pytest.raises(SettingError, match="OUTRIDER_GUESSES_TOKEN_FILE has to name"):
        Proposer(config())
    monkeypatch.setenv("OUTRIDER_GUESSES_TOKEN_FILE", str(token))
    with pytest.raises(SettingError, match="cannot be read"):
        Proposer(config())
    token.write_text("short\n")
    with pytest.raises(SettingError, match="has 5 bytes"):
        Proposer(config())
    token.write_text("0123456789abcdef\n")
    proposer = Proposer(config(), Clock())
    assert proposer.channel is not None
    start = prompts(1)[0]
    gateway = Gateway(TcpAddress("127.0.0.1", proposer.channel.port), b"0123456789abcdef")
    arrived(proposer, send_true(gateway, start, 40))
    engine = Engine(proposer, TARGET, greedy=True)
    assert texts(engine, [start], 40) == [start + likeliest(TARGET, start, 40)]
    assert engine.steps < 30
    proposer.close()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"async_scheduling": True}, "add --no-async-scheduling"),
        ({"pipeline_parallel_size": 2}, "do not work with pipeline parallelism"),
        ({"distributed_executor_backend": "external_launcher", "world_size": 2}, "external_launcher"),
    ],
)
def test_what_cannot_work_is_refused(address: Address, changes: dict[str, object], why: str) -> None:
    assert address
    with pytest.raises(SettingError, match=why):
        Proposer(config(**changes))


def test_an_address_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTRIDER_GUESSES", raising=False)
    with pytest.raises(SettingError, match="OUTRIDER_GUESSES is not set"):
        Proposer(config())


def test_the_pace_is_one_of_two(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    assert address
    monkeypatch.setenv("OUTRIDER_GUESSES_PACE", "some")
    with pytest.raises(SettingError, match="has to be measured or all"):
        Proposer(config())
    monkeypatch.setenv("OUTRIDER_GUESSES_PACE", "all")
    Proposer(config()).close()


def test_only_the_first_tensor_parallel_worker_listens(address: Address) -> None:
    assert isinstance(address, UnixAddress)
    other = Proposer(config(rank=1, world_size=2, tensor_parallel_size=2))
    assert other.channel is None
    assert not Path(address.path).exists()
    assert other.propose([[1], []], np.array([1, 1]), np.zeros((2, 8), dtype=np.int32)) == [[], []]


def test_data_parallel_engines_listen_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTRIDER_GUESSES", f"unix:{tmp_path}/guesses-{{rank}}.sock")
    engines = [Proposer(config(data_parallel_index=rank)) for rank in range(2)]
    for rank in range(2):
        assert Gateway(UnixAddress(f"{tmp_path}/guesses-{rank}.sock")).answer.status == 0
    for engine in engines:
        engine.close()


class FakeTensor:
    """What a broken function returns."""

    def tolist(self) -> list[float]:
        return [0.0] * 4


def test_a_wrong_temperature_that_cannot_be_put_right_is_refused(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert address
    sampler = SimpleNamespace(expand_batch_to_tokens=lambda *_: FakeTensor())
    platforms = SimpleNamespace(current_platform=SimpleNamespace(is_cpu=lambda: True))
    torch = SimpleNamespace(tensor=lambda *_, **__: None, int32=None)
    monkeypatch.setitem(sys.modules, "vllm.v1.sample.rejection_sampler", cast(ModuleType, sampler))
    monkeypatch.setitem(sys.modules, "vllm.platforms", cast(ModuleType, platforms))
    monkeypatch.setitem(sys.modules, "torch", cast(ModuleType, torch))
    monkeypatch.setattr("outrider_vllm.temperature._expand", lambda *_: FakeTensor())
    with pytest.raises(SettingError, match="wrong temperature"):
        Proposer(config())
    platforms.current_platform.is_cpu = lambda: False
    Proposer(config()).close()


def propose_and_end(path: str) -> None:
    """Runs in a process of its own, as vLLM's engine does."""
    os.environ["OUTRIDER_GUESSES"] = f"unix:{path}"
    proposer = Proposer(config())
    assert proposer.channel is not None
    assert Path(path).exists()
    sys.exit(3)


def test_the_sockets_file_goes_with_the_engines_process(tmp_path: Path) -> None:
    path = tmp_path / "guesses.sock"
    engine = get_context("fork").Process(target=propose_and_end, args=(str(path),))
    engine.start()
    engine.join(timeout=20)
    assert engine.exitcode == 3
    assert not path.exists()


def test_an_error_inside_proposes_nothing_and_is_logged_once(
    proposer: Proposer, caplog: pytest.LogCaptureFixture
) -> None:
    unusable = SimpleNamespace()
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert proposer.propose([[1]], unusable, unusable) == [[]]  # type: ignore[arg-type]
    assert len(caplog.records) == 1


def test_guesses_worth_nothing_are_not_judged(address: Address) -> None:
    assert address
    clock = SimpleNamespace(now=0.0)
    proposer = Proposer(config(), lambda: clock.now)
    gateway = Gateway(address)
    ids = np.zeros((1, 512), dtype=np.int32)
    for at in range(1, 400, 4):
        gateway.guess([0] * at, [0] * 8)
    arrived(proposer, 100)
    judged = []
    (proposal,) = proposer.propose([[0]], np.array([1], dtype=np.int32), ids)
    for length in range(2, 400):
        # A judged row costs a quarter of a step, which acceptance could repay; but none is accepted.
        clock.now += 0.01 + 0.0025 * len(proposal)
        (proposal,) = proposer.propose([[1]], np.array([length], dtype=np.int32), ids)
        judged.append(len(proposal))
    assert sum(judged[:20]) > 0
    assert sum(judged[-200:]) < 20
    assert all(a == 0 or b == 0 for a, b in pairwise(judged[-200:]))
    proposer.close()


@pytest.mark.parametrize(("version", "warned"), [("0.32.0", False), ("0.32.0+cpu", False), ("0.33.1", True)])
def test_another_version_of_vllm_is_noted(
    address: Address,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    version: str,
    warned: bool,
) -> None:
    assert address
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    Proposer(config(), Clock()).close()
    assert ("this is vLLM 0.33.1" in caplog.text) == warned
