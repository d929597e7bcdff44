"""Quantities as apimachinery reads them: refused texts, and the whole numbers of all others."""

import pytest

from memqos.model.quantity import Quantity, QuantityError
from tests.vectors.tables import table


@pytest.mark.parametrize(("text", "value", "milli", "rounded"), table("quantity_upstream")["values"])
def test_value(text, value, milli, rounded):
    found = Quantity.parse(text)
    assert found.value == value
    assert found.defaulted().value == rounded
    # Above 2^63 / 1000 upstream's MilliValue overflows: there is nothing to compare.
    assert milli is None or found.milli_value == found.defaulted().milli_value == milli


@pytest.mark.parametrize("text", table("quantity_upstream")["refused"])
def test_refused(text):
    with pytest.raises(QuantityError):
        Quantity.parse(text)
