"""Where tests find files of the project."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
YELP_WORDS = str(FIXTURES / "yelp-words")  # a small, quick model of words
EDITIONS = ROOT / "tests" / "restoration" / "notation" / "files"
DATA = Path(os.environ.get("BLANKLM_DATA") or ROOT.parent / "shared" / "data")
