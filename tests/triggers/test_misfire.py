"""The misfire rule as a value: its defaults, what is stored of it, and what it refuses."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qsched.triggers.errors import DefinitionError, TriggerError
from qsched.triggers.instant import DAY, HOUR, MINUTE, SECOND
from qsched.triggers.misfire import MOST_LIMIT, POLICIES, MisfireRule

rules = st.builds(
    MisfireRule,
    policy=st.sampled_from(POLICIES),
    threshold=st.integers(0, 10 * DAY),
    window=st.integers(1, 400 * DAY),
    limit=st.integers(1, MOST_LIMIT),
)


def test_the_default_rule_fires_once_after_a_minute() -> None:
    rule = MisfireRule()
    assert (rule.policy, rule.threshold, rule.window, rule.limit) == ("fire_once", MINUTE, 24 * HOUR, 100)


def test_only_what_differs_from_the_default_is_stored() -> None:
    assert MisfireRule().to_spec() == {}
    assert MisfireRule("skip", limit=5).to_spec() == {"policy": "skip", "limit": 5}


@given(rules)
def test_a_stored_rule_is_read_back_as_it_was(rule: MisfireRule) -> None:
    assert MisfireRule.from_spec(json.loads(json.dumps(rule.to_spec()))) == rule


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("skip", "not a mapping"),
        (None, "not a mapping"),
        ({"policy": "fire_twice"}, "policy 'fire_twice' is not one of fire_once, skip, fire_all"),
        ({"policy": ["skip"]}, "policy"),
        ({"threshold": "60s"}, "threshold must be a whole number"),
        ({"threshold": -1}, "threshold must not be negative"),
        ({"window": 0}, "window must be greater than zero"),
        ({"limit": 0}, "limit must be 1 to"),
        ({"limit": True}, "limit must be a whole number"),
        ({"limit": MOST_LIMIT + 1}, "limit must be 1 to"),
        ({"polici": "skip"}, "unknown keys polici"),
        ({1: 2}, "unknown keys 1"),
    ],
)
def test_a_stored_rule_that_makes_no_sense_is_refused_with_its_key(spec: Any, word: str) -> None:
    with pytest.raises(DefinitionError, match=word):
        MisfireRule.from_spec(spec)


def test_a_rule_that_makes_no_sense_cannot_be_made() -> None:
    with pytest.raises(TriggerError, match=r"misfire\.limit"):
        MisfireRule(limit=0)


def test_a_rule_is_written_in_a_few_words() -> None:
    assert str(MisfireRule()) == "fire_once"
    assert (
        str(MisfireRule("fire_all", threshold=90 * SECOND, limit=7)) == "fire_all, threshold 1m30s, limit 7"
    )
