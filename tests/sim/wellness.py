"""Which node was well when: up, registered, on its feet, in reach of the database; put together after the run."""

from .health import GRACE, Span, rest
from .plan import Plan
from .timeline import START
from .weather import Weather


class Wellness:
    """Filled with what happened to each node; asked by the checks that measure waiting."""

    def __init__(
        self,
        plan: Plan,
        weather: Weather,
        lives: list[tuple[list[tuple[int, str]], list[tuple[int, str]]]],
    ) -> None:
        self._plan = plan
        self.end = START + plan.length
        self._ill = weather.unhealthy
        self._suspended = weather.suspended
        self._born = [born for born, _ in lives]
        self._died = {name: at for _, died in lives for at, name in died}
        self._process: dict[int, str] = {}
        """{incarnation: its process}"""
        self._registered: dict[str, list[tuple[int, int]]] = {}
        self._fenced: dict[str, list[int]] = {}

    # -- what the checks tell ------------------------------------------------------------------------------------------

    def registered(self, process: str, incarnation: int, at: int) -> None:
        self._process[incarnation] = process
        self._registered.setdefault(process, []).append((at, incarnation))

    def fenced(self, incarnation: int, at: int) -> None:
        if (process := self._process.get(incarnation)) is not None:
            self._fenced.setdefault(process, []).append(at)

    # -- what they ask -------------------------------------------------------------------------------------------------

    def process_of(self, incarnation: int) -> str | None:
        return self._process.get(incarnation)

    def gone_at(self, incarnation: int) -> int | None:
        """When the process of this incarnation vanished; None while it lives."""
        return self._died.get(self._process.get(incarnation, ""))

    def registered_after(self, process: str, incarnation: int) -> int | None:
        """When this process took its next incarnation after this one, which was declared dead; None if it never did."""
        return next((at for at, number in self._registered.get(process, []) if number > incarnation), None)

    def lives(self, incarnation: int, at: int) -> bool:
        gone = self.gone_at(incarnation)
        return gone is None or gone > at

    def suspended_between(self, process: str, first: int, last: int) -> bool:
        """Whether its machine was suspended meanwhile, so that its own clock could not tell how late it was."""
        return any(name == process and begin <= last and first <= end for name, begin, end in self._suspended)

    def was_ill(self, incarnation: int, at: int) -> bool:
        """Whether its node was in trouble then, or a little later."""
        process = self._process.get(incarnation, "")
        node = int(process[1:].partition(".")[0]) if process else -1
        spans = self._ill.get(node, []) + self._ill.get(-1, [])
        return any(first - 6 * GRACE <= at <= last + 6 * GRACE for first, last in spans)

    def well(self, node: int, until: int) -> list[Span]:
        """The spans up to `until` in which this node could do its work."""
        found: list[Span] = []
        everybody = self._ill.get(-1, [])
        for born, process in self._born[node]:
            died = min(self._died.get(process, self.end), until)
            troubles = [(first, last + GRACE) for first, last in self._ill.get(node, []) + everybody]
            at = born
            for registered, _ in self._registered.get(
                process, []
            ):  # from a dead verdict to the next incarnation
                fence = max((each for each in self._fenced.get(process, []) if each < registered), default=at)
                troubles.append((max(fence, at), registered + GRACE))
                at = registered
            if not self._registered.get(process):
                continue
            last = self._registered[process][-1][0]
            troubles += [(each, died) for each in self._fenced.get(process, []) if each >= last]
            found += rest(troubles, born, died)
        return found

    def any_well(self, until: int) -> list[Span]:
        """The spans in which one and the same node was well."""
        return [span for node in range(self._plan.nodes) for span in self.well(node, until)]
