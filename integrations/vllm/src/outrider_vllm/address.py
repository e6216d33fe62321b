"""Where the guess channel listens: ``unix:/run/outrider/guesses.sock`` or ``tcp:0.0.0.0:8790``.

``{rank}`` stands for the data-parallel rank, so that one setting serves all engines of a host:
``unix:/run/outrider/guesses-{rank}.sock``, and ``tcp:0.0.0.0:8790+{rank}`` for port 8790 + rank.
"""

from __future__ import annotations

from dataclasses import dataclass

RANK = "{rank}"


class SettingError(Exception):
    """A setting that cannot be used; the message says which and what would be right."""


@dataclass(frozen=True)
class UnixAddress:
    """A Unix socket."""

    path: str

    def __str__(self) -> str:
        """As it is written in the setting."""
        return f"unix:{self.path}"


@dataclass(frozen=True)
class TcpAddress:
    """An interface and port."""

    host: str
    port: int

    def __str__(self) -> str:
        """As it is written in the setting."""
        return f"tcp:[{self.host}]:{self.port}" if ":" in self.host else f"tcp:{self.host}:{self.port}"


Address = UnixAddress | TcpAddress


def parse_address(text: str, rank: int) -> Address:
    """Read the setting for the engine of a data-parallel rank.

    Raises:
        SettingError: if it is neither form.

    """
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest:
        return UnixAddress(rest.replace(RANK, str(rank)))
    if kind == "tcp":
        host, colon, port = rest.rpartition(":")
        port, plus, offset = port.partition("+")
        if colon and host and port.isascii() and port.isdigit() and (not plus or offset == RANK):
            number = int(port) + (rank if plus else 0)
            if number <= 65535:
                return TcpAddress(host.removeprefix("[").removesuffix("]"), number)
    raise SettingError(
        f"OUTRIDER_GUESSES is `{text}`; it has to be unix:PATH or tcp:HOST:PORT, "
        f"where {RANK} in PATH, or +{RANK} behind PORT, is the data-parallel rank"
    )
