#!/usr/bin/env python3
"""Makes a target's committed corpus anew, from all inputs there are: `fuzz/choose_corpus.py TARGET`.

libFuzzer's set-cover merge writes down which edges each input reaches. Of the inputs, those are kept that a greedy cover of the
edges takes first.
"""

import os, shutil, subprocess, sys, tempfile
from pathlib import Path

MOST_INPUTS = 64
MOST_BYTES = 512

root = Path(__file__).resolve().parent.parent
target = sys.argv[1]
build = Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "fuzz"
(binary,) = build.glob(f"*/release/{target}")
committed = root / "fuzz" / "corpus" / target

with tempfile.TemporaryDirectory() as scratch:
    inputs, merged = Path(scratch, "inputs"), Path(scratch, "merged")
    inputs.mkdir()
    merged.mkdir()
    for folder in [committed, build / "corpus" / target]:
        for file in folder.glob("*"):
            if file.stat().st_size <= MOST_BYTES:
                shutil.copy(file, inputs / file.name)
    control = Path(scratch, "control")
    command = [binary, "-set_cover_merge=1", f"-merge_control_file={control}", merged, inputs]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    # Two counts and the paths; then lines of a kind, an input's number and numbers. Those of kind FT are features: eight
    # for each edge, by how often it was taken.
    lines = control.read_text().splitlines()
    paths = [Path(path) for path in lines[2 : 2 + int(lines[0])]]
    edges = {}
    for line in lines[2 + len(paths) :]:
        kind, number, *features = line.split()
        if kind == "FT":
            edges[paths[int(number)]] = {int(feature) // 8 for feature in features}
    every = set().union(*edges.values())
    kept, reached = [], set()
    # Smallest first, so that of equals the smallest is taken.
    candidates = sorted(edges, key=lambda path: path.stat().st_size)
    while len(kept) < MOST_INPUTS and reached != every:
        best = max(candidates, key=lambda path: len(edges[path] - reached))
        kept.append((best.name, best.read_bytes()))
        reached |= edges[best]

shutil.rmtree(committed, ignore_errors=True)
committed.mkdir(parents=True)
for name, data in kept:
    (committed / name).write_bytes(data)
print(f"{target}: {len(kept)} inputs, {sum(len(data) for _, data in kept)} bytes, {len(reached)} of {len(every)} edges")
