"""``python -m blanklm``."""

from blanklm.cli import main

main()
