"""The bundled model of transfer."""

import pytest

from blanklm import Transfer


@pytest.fixture(scope="package")
def transfer() -> Transfer:
    return Transfer.from_pretrained("sentiment", device="cpu")
