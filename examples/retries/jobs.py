"""The same flaky call retried in two places: inside the body with tenacity, and by the job's own `retry:`. Which one when?

Inside (`rates_inside`): hiccups that are over in seconds. The same attempt goes on, on the same node and within its
`timeout`; it keeps its place there while it waits; nobody hears of it; and if the node dies, the attempt dies with it.

By the job (`rates_by_job`, see qsched.yaml): faults that take minutes or hours. Every attempt is recorded with its error
and the reason for the next one; the place is free while it waits; any node makes the retry, also after a restart or
when the node has died in between.

They go together: the inner one keeps small things small, and what it cannot mend reaches the job's retry, which sees
the error itself (`reraise=True`), so that `retry_on: [transient]` still knows it.

Run it in this folder's parent: `qsched node -f retries/qsched.yaml`, and look with `qsched firings list`.
"""

from pathlib import Path

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from qsched import JobContext, job


def fetch(journal: str, failures: int, who: str) -> str:
    """A service that is not there for the first `failures` calls; each call is a line of the journal."""
    calls = Path(journal)
    with calls.open("a") as file:
        file.write(f"{who}\n")
    if calls.read_text().count(f"{who}\n") <= failures:
        raise ConnectionRefusedError("the rates are not there just now")
    return "EUR 1.0"


@job
def rates_inside(ctx: JobContext, journal: str, failures: int = 2) -> str:
    """One attempt, whatever happens inside; at most four calls within a second or so."""

    @retry(
        retry=retry_if_exception_type(ConnectionError),
        wait=wait_random_exponential(multiplier=0.1, max=1),
        stop=stop_after_attempt(4),
        # A body that was told to stop (time-out, shutdown) must hear of it while it waits: ctx.sleep raises then.
        sleep=ctx.sleep,
        reraise=True,
    )
    def call() -> str:
        return fetch(journal, failures, "inside")

    return call()


@job
def rates_by_job(journal: str, failures: int = 2) -> str:
    """One call per attempt; the retries are the job's, in qsched.yaml."""
    return fetch(journal, failures, "by job")
