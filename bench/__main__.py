"""Measure every ratio and print it beside its bar: `python -m bench [module ...]`."""

import importlib
import pkgutil
import sys

import bench


def main(names: list[str]) -> int:
    """Run the modules named (all if none); 1 when a bar is missed."""
    found = sorted(module.name for module in pkgutil.iter_modules(bench.__path__))
    missed = 0
    for name in names or [name for name in found if not name.startswith("_")]:
        module = importlib.import_module(f"bench.{name}")
        ratio = module.ratio()
        if ratio is None:
            print(f"{'-':7}{'':8}    does not apply to this platform: {module.NAME}", flush=True)
            continue
        met = ratio >= module.BAR
        missed += not met
        print(
            f"{'ok' if met else 'MISSED':7}{ratio:8.1f} x  bar {module.BAR:g} x  {module.NAME}",
            flush=True,
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
