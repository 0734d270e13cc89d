"""As many more histories of faults: a file of their own, so that two processes share them."""

import pytest

from tests.replay.test_simulation import CHUNK, SLOW, bad


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLOW, 2 * SLOW, CHUNK))
def test_thousands_more_histories_of_faults_keep_every_invariant(first: int) -> None:
    assert not bad(range(first, first + CHUNK))
