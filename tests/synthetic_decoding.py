"""Row files of study act4s, whole and consistent, made from known distributions and no model.

`write_study` writes a folder as a measurement would leave it, `write_plan` a plan that fits it.
Texts, cycles and slots follow the rules of the decoder; times are a linear cost of the rows of
every forward, times noise, so that the fits and ratios of an analysis have known answers.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from diffdraft import files
from diffdraft.prereg.schema import DecodingSample
from diffdraft.rows import columns, write_rows
from diffdraft.studies.act4s.design import DTYPES, RUNS, RunDesign, designs

ROOT = Path(__file__).parents[1]
SAMPLE = {
    "prompts": 6,
    "categories": 3,
    "tokens": 40,
    "repeats": 2,
    "warmup": 1,
    "token_counts": [40, 64],
    "block_size": 4,
    "block_sizes": [1, 2, 4, 8],
    "refinements": [1, 2],
    "ngram_orders": [3, 2],
    "policies": {
        "allowed": [2, 4, 8],
        "default": 4,
        "entropy_low": 0.5,
        "entropy_high": 2.0,
        "survival_decay": 0.7,
        "survival_start": 1.0,
        "value_decay": 0.85,
        "value_min_samples": 3,
        "value_explore_every": 16,
        "confidence_block": 8,
        "confidence_floor": 0.3,
    },
    "context": {"lengths": [16, 64], "passages": 4, "tokens": 24, "block_sizes": [2, 4, 8]},
    "cost": {"widths": 9, "context": 32, "repeats": 5},
    "max_load_before": 0.25,
}
PARTS = {"mlp": 0.5, "attention": 0.2, "head": 0.3}
FIXED_MS, PER_ROW_MS, NATIVE_MS, COMMIT_MS, OVERHEAD_MS = 1.0, 0.1, 1.0, 0.02, 0.05
NOISE = 0.01  # standard deviation of log wall over repeats
BUSY = 0.25


def sample(**changes) -> DecodingSample:
    """A small sample; `changes` replace its entries."""
    return DecodingSample.model_validate({**SAMPLE, **changes})


def write_plan(folder: Path, wanted: DecodingSample, **analysis) -> Path:
    """The plan prereg/act4s.yaml with this sample, and as many prompts as its floor."""
    plan = yaml.safe_load(files.read_text(ROOT / "prereg" / "act4s.yaml"))
    plan["samples"] = {"tiny": wanted.model_dump(mode="json", exclude_none=True)}
    plan["analysis"] |= {"floor_prompts": wanted.prompts, "resamples": 200, **analysis}
    path = folder / "act4s.yaml"
    files.write_text(path, yaml.safe_dump(plan, sort_keys=False))
    return path


@dataclass
class World:
    """What the rows are drawn from.

    `keep` is the chance that a drafted slot agrees, given that all before it did; `factors`
    multiply the wall of an arm; `looped` is the share of prompts whose native text repeats
    itself; `divergent` gives for a run and dtype the share of drafted generations that leave it,
    and `gaps` the gaps in ULPs of those, in turn.
    """

    wanted: DecodingSample
    seed: int = 0
    keep: float = 0.6
    factors: Mapping[str, float] = field(default_factory=dict)
    looped: float = 0.5
    divergent: Mapping[tuple[str, str], float] = field(default_factory=dict)
    gaps: Sequence[float] = (0.0, 1.0)
    noise: float = NOISE

    def rng(self, *key) -> np.random.Generator:
        digest = hashlib.sha256(repr((self.seed, *key)).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little"))

    def prompts(self, run: str) -> list[tuple[str, str]]:
        """(prompt_id, category) of a run."""
        if run == "context":
            return [(f"passage_{i:02d}", "context") for i in range(self.wanted.context.passages)]
        return [
            (
                f"c{i % self.wanted.categories}_{i // self.wanted.categories}",
                f"c{i % self.wanted.categories}",
            )
            for i in range(self.wanted.prompts)
        ]

    def text(self, prompt: str, context: int, tokens: int) -> list[int]:
        """The native text: of distinct tokens, or from token 12 on the same twelve."""
        rng = self.rng("text", prompt, context)
        ids = rng.permutation(1000)[:tokens].tolist()
        if rng.random() < self.looped:
            ids = [ids[i % 12] for i in range(tokens)]
        return [int(i) for i in ids]


def write_study(
    folder: str | Path,
    *,
    seed: int = 0,
    prompts: int = 6,
    wanted: DecodingSample | None = None,
    divergent: Mapping[tuple[str, str], float] | None = None,
    **world,
) -> DecodingSample:
    """Write every row file of the study into `folder`; returns the sample that they follow.

    `world` goes to `World`: keep, factors, looped, gaps, noise. Without `divergent` a third of
    the bfloat16 generations of run precision leave the native text.
    """
    folder = Path(folder)
    wanted = wanted or sample(prompts=prompts)
    leaving = {("precision", "bfloat16"): 1 / 3} if divergent is None else divergent
    made = World(wanted, seed, divergent=leaving, **world)
    for run, design in designs(wanted).items():
        tables = run_tables(made, run, design)
        for stem, (schema, rows) in tables.items():
            path = folder / f"{stem}.csv"
            if rows:
                write_rows(path, pd.DataFrame.from_records(rows)[columns(schema)], schema)
            else:  # an empty frame has no types
                files.write_text(path, ",".join(columns(schema)) + "\n")
        files.write_json(folder / f"{run}_meta.json", {"study": "act4s", "profile": "tiny"})
    files.write_json(folder / "cost_meta.json", {"study": "act4s", "profile": "tiny"})
    write_rows(folder / "ties.csv", _ties(made), "ties")
    write_rows(folder / "cost.csv", _cost(made), "passes")
    return wanted


def run_tables(world: World, run: str, design: RunDesign) -> dict[str, tuple[str, list[dict]]]:
    """Rows by file stem, each with its schema."""
    assert run in RUNS
    made = {"generations": [], "draft_cycles": [], "divergences": [], "slots": []}
    for prompt, category in world.prompts(run):
        for context in design.contexts:
            for tokens in design.max_tokens:
                for dtype in design.dtypes or DTYPES[:1]:
                    key = {
                        "prompt_id": prompt,
                        "category": category,
                        "prompt_tokens": context or 8 + len(prompt),
                        "max_tokens": tokens,
                    }
                    _prompt_rows(world, run, design, key, context, dtype, made)
    for order, row in enumerate(made["generations"]):
        row["order"] = order
    out = {
        run: ("generations", made["generations"]),
        f"{run}_cycles": ("draft_cycles", made["draft_cycles"]),
        f"{run}_divergences": ("divergences", made["divergences"]),
    }
    return out | ({"confidence_slots": ("slots", made["slots"])} if run == "confidence" else {})


def _prompt_rows(world, run, design, key, context, dtype, made) -> None:
    native = world.text(key["prompt_id"], context, key["max_tokens"])
    for repeat in range(design.repeats):
        order = world.rng("order", run, key["prompt_id"], repeat).permutation(len(design.arms))
        for arm in (design.arms[i] for i in order):
            cycles = [] if arm == "ar" else _cycles(world, arm, key, context)
            text, divergence = _text(world, run, arm, key, dtype, native)
            row = _generation(world, run, arm, key, dtype, repeat, cycles, text, native)
            made["generations"].append(row)
            if divergence:
                made["divergences"].append(
                    {**key, "arm": arm, "dtype": dtype, "repeat": repeat, **divergence}
                )
            if repeat == 0 and dtype == (design.dtypes or DTYPES)[0]:
                made["draft_cycles"] += [
                    {**key, "arm": arm, **{k: v for k, v in cycle.items() if k != "slots"}}
                    for cycle in cycles
                ]
                made["slots"] += [
                    {**key, "arm": arm, "cycle": cycle["cycle"], **slot}
                    for cycle in cycles
                    for slot in cycle["slots"]
                ]


def kind_of(arm: str) -> str:
    """The kind that the measurement writes for an arm."""
    if arm in ("adapt_confidence",) or arm.startswith("conf_"):
        return "confidence"
    names = {"adapt": "adaptive", "ngram2": "ngram", "ngram3": "ngram"}
    stem = arm.split("_")[0]
    return names.get(stem, stem.rstrip("0123456789"))


def _block(arm: str, cycle: int, rng) -> tuple[int, int]:
    """(block size, offered) of a cycle."""
    if arm == "adapt_confidence":
        return 8, int(rng.integers(0, 8))
    if arm.startswith("adapt_survival") and "repaired" not in arm:
        return 2, 1
    if arm.startswith("adapt_"):
        size = int(rng.choice([2, 4, 8]))
        return size, size - 1
    size = int(arm.split("_k")[1].split("_")[0])
    if arm.startswith("ngram") and rng.random() < 0.7:
        return size, 0
    return size, size - 1


def _cycles(world, arm, key, context) -> list[dict]:
    # One stream for an arm and its A/A twin, and for the arms that decode alike, whatever the run.
    alike = arm.replace("_again", "").replace("conf_", "uno_").replace("refine1_", "uno_")
    rng = world.rng("cycles", alike, key["prompt_id"], context)
    given = 0 if kind_of(arm) in ("ngram", "random") else 1
    passes = int(arm[6]) if arm.startswith("refine") else given
    keep = 0.02 if kind_of(arm) in ("untrained", "shuffled", "random") else world.keep
    rows, left = [], key["max_tokens"]
    while left > 0:
        size, offered = _block(arm, len(rows), rng)
        agrees = rng.random(offered) < keep
        accepted = offered if agrees.all() else int(agrees.argmin())
        committed = min(given + accepted + 1, left)
        slots = [_slot(rng, j, accepted) for j in range(1, offered + 1)]
        counts = {"block_size": size, "offered": offered, "accepted": accepted}
        rows.append(
            {"cycle": len(rows) + 1, **counts, "committed": committed, "forwards": passes + 1}
            | {"slots": slots if arm.startswith("conf_") else []}
        )
        left -= committed
    return rows


def _slot(rng, slot, accepted) -> dict:
    top1 = float(rng.beta(5, 2) if slot <= accepted else rng.beta(2, 4)) * 0.99 + 0.005
    return {
        "slot": slot,
        "top1": top1,
        "margin": top1 * float(rng.random()),
        "accepted": int(slot <= accepted),
    }


def _text(world, run, arm, key, dtype, native) -> tuple[list[int], dict | None]:
    share = world.divergent.get((run, dtype), 0.0)
    rng = world.rng("divergence", run, arm, key["prompt_id"], key["max_tokens"], dtype)
    if arm == "ar" or rng.random() >= share:
        return native, None
    place = int(rng.integers(1, len(native)))
    text = native[:place] + [token + 1000 for token in native[place:]]
    # Largest logit in [16, 32): steps of 2^-3 in bfloat16 and 2^-19 in float32.
    ulp = 2.0**-3 if dtype == "bfloat16" else 2.0**-19
    gap = world.gaps[int(rng.integers(len(world.gaps)))]
    low = 24.0 - gap * ulp
    return text, {
        "position": place,
        "ar_token": native[place],
        "spec_token": text[place],
        "ar_logit": 24.0,
        "spec_logit": low,
        "max_logit": 24.0,
        "gap": 24.0 - low,
        "ulp": ulp,
        "gap_in_ulps": gap,
        "exact_tie": int(gap == 0),
        "within_one_ulp": int(gap <= 1),
        "near_maximum": int(gap <= 1),
    }


def looped_fraction(tokens: Sequence[int], n: int = 8) -> float:
    """The rule of the published study, written out."""
    if len(tokens) < 2 * n:
        return 0.0
    grams = Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
    repeats = sum(count - 1 for count in grams.values())
    return round(repeats / (len(tokens) - n + 1), 4)


def _generation(world, run, arm, key, dtype, repeat, cycles, text, native) -> dict:
    rng = world.rng(
        "wall", run, arm, key["prompt_id"], key["prompt_tokens"], dtype, repeat, key["max_tokens"]
    )
    prompt = world.rng("speed", key["prompt_id"]).uniform(0.8, 1.2)
    scale = prompt * world.factors.get(arm, 1.0) * float(np.exp(world.noise * rng.normal())) / 1000
    stages = _stages(arm, cycles, scale)
    prefill = (1 + 0.01 * key["prompt_tokens"]) * scale
    body = sum(stages.values()) if cycles else len(native) * NATIVE_MS * scale
    first = next((i for i, (a, b) in enumerate(zip(text, native, strict=True)) if a != b), -1)
    load = float(rng.uniform(0, 0.3))
    trace = repr([(c["block_size"], c["offered"], c["accepted"], c["committed"]) for c in cycles])
    return {
        **key,
        "arm": arm,
        "kind": kind_of(arm),
        "dtype": dtype,
        "repeat": repeat,
        "block_size": max((c["block_size"] for c in cycles), default=0),
        "tokens": len(text),
        "wall_seconds": prefill + body * 1.001,
        "prefill_seconds": prefill,
        **stages,
        "forwards": 1 + sum(c["forwards"] for c in cycles) if cycles else len(text),
        "cycles": len(cycles),
        "accepted": sum(c["accepted"] for c in cycles),
        "offered": sum(c["offered"] for c in cycles),
        "full_blocks": sum(0 < c["offered"] == c["accepted"] for c in cycles),
        "replays": 0,
        "load_before": load,
        "busy": int(load > BUSY),
        "identical": int(first < 0),
        "first_divergence": first,
        "looped_fraction": looped_fraction(native),
        "distinct_ratio": len(set(native)) / len(native),
        "trace_sha": hashlib.sha256((trace + repr(text)).encode()).hexdigest(),
        "token_ids": " ".join(map(str, text)),
    }


def _stages(arm, cycles, scale) -> dict[str, float]:
    """Seconds of each stage, linear in the rows of every forward."""
    draft = sum((c["forwards"] - 1) * (FIXED_MS + PER_ROW_MS * c["block_size"]) for c in cycles)
    rows = [c["offered"] + 1 + (c["forwards"] > 1) for c in cycles]
    return {
        "draft_seconds": draft * scale,
        "verify_seconds": sum(FIXED_MS + PER_ROW_MS * n for n in rows) * scale,
        "commit_seconds": len(cycles) * COMMIT_MS * scale,
        "overhead_seconds": len(cycles) * OVERHEAD_MS * scale,
    }


def _ties(world) -> pd.DataFrame:
    rows = []
    for prompt, _ in world.prompts("ksweep"):
        for dtype in DTYPES:
            gaps = world.rng("ties", prompt, dtype).exponential(3, world.wanted.tokens)
            gaps = np.round(gaps * 8) / 8 if dtype == "bfloat16" else gaps
            for position, gap in enumerate(gaps.tolist()):
                key = {"prompt_id": prompt, "dtype": dtype, "position": position}
                rows.append({**key, "top2_gap": gap, "exact_tie": int(gap == 0)})
    return pd.DataFrame(rows)[columns("ties")]


def _cost(world) -> pd.DataFrame:
    """Whole passes of every kind and width, and parts of verify passes of a few widths."""
    rows = []
    cost, k = world.wanted.cost, world.wanted.block_size
    for dtype in DTYPES:
        for kind in ("native", "draft", "verify"):
            for width in range(1, cost.widths + 1):
                ms = FIXED_MS + PER_ROW_MS * width
                ms = ms - FIXED_MS - PER_ROW_MS + NATIVE_MS if kind == "native" else ms
                parts = {"whole": 1.0}
                parts |= PARTS if kind == "verify" and width in (1, k, k + 1) else {}
                rng = world.rng("cost", dtype, kind, width)
                for part, share in parts.items():
                    for repeat in range(cost.repeats):
                        seconds = share * ms / 1000 * float(np.exp(0.01 * rng.normal()))
                        key = {"dtype": dtype, "kind": kind, "part": part, "width": width}
                        rows.append({**key, "repeat": repeat, "seconds": seconds})
    return pd.DataFrame(rows)[columns("passes")]
