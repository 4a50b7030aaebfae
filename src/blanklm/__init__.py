"""blanklm: fill blanks of any length in text, with Blank Language Models.

>>> from blanklm import BlankLM
>>> BlankLM.from_pretrained().fill("She opened the ___ and ___.").text
'She opened the door and went out.'
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = [
    "Action",
    "Attributor",
    "Blank",
    "BlankLM",
    "BlankLMError",
    "Canvas",
    "Choices",
    "ChooseOptions",
    "Constraint",
    "Fill",
    "FillOptions",
    "Repair",
    "RepairOptions",
    "RestoreOptions",
    "SampleOptions",
    "Score",
    "Template",
    "Trajectory",
    "Transfer",
    "TransferOptions",
    "fit",
    "restore",
]

_MODULES = {
    "api": ("BlankLM",),
    "choosing.choose": ("Choices",),
    "choosing.options": ("ChooseOptions",),
    "core.canvas": ("Action", "Canvas", "Fill", "Trajectory"),
    "core.template": ("Blank", "Template"),
    "decoding.constraint": ("Constraint",),
    "decoding.options": ("FillOptions", "SampleOptions"),
    "errors": ("BlankLMError",),
    "fitting": ("fit",),
    "repairing.options": ("RepairOptions",),
    "repairing.repair": ("Repair",),
    "restoration.attribution": ("Attributor",),
    "restoration.edition": ("restore",),
    "restoration.options": ("RestoreOptions",),
    "scoring": ("Score",),
    "transfer.options": ("TransferOptions",),
    "transfer.transfer": ("Transfer",),
}
_HOME = {name: f"blanklm.{module}" for module, names in _MODULES.items() for name in names}

if TYPE_CHECKING:
    from blanklm.api import BlankLM
    from blanklm.choosing.choose import Choices
    from blanklm.choosing.options import ChooseOptions
    from blanklm.core.canvas import Action, Canvas, Fill, Trajectory
    from blanklm.core.template import Blank, Template
    from blanklm.decoding.constraint import Constraint
    from blanklm.decoding.options import FillOptions, SampleOptions
    from blanklm.errors import BlankLMError
    from blanklm.fitting import fit
    from blanklm.repairing.options import RepairOptions
    from blanklm.repairing.repair import Repair
    from blanklm.restoration.attribution import Attributor
    from blanklm.restoration.edition import restore
    from blanklm.restoration.options import RestoreOptions
    from blanklm.scoring import Score
    from blanklm.transfer.options import TransferOptions
    from blanklm.transfer.transfer import Transfer


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*__all__, "__version__", "__doc__"})


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import blanklm`` does not wait for torch."""
    if name in _HOME:
        import importlib

        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'blanklm' has no attribute {name!r}")
