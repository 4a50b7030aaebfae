"""What every text must be before it goes further: a string of valid Unicode characters."""

from __future__ import annotations

from blanklm.errors import BlankLMError


def check_text(text: str) -> str:
    """Return a text, or refuse it: the one place that does, for texts of files, requests, arguments and Python."""
    if not isinstance(text, str):
        raise BlankLMError(f"a text must be a string, not {type(text).__name__}")
    if (at := invalid(text)) is not None:
        raise BlankLMError(f"character {at + 1} of the text, U+{ord(text[at]):04X}, is not valid Unicode: remove it")
    return text


def invalid(text: str) -> int | None:
    """Return where the first lone surrogate stands, which is what bytes of another encoding become."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None
