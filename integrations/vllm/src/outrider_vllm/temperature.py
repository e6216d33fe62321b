"""What vLLM 0.32 computes wrongly on CPUs, and how it is put right.

Where a proposal is judged, the request's temperature, top-k and top-p are repeated for each judged row. On CPUs without
Triton's compiler that function's result is never written (vllm-project/vllm issue 55005), so that proposals, of
whatever proposer, are judged at a temperature that happens to lie in memory. Greedy requests alone are not concerned.
The distribution has to be the model's own, so the function is tried, and replaced where it fails.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from outrider_vllm.address import SettingError

logger = logging.getLogger("vllm.outrider")

_SAMPLER = "vllm.v1.sample.rejection_sampler"


def put_right() -> None:
    """Replace the function in this process if it fails.

    Raises:
        SettingError: if it fails all the same.

    """
    sampler = sys.modules.get(_SAMPLER)
    platforms = sys.modules.get("vllm.platforms")
    # In vLLM's worker both are loaded; elsewhere there is nothing to judge with.
    if sampler is None or platforms is None or not platforms.current_platform.is_cpu():
        return
    if _works(sampler):
        return
    sampler.expand_batch_to_tokens = _expand  # type: ignore[attr-defined]
    if not _works(sampler):
        raise SettingError(
            "this vLLM judges proposals at a wrong temperature on the CPU, and it could not be put right"
        )
    logger.warning("guesses: this vLLM judges proposals at a wrong temperature on the CPU (issue 55005): put right")


def _expand(
    x: Any,  # noqa: ANN401 - a tensor, which this package has no type for
    cu_num_tokens: Any,  # noqa: ANN401
    num_tokens: int,
    replace_from: int = 0,
    replace_to: int = 0,
) -> Any:  # noqa: ANN401
    """Each request's value, as often as it has judged rows; ``replace_from`` becomes ``replace_to``.

    ``x`` and ``cu_num_tokens``, the judged rows up to and with each request, have the shape [requests].
    """
    torch = sys.modules["torch"]
    rows = torch.diff(cu_num_tokens.long(), prepend=cu_num_tokens.new_zeros(1).long())
    values = x.masked_fill(x == replace_from, replace_to)
    return values.repeat_interleave(rows, output_size=num_tokens)


def _works(sampler: Any) -> bool:  # noqa: ANN401 - a module
    """Whether values come out as they should; several, since an unwritten result holds anything."""
    torch = sys.modules["torch"]
    for first, last in ((0.3125, 1.75), (0.8125, 2.5)):
        x = torch.tensor([first, 0.0, last])
        until = torch.tensor([2, 3, 4], dtype=torch.int32)
        if sampler.expand_batch_to_tokens(x, until, 4, 0, 1).tolist() != [first, first, 1.0, last]:
            return False
    return True
