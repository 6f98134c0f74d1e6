from diffdraft.decoding import policy as module

# isort: split
import pytest

from diffdraft.errors import UserError
from tests.drafters.test_sizes import NOT_SIZES


@pytest.mark.parametrize("size", NOT_SIZES)
def test_a_fixed_block_must_be_a_positive_whole_number(size):
    with pytest.raises(UserError, match="block size") as caught:
        module.FixedBlock(size)
    assert repr(size) in str(caught.value)


@pytest.mark.parametrize("size", [1, 2, 16])
def test_a_fixed_block_learns_nothing(size):
    policy = module.FixedBlock(size)
    policy.observe(None, None)
    assert policy.block_size() == size
