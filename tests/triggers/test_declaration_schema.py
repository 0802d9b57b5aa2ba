"""The JSON Schema says exactly the keys that `load` accepts, and the example uses only those."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from qsched.triggers.declaration import load_text, schema
from qsched.triggers.declaration_keys import LATER
from qsched.triggers.declaration_problem import DeclarationError

NOW = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z
EXAMPLE = Path(__file__).parents[2] / "examples" / "qsched.yaml"


def resolved(part: dict[str, Any], whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a part stands for, its references followed."""
    if "$ref" in part:
        return resolved(whole["definitions"][part["$ref"].rpartition("/")[2]], whole)
    if parts := part.get("allOf") or part.get("anyOf"):
        return [found for each in parts for found in resolved(each, whole)]
    return [part]


def check(value: Any, part: dict[str, Any], whole: dict[str, Any]) -> None:
    """Every key of `value` is in the schema."""
    options = resolved(part, whole)
    if not isinstance(value, dict):
        kinds = {kind for option in options for kind in _types(option)}
        assert "object" not in kinds or len(kinds) > 1, f"{value!r} where a mapping is due"
        return
    (option,) = [option for option in options if "object" in _types(option)]
    properties = option.get("properties", {})
    for key, inner in value.items():
        if key in properties:
            check(inner, properties[key], whole)
        else:
            extra = option.get("additionalProperties", True)
            assert extra, f"{key} is not in the schema"
            if isinstance(extra, dict):
                check(inner, extra, whole)


def _types(option: dict[str, Any]) -> list[str]:
    kind = option.get("type", [])
    return [kind] if isinstance(kind, str) else kind


def test_the_example_uses_only_keys_of_the_schema() -> None:
    whole = schema()
    check(yaml.safe_load(EXAMPLE.read_text()), whole, whole)


def test_an_unknown_key_is_not_in_the_schema() -> None:
    whole = schema()
    for wrong in ({"what": 1}, {"triggers": {"a": {"whn": 1}}}, {"jobs": {"a": {"retry": {"x": 1}}}}):
        with pytest.raises(AssertionError):
            check(wrong, whole, whole)


def test_the_schema_is_draft_07_and_closed() -> None:
    whole = schema()
    assert whole["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert whole["required"] == ["qsched"]
    assert whole["additionalProperties"] is False
    assert "$defs" not in str(whole)
    for name in ("JobKeys", "TriggerKeys", "DefaultsKeys", "ClusterKeys"):
        assert whole["definitions"][name]["additionalProperties"] is False


def test_no_key_that_is_not_supported_is_in_the_schema() -> None:
    whole = schema()
    for name in ("JobKeys", "TriggerKeys", "DefaultsKeys"):
        assert not LATER & set(whole["definitions"][name]["properties"])


def test_every_key_of_the_schema_is_known_to_the_reader_and_no_other() -> None:
    whole = schema()
    for section, name in (("jobs", "JobKeys"), ("triggers", "TriggerKeys")):
        for key in [*whole["definitions"][name]["properties"], "another"]:
            text = f"qsched: 1\n{section}: {{x: {{{key}: [[]]}}}}\n"
            with pytest.raises(DeclarationError) as raised:
                load_text(text, now=NOW)
            unknown = any(problem.code in ("E011", "E012") for problem in raised.value.problems)
            assert unknown == (key == "another"), key


def test_the_short_forms_are_in_the_schema() -> None:
    whole = schema()
    assert {"type": "string", "enum": ["fire_once", "skip", "fire_all"]} in whole["definitions"][
        "MisfireKeys"
    ]["anyOf"]
    assert any(option.get("type") == "integer" for option in whole["definitions"]["RetryKeys"]["anyOf"])
