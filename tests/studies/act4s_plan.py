"""A plan of Act IV-S for tests: its criteria and verdicts, the rest borrowed from a frozen plan."""

import math
from pathlib import Path

import yaml

from tests.prereg.examples import plan_dict

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results" / "published" / "act4_s.yaml"
ANALYSIS = {
    "baseline_arm": "ar",
    "block_size": 4,
    "floor_prompts": 27,
    "resamples": 10000,
    "interval_percentiles": [2.5, 97.5],
    "margin_floor": 0.01,
    "loop_ngram": 8,
    "loop_free_below": 0.05,
    "ulp_tolerance": 1.0001,
    "confidence_bins": 10,
}


def leaf(metric, operator, bound, statistic="value"):
    return {"metric": metric, "statistic": statistic, "operator": operator, "bound": bound}


BANDS = {"modest": 1.10, "useful": 1.25, "strong": 1.50, "exceptional": 2.00}
CRITERIA = {
    "g0_baseline": {"all": [leaf("ar_identical", "==", 1), leaf("ar_repeat_sd", "<=", 0.05)]},
    "g1_correct": leaf("beyond_one_ulp", "==", 0),
    "g2_useful": leaf("mean_accepted_prefix", ">", 1),
    "g3_some_faster": leaf("any_faster_by", ">", 0, "ci_low"),
    "k4_faster": leaf("k4_faster_by", ">", 0, "ci_low"),
    "k4_slower": leaf("k4_slower_by", ">", 0, "ci_low"),
    "k4_equal": leaf("k4_outside", "<=", 0),
    **{
        f"g4_{band}": leaf("k4_speedup_log", ">=", math.log(bound)) for band, bound in BANDS.items()
    },
    "g5_adaptive": leaf("adaptive_faster_by", ">", 0, "ci_low"),
}
STANDS = ["k4_faster", "g5_adaptive"]
VERDICTS = [
    {"when": {"none": ["g0_baseline"]}, "verdict": "BASELINE UNSTABLE"},
    {"when": {"none": ["g1_correct"]}, "verdict": "NOT LOSSLESS"},
    {"when": {"all": STANDS}, "verdict": "K=4 STANDS. ADAPTIVE K STANDS."},
    {
        "when": {"all": STANDS[:1], "none": STANDS[1:]},
        "verdict": "K=4 STANDS. ADAPTIVE K FAILS.",
    },
    {
        "when": {"all": ["g3_some_faster"]},
        "verdict": "ANOTHER CONFIGURATION STANDS. K=4 DOES NOT.",
    },
    {"when": {"all": ["k4_slower"]}, "verdict": "K=4 IS SLOWER."},
    {"when": {"all": ["k4_equal"]}, "verdict": "K=4 IS EQUAL TO NATIVE DECODING."},
    {"otherwise": "NOTHING SHOWN"},
]


def act4s_plan() -> dict:
    """The plan as YAML would give it."""
    metrics = {part["metric"] for rule in CRITERIA.values() for part in rule.get("all", [rule])}
    plan = plan_dict("rprm") | {"study": "act4s", "analysis": ANALYSIS, "verdicts": VERDICTS}
    plan |= {"scopes": {"carries": "paired", "reported": []}, "exploratory": []}
    plan["outcomes"] = [{"metric": metric, "meaning": metric} for metric in sorted(metrics)]
    plan["criteria"] = [
        {"id": name, "claim": name, "passes_when": rule} for name, rule in CRITERIA.items()
    ]
    plan.pop("stops")
    return plan


def write_plan(folder: Path, **changes: object) -> Path:
    """The plan as a draft `act4s.yaml`, some of its keys changed."""
    path = folder / "act4s.yaml"
    path.write_text(yaml.safe_dump(act4s_plan() | changes))
    return path
