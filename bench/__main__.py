"""Measure every bar: `python -m bench [module ...]`. 1 when one is missed.

Without names, all modules run but those that say `ON_REQUEST`.
"""

import importlib
import pkgutil
import sys

import bench


def main(names: list[str]) -> int:
    """Run the modules named (all if none), one after the other."""
    found = sorted(module.name for module in pkgutil.iter_modules(bench.__path__))
    missed = 0
    for name in names or [name for name in found if not name.startswith("_")]:
        module = importlib.import_module(f"bench.{name}")
        if not names and getattr(module, "ON_REQUEST", False):
            continue
        for measured in module.measure():
            missed += not measured.met
            show(measured)
    return int(missed > 0)


def show(measured: bench.Measured) -> None:
    """One line: met or not, value, bar, what it is."""
    sign = "<=" if measured.at_most else ">="
    verdict = "ok" if measured.met else "MISSED"
    value = f"{measured.value:8.3g} {measured.unit:4}"
    print(f"{verdict:7}{value} bar {sign} {measured.bar:<5g} {measured.name}", flush=True)
    if measured.note:
        print(f"{'':20}{measured.note}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
