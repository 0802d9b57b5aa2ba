"""Virtual time in one thread: what happens when, and greenlets that sleep in it and wake in seeded order."""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from greenlet import getcurrent, greenlet

SECOND = 1_000_000
START = 1_704_877_200_000_000
"""2024-01-10T09:00:00Z, a Wednesday."""
_MOST_AT_ONCE = 50_000

Act = Callable[[], object]


class Gone(BaseException):
    """Raised in a greenlet whose process is gone: nothing of it goes on, and no `except Exception` holds it up."""


class Spin(Exception):
    """So much happened without time going on that somebody turns in a circle."""


class Timer:
    """Something that will happen to a life; `alive` False: not any more."""

    __slots__ = ("act", "alive", "due", "life", "lost")

    def __init__(self, life: "Life", due: int, act: Act) -> None:
        self.life = life
        self.due = due
        self.act = act
        self.alive = True
        self.lost = life.lost


class Timeline:
    """The one true time, in µs. What is due at one instant comes in an order drawn from `random`."""

    def __init__(self, random: Random) -> None:
        self.now = START
        self.hub: greenlet = getcurrent()
        self.failures: list[tuple[str, BaseException]] = []
        """What escaped from greenlets, by their names."""
        self.undertaker = Life(self, "undertaker")
        """Ends what vanishes in the midst of its own doing."""
        self._draw = random.random
        self._heap: list[tuple[int, float, int, Timer]] = []
        self._pushed = 0

    def push(self, timer: Timer) -> None:
        self._pushed += 1
        heappush(self._heap, (timer.due, self._draw(), self._pushed, timer))

    def run(self, until: int) -> None:
        """Let everything happen that is due up to `until`."""
        heap, at_once = self._heap, 0
        while heap and heap[0][0] <= until:
            due, _, _, timer = heappop(heap)
            if due > self.now:
                self.now, at_once = due, 0
            at_once += 1
            if at_once > _MOST_AT_ONCE:
                raise Spin(f"{_MOST_AT_ONCE} events at one instant")
            if timer.alive:
                timer.life.come(timer)
        self.now = until


class Life:
    """What lives in a timeline, and can be frozen or ended with all that it was about to do."""

    def __init__(self, timeline: Timeline, name: str) -> None:
        self.timeline = timeline
        self.name = name
        self.frozen = False
        self.ended = False
        self.lost = 0
        """µs that its own clock did not see (a suspended machine); a stopped process sees them all."""
        self._deferred: list[Timer] = []
        self._greenlets: dict[int, greenlet] = {}
        self._spawned = 0

    # -- timers --------------------------------------------------------------------------------------------------------

    def after(self, delay: int, act: Act) -> Timer:
        """Do `act` in `delay` µs, if this still lives then, and not while it is frozen."""
        timer = Timer(self, self.timeline.now + max(delay, 0), act)
        self.timeline.push(timer)
        return timer

    def come(self, timer: Timer) -> None:
        """The timeline has come to a timer of this life."""
        if self.ended:
            return
        if self.frozen:
            self._deferred.append(timer)
        elif timer.lost != self.lost:  # its machine was suspended meanwhile: so much later
            timer.due += self.lost - timer.lost
            timer.lost = self.lost
            self.timeline.push(timer)
        else:
            timer.alive = False
            timer.act()

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self, *, suspended: int = 0) -> None:
        """Go on; `suspended` µs were not seen by its clock, and what it waits for comes so much later."""
        self.frozen = False
        self.lost += suspended
        deferred, self._deferred = self._deferred, []
        for timer in deferred:
            timer.due = max(timer.due, self.timeline.now) if not suspended else timer.due
            self.timeline.push(timer)

    def end(self) -> None:
        """Vanish: nothing of it happens any more."""
        self.ended = True
        self._deferred = []
        if self.timeline.hub is getcurrent():
            self._end_greenlets()
        else:  # from a greenlet of its own, or of somebody else: the others go as soon as the hub has its turn
            self.timeline.undertaker.after(0, self._end_greenlets)

    def _end_greenlets(self) -> None:
        while self._greenlets:
            _, each = self._greenlets.popitem()
            if not each.dead and each:
                each.throw(Gone)

    # -- greenlets -----------------------------------------------------------------------------------------------------

    def spawn(self, name: str, body: Act) -> None:
        """Run `body` in a greenlet of its own, soon."""
        number = self._spawned = self._spawned + 1

        def run() -> None:
            try:
                body()
            except Gone:
                pass
            except BaseException as error:
                self.timeline.failures.append((f"{self.name}.{name}", error))
            finally:
                self._greenlets.pop(number, None)

        thread = greenlet(run, self.timeline.hub)
        self._greenlets[number] = thread
        self.after(0, thread.switch)

    def sleep(self, delay: int) -> None:
        """Let `delay` µs pass; called from one of its greenlets."""
        if self.ended:
            raise Gone
        self.after(delay, getcurrent().switch)
        self.timeline.hub.switch()
        if self.ended:
            raise Gone

    def wait(self, event: "Event", timeout: int | None) -> bool:
        """Wait for `event`, at most `timeout` µs; answers whether it is set."""
        if self.ended:
            raise Gone
        if event.is_set():
            return True
        waiter = _Waiter(self, getcurrent())
        event.waiters.append(waiter)
        if timeout is not None:
            waiter.timer = self.after(timeout, waiter.wake)
        self.timeline.hub.switch()
        waiter.done = True
        if waiter in event.waiters:
            event.waiters.remove(waiter)
        if self.ended:
            raise Gone
        return event.is_set()


class _Waiter:
    """A greenlet that waits for an event or the end of its patience, whichever comes first."""

    __slots__ = ("done", "greenlet", "life", "timer")

    def __init__(self, life: Life, thread: greenlet) -> None:
        self.life = life
        self.greenlet = thread
        self.timer: Timer | None = None
        self.done = False

    def wake(self) -> None:
        if not self.done:
            self.done = True
            if self.timer is not None:
                self.timer.alive = False
            self.greenlet.switch()


class Event:
    """Stands for a `threading.Event` among greenlets."""

    __slots__ = ("_set", "waiters")

    def __init__(self) -> None:
        self._set = False
        self.waiters: list[_Waiter] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.life.after(0, waiter.wake)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        raise RuntimeError("in virtual time one waits by way of the clock")
