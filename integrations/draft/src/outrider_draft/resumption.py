"""Record of what the files in `work/` were made from, so that they are used for nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path


def unchanged(path: Path, made_from: dict[str, object]) -> None:
    """Record options and inputs of a step in the JSON file `path`, unless an earlier run has.

    Raises:
        ValueError: if an earlier run recorded other ones.

    """
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, value in made_from.items():
        if recorded.get(name, value) != value:
            raise ValueError(
                f"{name} differs from the run that began {path.parent}: choose another --out, or delete {path.parent}"
            )
    part = path.with_suffix(".part")
    part.write_text(json.dumps({**recorded, **made_from}, indent=2) + "\n", encoding="utf-8")
    part.replace(path)


def digest(pieces: Iterable[bytes]) -> str:
    """Digest of bytes, for `unchanged`."""
    sum_ = hashlib.sha256()
    for piece in pieces:
        sum_.update(piece)
    return sum_.hexdigest()
