"""Every baseline keeps the contract. Methods have a file of their own, so that two processes share the work."""

import pytest
from adapters import assert_contract, entries


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("entry", entries("baseline"), ids=lambda entry: entry.path)
def test_it_keeps_the_contract(entry, device):
    assert_contract(entry, device)
