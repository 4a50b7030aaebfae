"""The one family of errors a user can cause: each message is one line that names the problem and the remedy."""

LONGEST_MESSAGE = 1000  # characters


def shortened(text: str, longest: int = 80) -> str:
    """Leave out the middle of a long text."""
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 3 :]}"


class BlankLMError(ValueError):
    """Bad input, a bad file or a bad option; the command line prints the message and exits without a traceback.

    What it repeats of the input may have many lines or a million characters: the message has one line and few.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(" ".join(str(message).splitlines()), LONGEST_MESSAGE))


class OptionError(BlankLMError):
    """An option with a value that it cannot have; ``option`` is its name."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


class CanvasError(BlankLMError):
    """A canvas text that cannot be parsed, or an action that the canvas does not allow."""


class ConstraintError(BlankLMError):
    """Constraints that contradict each other or the model's vocabulary."""


class CheckpointError(BlankLMError):
    """A model folder that is missing, damaged or of another kind."""


class DataError(BlankLMError):
    """A corpus that is missing, unreadable or not what its checksum says."""


class TrainingError(BlankLMError):
    """A training run that cannot start or go on."""


class NotationError(BlankLMError):
    """A text in Leiden notation or EpiDoc that cannot be read; ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class BlankLMWarning(UserWarning):
    """Something that works, but may not be what was meant."""
