from diffdraft.drafters import sizes as module

# isort: split
import pytest

from diffdraft.errors import UserError

NOT_SIZES = [0, -1, 2.5, 4.0, True, False, "4", None, float("nan")]


@pytest.mark.parametrize("value", NOT_SIZES)
def test_what_is_no_size_is_refused_in_one_line(value):
    with pytest.raises(UserError) as caught:
        module.check_size("drafter", "passes", value)
    assert str(caught.value).startswith("drafter: passes: found ")
    assert repr(value) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_least_size_is_allowed_and_the_one_below_is_not():
    module.check_size("drafter", "noise_high", 2, least=2)
    with pytest.raises(UserError, match="at least 2"):
        module.check_size("drafter", "noise_high", 1, least=2)
