"""The proposer inside vLLM itself; README.md says how to install what it needs.

    python tests/with_vllm.py --vllm VENV/bin/vllm --model CHECKPOINT

starts two engines, one of them with the proposer, plays the gateway and prints what it sees:

1. Greedy texts of both, under guesses that are right, partly wrong, late or absent. Where they differ, vLLM's own gap
   between the two likeliest tokens is shown: a tie that batching decides one way or the other.
2. At temperature 1, the first three tokens of many texts against the model's own distribution, with likeliest guesses
   and without; and that a planted error of 0.02 in total variation is seen.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from gateway import Gateway
from outrider_vllm.address import Address, parse_address
from outrider_vllm.messages import MAX_IDS
from outrider_vllm.store import MAX_KEYS

PROMPTS = 50
PROMPT_TOKENS = 24
TOKENS = 128
PARALLEL = 8
GROUP = 8
TEXTS = 16_384
BATCH = 128
CONTEXTS = 40

MODEL = "model"


@dataclass
class Text:
    """A streamed completion."""

    ids: list[int] = field(default_factory=list)
    chunks: int = 0


class Engine:
    """A running vLLM."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, **body: object) -> dict[str, Any]:
        """A completion in one answer."""
        request = urllib.request.Request(
            f"{self.url}/v1/completions",
            json.dumps({"model": MODEL, "return_token_ids": True, **body}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return cast(dict[str, Any], json.load(answer))

    def stream(self, prompt: list[int], tokens: int, came: Callable[[list[int]], None]) -> Text:
        """A greedy completion, chunk by chunk."""
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port)
        body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        connection.request(
            "POST",
            "/v1/completions",
            json.dumps({**body, "stream": True, "return_token_ids": True}),
            {"content-type": "application/json"},
        )
        text = Text()
        for line in connection.getresponse():
            if line.startswith(b"data: {"):
                text.ids += json.loads(line[6:])["choices"][0]["token_ids"]
                text.chunks += 1
                came(text.ids)
        connection.close()
        return text

    def distribution(self, context: list[int], vocabulary: int) -> npt.NDArray[np.float64]:
        """The model's probabilities behind a text."""
        answer = self.ask(
            prompt=context, max_tokens=1, temperature=1, logprobs=vocabulary, return_tokens_as_token_ids=True
        )
        p = np.zeros(vocabulary)
        for name, logarithm in answer["choices"][0]["logprobs"]["top_logprobs"][0].items():
            p[int(name.removeprefix("token_id:"))] = np.exp(logarithm)
        return np.asarray(p / p.sum())

    def drop(self, prompt: list[int]) -> float:
        """Cut a completion off after its first chunk; seconds until the engine has stopped writing it."""
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port)
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 400, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        with connection.getresponse() as answer:
            answer.readline()
        connection.close()
        start = time.perf_counter()
        while self.counters()["running"]:
            time.sleep(0.005)
        return time.perf_counter() - start

    def counters(self) -> dict[str, float]:
        """Tokens drafted and accepted since the start, and requests being served."""
        names = {
            "vllm:spec_decode_num_draft_tokens_total": "drafted",
            "vllm:spec_decode_num_accepted_tokens_total": "accepted",
            "vllm:num_requests_running": "running",
        }
        found = dict.fromkeys(names.values(), 0.0)
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                name = line.partition("{")[0]
                if name in names:
                    found[names[name]] += float(line.rpartition(" ")[2])
        return found


# --- greedy texts -----------------------------------------------------------------------------------------------------


def nothing(_: list[int]) -> None:
    """Guess nothing."""


def greedy(alone: Engine, guessed: Engine, address: Address, token: bytes, vocabulary: int) -> bool:
    """Compare greedy texts under several guesses; whether all that differs is ties."""
    gateway = Gateway(address, token)
    prompts = [
        [0, *alone.ask(prompt=[0], max_tokens=PROMPT_TOKENS, temperature=1, seed=seed)["choices"][0]["token_ids"]]
        for seed in range(PROMPTS)
    ]
    reference = run(alone, prompts, lambda _: nothing)
    print(f"alone, {PARALLEL} at a time as what follows: {reference.line()}")

    print(f"a dropped connection: the engine stops within {alone.drop(prompts[0]):.2f} s")

    # What shows that vLLM differs from itself when batches differ.
    again = run(alone, prompts, lambda _: nothing, parallel=1)
    print(f"alone, one at a time: {again.line()}; {differences(alone, prompts, reference.texts, again.texts)[0]}")
    source = random.Random(1)

    def wrong(ids: list[int], share: float) -> list[int]:
        return [source.randrange(vocabulary) if source.random() < share else one for one in ids]

    def ahead(share: float) -> Callable[[int], Callable[[list[int]], None]]:
        def guess(index: int) -> Callable[[list[int]], None]:
            text = reference.texts[index].ids
            for at in range(0, TOKENS, GROUP):
                gateway.guess(prompts[index] + text[:at], wrong(text[at : at + GROUP], share))
            return nothing

        return guess

    def following(lag: int, share: float) -> Callable[[int], Callable[[list[int]], None]]:
        def guess(index: int) -> Callable[[list[int]], None]:
            text = reference.texts[index].ids

            def came(ids: list[int]) -> None:
                at = max(0, len(ids) - lag)
                if text[:at] == ids[:at] and at < TOKENS:
                    gateway.guess(prompts[index] + ids[:at], wrong(text[at : at + GROUP], share))

            return came

        return guess

    fine = True
    for name, guesses in [
        ("no guesses", lambda _: nothing),
        ("right, in advance", ahead(0.0)),
        ("a third wrong, in advance", ahead(0.33)),
        ("a fifth wrong, following the stream", following(0, 0.2)),
        ("late by 6 tokens", following(6, 0.0)),
        ("all wrong", ahead(1.0)),
    ]:
        forget(gateway)
        before = guessed.counters()
        result = run(guessed, prompts, guesses)
        after = guessed.counters()
        drafted, accepted = (after[one] - before[one] for one in ("drafted", "accepted"))
        line, tied = differences(alone, prompts, reference.texts, result.texts)
        fine &= tied
        print(f"{name}: {result.line()}, {accepted:.0f} of {drafted:.0f} accepted; {line}")
    print(f"alone, as at first: {run(alone, prompts, lambda _: nothing).line()}")
    gateway.close()
    return fine


def forget(gateway: Gateway) -> None:
    """Have the proposer drop what it was told before, by telling it as much that means nothing."""
    for at in range(MAX_KEYS // MAX_IDS):
        gateway.guess([1] * (1000 + MAX_IDS * at), [2] * MAX_IDS)
    time.sleep(0.5)


@dataclass
class Run:
    """The texts of all prompts."""

    texts: list[Text]
    seconds: float

    def line(self) -> str:
        """In words."""
        tokens = sum(len(text.ids) for text in self.texts)
        chunks = sum(text.chunks for text in self.texts)
        return f"{tokens} tokens, {tokens / self.seconds:.1f} tokens/s, {tokens / chunks:.2f} a step"


def run(
    engine: Engine,
    prompts: list[list[int]],
    guesses: Callable[[int], Callable[[list[int]], None]],
    parallel: int = PARALLEL,
) -> Run:
    """Write all texts."""
    start = time.perf_counter()
    with ThreadPoolExecutor(parallel) as pool:
        jobs = [pool.submit(lambda i: engine.stream(prompts[i], TOKENS, guesses(i)), i) for i in range(len(prompts))]
        texts = [job.result() for job in jobs]
    return Run(texts, time.perf_counter() - start)


def differences(alone: Engine, prompts: list[list[int]], wanted: list[Text], got: list[Text]) -> tuple[str, bool]:
    """How many texts differ and by what gap at their first difference; whether all gaps are those of ties."""
    gaps = []
    for prompt, one, other in zip(prompts, wanted, got, strict=True):
        if one.ids == other.ids:
            continue
        at = next(i for i, (a, b) in enumerate(zip(one.ids, other.ids, strict=True)) if a != b)
        answer = alone.ask(
            prompt=prompt + one.ids[:at], max_tokens=1, temperature=0, logprobs=20, return_tokens_as_token_ids=True
        )
        top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        gaps.append(abs(top[f"token_id:{one.ids[at]}"] - top.get(f"token_id:{other.ids[at]}", -99.0)))
    shown = ", ".join(f"{gap:.4f}" for gap in sorted(gaps))
    line = f"{len(wanted) - len(gaps)} of {len(wanted)} texts the same" + (f", gaps {shown} nats" if gaps else "")
    return line, all(gap < 0.1 for gap in gaps)


# --- temperature 1 ----------------------------------------------------------------------------------------------------


@dataclass
class Contexts:
    """Texts behind the prompt, and the model's distribution behind each."""

    prompt: list[int]
    after: dict[tuple[int, ...], npt.NDArray[np.float64]]

    @classmethod
    def likeliest(cls, engine: Engine, prompt: list[int], vocabulary: int) -> Contexts:
        """None, one and two tokens behind the prompt, the likeliest of each."""
        after: dict[tuple[int, ...], npt.NDArray[np.float64]] = {(): engine.distribution(prompt, vocabulary)}
        weight: dict[tuple[int, ...], float] = {(): 1.0}
        for length in (0, 1):
            grown = {
                (*context, int(one)): weight[context] * after[context][one]
                for context in list(after)
                if len(context) == length
                for one in after[context].argsort()[::-1][:CONTEXTS]
            }
            for context in sorted(grown, key=lambda one: -grown[one])[:CONTEXTS]:
                weight[context] = grown[context]
                after[context] = engine.distribution([*prompt, *context], vocabulary)
        covered = [sum(weight[one] for one in after if len(one) == length) for length in (1, 2)]
        print(f"{len(after)} contexts; they cover {covered[0]:.2f} of second and {covered[1]:.2f} of third tokens")
        return cls(prompt, after)

    def guess(self, gateway: Gateway) -> None:
        """Guess what is likeliest behind each."""
        for context, p in self.after.items():
            if context:
                gateway.guess([*self.prompt, *context], [int(p.argmax())])

    def deviations(self, texts: list[list[int]]) -> tuple[float, float]:
        """Standard deviations from the model's: over all tokens (chi-square), and of how often a guess was written."""
        seen: dict[tuple[int, ...], Counter[int]] = {context: Counter() for context in self.after}
        for text in texts:
            for length in range(3):
                counter = seen.get(tuple(text[:length]))
                if counter is not None:
                    counter[text[length]] += 1
        statistic, freedom = 0.0, 0
        guessed = variance = 0.0
        for context, counter in seen.items():
            p, count = self.after[context], counter.total()
            common = [one for one in range(len(p)) if p[one] * count >= 10]
            rare = 1.0 - p[common].sum()
            for one in common:
                statistic += (counter[one] - p[one] * count) ** 2 / (p[one] * count)
            if common and rare * count >= 10:
                others = count - sum(counter[one] for one in common)
                statistic += (others - rare * count) ** 2 / (rare * count)
                freedom += len(common)
            elif common:
                freedom += len(common) - 1
            if context:
                guess = int(p.argmax())
                guessed += counter[guess] - count * p[guess]
                variance += count * p[guess] * (1 - p[guess])
        return (statistic - freedom) / (2 * freedom) ** 0.5, guessed / variance**0.5


def plant(texts: list[list[int]], contexts: Contexts, error: float) -> list[list[int]]:
    """The texts of an engine that accepts guesses too often, by ``error`` in total variation at each place."""
    source = random.Random(2)
    planted = []
    for text in texts:
        new = list(text)
        for length in (1, 2):
            p = contexts.after.get(tuple(new[:length]))
            if p is not None and source.random() < error / (1 - p.max()):
                new[length] = int(p.argmax())
        planted.append(new)
    return planted


def sample(engine: Engine, prompt: list[int]) -> list[list[int]]:
    """The first three tokens of many texts."""

    def some(_: int) -> list[list[int]]:
        answer = engine.ask(prompt=prompt, max_tokens=3, temperature=1, n=BATCH, ignore_eos=True)
        return [choice["token_ids"] for choice in answer["choices"]]

    with ThreadPoolExecutor(2) as pool:
        return [text for texts in pool.map(some, range(TEXTS // BATCH)) for text in texts]


def certain_prompt(engine: Engine, vocabulary: int) -> list[int]:
    """A prompt behind which few tokens are likely, so that few contexts are most of what is written.

    A short one, because each text reads it anew.
    """

    def covered(prompt: list[int]) -> float:
        p = np.sort(engine.distribution(prompt, vocabulary))[::-1]
        return float(p[:CONTEXTS].sum()) if p[0] < 0.6 else 0.0

    answer = engine.ask(prompt=[0], max_tokens=8, temperature=1, n=64, seed=3)
    return max(([0, *choice["token_ids"]] for choice in answer["choices"]), key=covered)


def at_temperature_one(guessed: Engine, address: Address, token: bytes, vocabulary: int) -> bool:
    """Compare the first tokens of many texts with the model's distribution."""
    prompt = certain_prompt(guessed, vocabulary)
    contexts = Contexts.likeliest(guessed, prompt, vocabulary)
    gateway = Gateway(address, token)
    results = {}
    fine = True
    for name in ("no guesses", "likeliest guesses"):
        if name == "likeliest guesses":
            contexts.guess(gateway)
            time.sleep(1.0)
        before = guessed.counters()
        start = time.perf_counter()
        texts = results[name] = sample(guessed, prompt)
        took = time.perf_counter() - start
        after = guessed.counters()
        drafted, accepted = (after[one] - before[one] for one in ("drafted", "accepted"))
        overall, guesses = contexts.deviations(texts)
        fine &= abs(overall) < 5 and abs(guesses) < 3.5
        print(
            f"{name}: {len(texts)} texts in {took:.1f} s, {accepted:.0f} of {drafted:.0f} accepted; "
            f"{overall:+.2f} standard deviations over all tokens, {guesses:+.2f} in how often a guess is written"
        )
        if name == "likeliest guesses":
            fine &= accepted > 0.1 * TEXTS
    overall, guesses = contexts.deviations(plant(results["likeliest guesses"], contexts, 0.02))
    fine &= guesses > 3.5
    print(f"a planted error of 0.02: {overall:+.2f} over all tokens, {guesses:+.2f} in how often a guess is written")
    gateway.close()
    return fine


# --- engines ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(command: list[str], port: int, guesses: dict[str, str]) -> Iterator[Engine]:
    """A vLLM of this script's own; with settings for guesses one that has the proposer."""
    command = [*command, "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--max-model-len", "512", "--enforce-eager", "--max-logprobs", "-1"]
    # Greedy texts must not depend on what the model's own settings say about sampling.
    command += ["--generation-config", "vllm"]
    environment = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        **os.environ,
        **guesses,
    }
    if guesses:
        settings = {"method": "custom_class", "model": "outrider_vllm.Proposer", "num_speculative_tokens": 8}
        command += ["--speculative-config", json.dumps(settings)]
        command += ["--distributed-executor-backend", "outrider_vllm.executor.MultiprocExecutor"]
        source = str(Path(__file__).parents[1] / "src")
        environment["PYTHONPATH"] = os.pathsep.join([source, environment.get("PYTHONPATH", "")])
    log = Path(tempfile.gettempdir()) / f"outrider-vllm-{port}.log"
    with log.open("wb") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        try:
            while True:
                if process.poll() is not None:
                    raise SystemExit(f"vLLM ended with {process.returncode}; its output is in {log}")
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
                    break
                time.sleep(0.5)
            yield Engine(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", default="vllm", help="the command")
    parser.add_argument("--model", required=True, help="a checkpoint's folder; README.md says how to make one")
    parser.add_argument("--dtype", default="float32", help="bfloat16 shows more ties")
    parser.add_argument("--only", choices=["greedy", "temperature"])
    parser.add_argument("--port", type=int, default=8110, help="of the engine alone; the other's is next")
    arguments = parser.parse_args()
    vocabulary = json.loads((Path(arguments.model) / "config.json").read_text())["vocab_size"]
    command, port = [arguments.vllm, "serve", arguments.model, "--dtype", arguments.dtype], arguments.port
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        setting = f"unix:{folder}/guesses.sock"
        address = parse_address(setting, 0)
        if arguments.only != "temperature":
            guesses = {"OUTRIDER_GUESSES": setting}
            with started(command, port, {}) as alone, started(command, port + 1, guesses) as guessed:
                fine &= greedy(alone, guessed, address, b"", vocabulary)
        if arguments.only != "greedy":
            # Guesses are to be judged, worth their time or not.
            with started(command, port + 1, {"OUTRIDER_GUESSES": setting, "OUTRIDER_GUESSES_PACE": "all"}) as guessed:
                fine &= at_temperature_one(guessed, address, b"", vocabulary)
    print("all as it should be" if fine else "something is wrong")
    sys.exit(not fine)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main()
