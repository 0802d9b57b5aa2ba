"""Which seconds of a day a cron expression names, as tables of the next and the previous matching value."""

from functools import lru_cache

NONE = 255


class Times:
    """The times of day of three masks; a time is a second of the day, 0..86399."""

    __slots__ = (
        "_before_h",
        "_before_m",
        "_before_s",
        "_masks",
        "first",
        "last",
        "next_h",
        "next_m",
        "next_s",
        "per_day",
    )

    def __init__(self, seconds: int, minutes: int, hours: int) -> None:
        self._masks = (seconds, minutes, hours)
        self.next_s, self.next_m, self.next_h = _nexts(seconds, 60), _nexts(minutes, 60), _nexts(hours, 24)
        self._before_s, self._before_m = _befores(seconds, 60), _befores(minutes, 60)
        self._before_h = _befores(hours, 24)
        self.first = self.next_h[0] * 3600 + self.next_m[0] * 60 + self.next_s[0]
        self.last = self._before_h[24] * 3600 + self._before_m[60] * 60 + self._before_s[60]
        self.per_day = seconds.bit_count() * minutes.bit_count() * hours.bit_count()

    def after(self, time: int) -> int:
        """The first matching time that is not before `time`; -1 when the day has none left."""
        hour, rest = divmod(time, 3600)
        next_h = self.next_h
        found = next_h[hour]
        if found == hour:
            minute, second = divmod(rest, 60)
            then = self.next_m[minute]
            if then == minute:
                at = self.next_s[second]
                if at != NONE:
                    return hour * 3600 + minute * 60 + at
                then = self.next_m[minute + 1]
            if then != NONE:
                return hour * 3600 + then * 60 + self.next_s[0]
            found = next_h[hour + 1]
        return -1 if found == NONE else found * 3600 + self.first % 3600

    def before(self, time: int) -> int:
        """The last matching time that is not after `time`; -1 when the day has none so early."""
        hour, rest = divmod(time, 3600)
        found = self._before_h[hour + 1]
        if found == hour:
            minute, second = divmod(rest, 60)
            then = self._before_m[minute + 1]
            if then == minute:
                at = self._before_s[second + 1]
                if at != NONE:
                    return hour * 3600 + minute * 60 + at
                then = self._before_m[minute]
            if then != NONE:
                return hour * 3600 + then * 60 + self.last % 60
            found = self._before_h[hour]
        return -1 if found == NONE else found * 3600 + self.last % 3600

    def up_to(self, time: int) -> int:
        """How many matching times are not after `time` (-1 for none)."""
        if time < 0:
            return 0
        seconds, minutes, hours = self._masks
        hour, rest = divmod(time, 3600)
        minute, second = divmod(rest, 60)
        in_minute, in_hour = seconds.bit_count(), seconds.bit_count() * minutes.bit_count()
        total = (hours & ((1 << hour) - 1)).bit_count() * in_hour
        if hours >> hour & 1:
            total += (minutes & ((1 << minute) - 1)).bit_count() * in_minute
            if minutes >> minute & 1:
                total += (seconds & ((2 << second) - 1)).bit_count()
        return total


@lru_cache(maxsize=4096)
def _nexts(mask: int, size: int) -> bytes:
    """At index n (0..size): the least value of `mask` that is ≥ n, or NONE."""
    table = bytearray([NONE]) * (size + 2)
    for value in range(size - 1, -1, -1):
        table[value] = value if mask >> value & 1 else table[value + 1]
    return bytes(table)


@lru_cache(maxsize=4096)
def _befores(mask: int, size: int) -> bytes:
    """At index n (0..size): the greatest value of `mask` that is < n, or NONE."""
    table = bytearray([NONE]) * (size + 1)
    for value in range(size):
        table[value + 1] = value if mask >> value & 1 else table[value]
    return bytes(table)


@lru_cache(maxsize=4096)
def times_of(seconds: int, minutes: int, hours: int) -> Times:
    """The compiled times of day of three masks, kept for the next expression that names the same ones."""
    return Times(seconds, minutes, hours)
