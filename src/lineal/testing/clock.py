"""A clock that moves by hand, for whoever tests leases and deadlines (R3, R33)."""

from __future__ import annotations


class JumpingClock:
    """A `lineal.holder.Clock` that stands still until it is moved. Pass it to `connect` or `Store`; several stores may share it.

    | verb | wall clock | clock since boot |
    |---|---|---|
    | `pass_time(seconds)` | goes on | goes on |
    | `step(seconds)` | is set, forwards or back, as by NTP, by hand, or by a machine that slept | stands |
    | `set_back(seconds)` | stands | goes back, which no sound machine does |

    `each`: seconds that pass by themselves whenever a clock is read.
    """

    def __init__(self, wall: float = 1_700_000_000.0, boot: float = 1_000.0, each: float = 0.0):
        self._wall, self._boot, self.each = wall, boot, each

    def wall(self) -> float:
        self._go_on(self.each)
        return self._wall

    def boot(self) -> float:
        self._go_on(self.each)
        return self._boot

    def pass_time(self, seconds: float) -> None:
        """Time passes, as it does. Raises `ValueError` for less than nothing: use `step` or `set_back`."""
        if seconds < 0:
            raise ValueError(f"{seconds} s cannot pass; step() sets the wall clock back, set_back() the other one")
        self._go_on(seconds)

    def step(self, seconds: float) -> None:
        self._wall += seconds

    def set_back(self, seconds: float) -> None:
        self._boot -= seconds

    def _go_on(self, seconds: float) -> None:
        self._wall += seconds
        self._boot += seconds
