"""Options of a restoration: bounds, choices, and names that are still accepted."""

import pytest

from blanklm.errors import BlankLMError
from blanklm.restoration.options import RestoreOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top must be at least 1, not 0"),
        ({"parallels": -1}, "parallels must be 0 or more, not -1"),
        ({"abstain_below": 1.5}, "abstain_below must be at most 1, not 1.5"),
        ({"min_confidence": -0.1}, "min_confidence must be 0 or more, not -0.1"),
        ({"count": "words"}, "count must be characters or letters, not 'words'"),
        ({"language": "klingon"}, "language must be greek or latin, not 'klingon'"),
        ({"notation": "tex"}, "notation must be leiden or epidoc, not 'tex'"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(BlankLMError, match=message):
        RestoreOptions(**options)


def test_an_old_name_is_still_accepted():
    assert RestoreOptions.of(sure=0.5, top=3) == RestoreOptions(min_confidence=0.5, top=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'tops'"):
        RestoreOptions.of(tops=3)
