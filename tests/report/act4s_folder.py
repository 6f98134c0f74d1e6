"""A folder as the analysis of study `act4s` leaves it, from made-up numbers."""

import math

import yaml

from diffdraft import files
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import judge
from diffdraft.report.act4s_inputs import COLUMNS, MEASUREMENTS

from .act4s_made import ARMS, FIXED, SPEED, SUBSETS, K, places, speed, tables


def interval(value, width=0.04):
    return {"value": value, "ci_low": value - width, "ci_high": value + width}


def analysis(subsets):
    clean = "loop_free" in subsets
    return {
        **{"n_prompts": 27, "n_loop_free_prompts": 16 if clean else 0, "repeats": 3},
        **{"busy_rows": 5, "block_size": K, "native": {"reproducible": 1.0, "repeat_sd_log": 0.05}},
        "margin": {"log_ratio": interval(0.002), "margin": 0.042, "floor": 0.01},
        "comparisons": [
            {
                **{"run": run, "max_tokens": tokens, "prompt_tokens": context, "subset": subset},
                **{"arm": arm, "against": "ar", "n_prompts": 27, "wins": 2, "losses": 25},
                "log_ratio": interval(math.log(speed(run, arm, tokens, context))),
                "speedup": interval(speed(run, arm, tokens, context)),
            }
            for run, arms in ARMS.items()
            for tokens, context in places(run)
            for subset in subsets
            for arm in arms[1:]
        ],
        "degeneration": {"by_length": [degenerate(tokens, clean) for tokens in (64, 128)]},
        "cost_fits": [
            {
                **{"dtype": dtype, "kind": kind, "fixed_ms": 2.0, "per_row_ms": 0.4},
                **{"r_squared": 0.97, "widths": [1, 9]},
            }
            for dtype in ("float32", "bfloat16")
            for kind in ("draft", "verify")
        ],
        "estimators": [
            {
                **{"subset": subset, "arm": arm, "paired": SPEED[arm], "median_ratio": SPEED[arm]},
                **{"mean_ratio": 1.01 if arm == "uno_k2" else SPEED[arm], "cycle_ratio": 0.6},
                "signs_agree": arm != "uno_k2",
            }
            for subset in subsets
            for arm in FIXED
        ],
        "context_trend": [
            {"arm": arm, "length": length, "log_ratio": interval(-0.3 - length / 5000)}
            for arm in ARMS["context"][1:]
            for length in (64, 256, 1024)
        ],
        "confidence": {"spread": 9.1},
    }


def degenerate(tokens, clean):
    return {
        **{"max_tokens": tokens, "mean_looped_fraction": 0.4, "mean_acceptance": 0.3},
        "loop_free_prompts": 16 if clean else 0,
        "loop_free_acceptance": 0.25 if clean else None,
        "looped_acceptance": 0.31,
        "pearson_r": 0.44 if tokens == 64 else None,
    }


def metrics(plan):
    """All criteria come out as for a drafter that is slower; one estimator sees it faster."""
    values = {
        "ar_identical": 1.0,
        "aa_margin": 0.042,
        "beyond_one_ulp": 0,
        "mean_accepted_prefix": 0.84,
        "k4_speedup_log": -0.41,
        "k4_faster_by": -0.45,
        "k4_slower_by": 0.37,
        "k4_outside": 0.41,
        "any_faster_by": -0.42,
        "other_faster_by": -0.43,
        "adaptive_over_fixed": -0.05,
        "adaptive_faster_by": -0.09,
    }
    faster = values | {"k4_speedup_log": 0.12, "k4_faster_by": 0.1, "k4_slower_by": -0.13}
    scopes = {}
    for scope in plan.scopes.names():
        chosen, width = (faster, 0) if scope == "mean_ratio" else (values, 0.01)
        scopes[scope] = {name: interval(value, width) for name, value in chosen.items()}
    return {"study": plan.study, "scopes": scopes}


def write_tables(folder, subsets=SUBSETS[:1]):
    """Tables and analysis.json, columns exactly those that the report reads."""
    for stem, table in tables(subsets).items():
        text = table[COLUMNS[stem].split()].to_csv(index=False)
        files.write_text(folder / f"{stem}.csv", text)
    files.write_json(folder / "analysis.json", analysis(subsets))


def make(plan_path, folder, meta):
    """The whole folder: tables, verdict, metadata of every run."""
    write_tables(folder)
    plan = load_plan(plan_path)
    files.write_json(folder / "verdict.json", judge(plan, metrics(plan)).to_json())
    for run in MEASUREMENTS:
        files.write_json(folder / f"{run}_meta.json", meta)


def write_readings(folder, plan_path):
    """Published readings, in the form of the replay."""
    names = yaml.safe_load(plan_path.read_text(encoding="utf-8"))["criteria"]
    readings = [
        {
            **{"estimator": estimator, "subset": "pooled", "correctness_rule": rule},
            "verdict": "NOT LOSSLESS" if rule == "exact_tie" else "K=4 STANDS. ADAPTIVE K FAILS.",
            "criteria": [
                {"id": c["id"], "outcome": (c["id"], rule) != ("g1_correct", "exact_tie")}
                for c in names
            ],
        }
        for estimator in ("median_ratio", "mean_ratio")
        for rule in ("one_ulp", "exact_tie")
    ]
    result = {
        "plan_sha256": files.sha256_file(plan_path),
        "published_verdict": "K=4 STANDS. ADAPTIVE K FAILS. AND MORE.",
        "as_published": {
            "gates": [
                {
                    **{"gate": 1, "result": "PASS", "criteria": {"g1_correct": True}},
                    **{"replayed": True, "published": True, "equal": True},
                },
                {
                    **{"gate": 4, "result": "modest", "criteria": {"g4_modest": True}},
                    **{"replayed": "modest", "published": "useful", "equal": False},
                },
            ]
        },
        "basis": {"intervals": "No interval was published.", "stated": {"aa_margin": "nothing"}},
        "readings": readings,
        "depends_on": [
            {
                **{"what": "gate 1", "by": "correctness rule"},
                "readings": {"exact_tie": False, "one_ulp": True},
                "says": "Gate 1 depends on the rule.",
            }
        ],
        "checks": [
            {
                **{"scope": "ksweep", "check": "speed-ups", "figures": 6, "holds": False},
                **{
                    "largest_difference": 0.0012,
                    "misses": [{"figure": "ksweep uno_k4", "printed": 1.2, "recomputed": 1.2012}],
                },
            }
        ],
    }
    files.write_json(folder / "readings.json", result)
