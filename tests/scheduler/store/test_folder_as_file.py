"""A folder is no job store, and the error names the next step."""

from pathlib import Path

import pytest
from qsched.scheduler.errors import StoreError
from qsched.scheduler.store.schema import open_store


@pytest.mark.parametrize("create", [True, False])
def test_a_folder_named_as_the_store_is_a_clear_error(tmp_path: Path, create: bool) -> None:
    with pytest.raises(StoreError, match="is a folder") as raised:
        open_store(f"sqlite:///{tmp_path}", create=create)
    assert raised.value.hint is not None
    assert "qsched.db" in raised.value.hint
