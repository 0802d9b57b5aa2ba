"""Histories doctored against the rules of limited groups, of what jobs keep, and of what follows them."""

import json

from .story import Story, slot_at
from .workload import COUNTED

SLOT = slot_at(20)


def group_beyond_its_limit(story: Story) -> None:
    firings = []
    for number in range(3):
        asked = {"reason": "manual", "trigger_id": None, "request_key": f"request-{number}"}
        firings.append(story.decide("tick_1", (SLOT,), 20.3, limit_key="group:1", **asked))
        story.body(firings[-1], 20.31, 20.4, key=f"request-{number}")
    for firing in firings:
        story.end(firing, 20.5)


def counted(story: Story, mono: float = 20.3, **end: str) -> int:
    """One run of the job that counts, asked for by hand, and its continuation."""
    asked = {"reason": "manual", "trigger_id": None, "request_key": f"request-{mono}", "job_name": COUNTED}
    firing = story.decide("tick_1", (SLOT,), mono, permit_key="job:9", **asked)
    story.body(firing, mono + 0.01, mono + 0.1, key=f"request-{firing}")
    story.end(firing, mono + 0.2, **end)
    return firing


def followed(story: Story, firing: int, mono: float = 20.6) -> None:
    key = f"after:{firing}:9"
    said = {"reason": "after", "trigger_id": None, "request_key": key, "of_firing": firing}
    follower = story.decide("after_any", (SLOT,), mono, **said)
    story.body(follower, mono + 0.01, mono + 0.1, key=key)
    story.end(follower, mono + 0.2)


def keep(story: Story, mono: float, runs: int, firing: int, fence: int = 1) -> None:
    said = json.dumps({"runs": runs, "by": [firing, fence]})
    story.write("jobs", mono, "INSERT", id=9, name=COUNTED, saved_data=said)


def counted_and_followed(story: Story) -> None:
    for number in (1, 2):
        firing = counted(story, 20.0 + number)
        keep(story, 20.2 + number, number, firing)
        followed(story, firing, 20.3 + number)


def kept_by_a_fenced_run(story: Story) -> None:
    firing = counted(story)
    keep(story, 20.4, 1, firing, fence=2)


def count_that_was_lost(story: Story) -> None:
    keep(story, 20.5, 1, counted(story))
    keep(story, 21.5, 1, counted(story, 21.3))


def end_that_nobody_follows(story: Story) -> None:
    keep(story, 20.5, 1, counted(story))


def followed_twice(story: Story) -> None:
    firing = counted(story)
    keep(story, 20.5, 1, firing)
    followed(story, firing)
    followed(story, firing, 21.6)


def follower_of_what_goes_on(story: Story) -> None:
    followed(story, 1)
