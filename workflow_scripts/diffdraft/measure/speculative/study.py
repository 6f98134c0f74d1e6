"""The measurement of the study `act4s`: from a plan to the row files of one run."""

from collections.abc import Sequence
from pathlib import Path

from diffdraft import files
from diffdraft.config import Profile, load_profile
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import read_adapter
from diffdraft.measure.planned import check_adapter, check_profile, check_target, planned_workload
from diffdraft.measure.speculative.bench import SHUFFLED_ARM
from diffdraft.measure.speculative.cost_run import measure_cost
from diffdraft.measure.speculative.record import measure
from diffdraft.measure.speculative.request import Request
from diffdraft.measure.speculative.seeds import DecodingSeeds
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.prereg.schema import DecodingSample, Plan
from diffdraft.rows import read_rows
from diffdraft.studies.act4s.design import RUNS, RunDesign, designs
from diffdraft.studies.act4s.published_estimators import STAGES
from diffdraft.studies.act4s.settings import Act4sAnalysis

SCRIPT = Path(__file__).parents[3] / "measure_act4s.py"
COST = "cost"
NAMES = (*RUNS, COST)
ADAPTER_ARM = "primary"
NEEDS = {"controls": "shuffled", "context": "corpus", "adaptive": "ksweep"}


def measure_planned(
    profile_file: Path,
    plan_file: Path,
    workload: Path,
    name: str,
    target: Path,
    adapter: Path,
    out_dir: Path,
    work: Path,
    shuffled: Path | None = None,
    corpus: Path | None = None,
    ksweep: Path | None = None,
) -> None:
    """Measure one run of the plan; `name` is one of `NAMES`.

    The run `controls` needs the shuffled adapter, `context` the corpus, and `adaptive` the row
    file of the run `ksweep`, for the cost of a cycle.

    Raises:
        UserError: a plan without this profile, or a profile, workload or adapter other than
            planned; a needed file that is missing; or whatever `record.measure` refuses.
    """
    own = {"shuffled": shuffled, "corpus": corpus, "ksweep": ksweep}
    extra = {option: own[option] for run, option in NEEDS.items() if run == name}
    for option, file in extra.items():
        if file is None:
            raise UserError(f"--{option}", "file", "nothing", f"what the run {name} needs")
    profile, plan = load_profile(profile_file), load_amended_plan(plan_file)
    sample = plan.sample_of(DecodingSample, profile.name, plan_file)
    analysis = Act4sAnalysis.from_plan(plan_file, "analysis", plan.analysis)
    design = planned_design(name, plan, sample, analysis.baseline_arm, plan_file)
    origin = {
        "profile": profile.name,
        "profile_sha256": check_profile(plan, profile, profile_file),
        "plan_sha256": plan.sha256,
        "seeds": plan.seeds,
        "adapter": check_adapter(adapter, read_adapter(adapter)[1], profile, plan, ADAPTER_ARM),
    }
    if shuffled := extra.get("shuffled"):
        check_shuffled(shuffled, profile, plan)
    cost_ms = {}
    if ksweep := extra.get("ksweep"):
        cost_ms = cost_table(ksweep, sample.policies.allowed)
        origin["ksweep_sha256"] = files.sha256_file(ksweep)
    planned_workload(workload, sample)
    check_target(plan, profile.name, target)
    request = Request(
        name=name,
        design=design,
        sample=sample,
        seeds=DecodingSeeds.from_plan(plan_file, "seeds", plan.seeds),
        script=SCRIPT,
        workload=workload,
        target=target,
        adapter=adapter,
        out_dir=out_dir,
        work=work,
        loop_ngram=analysis.loop_ngram,
        ulp_tolerance=analysis.ulp_tolerance,
        shuffled=extra.get("shuffled"),
        corpus=extra.get("corpus"),
        cost_ms=cost_ms,
        plan=plan_file,
        origin=origin,
    )
    if name == COST:
        measure_cost(request)
    else:
        measure(request)


def planned_design(
    name: str, plan: Plan, sample: DecodingSample, baseline: str, plan_file: Path
) -> RunDesign:
    """The design of a run, all of whose arms the plan must list. (`cost` has that of ksweep.)"""
    design = designs(sample, baseline)["ksweep" if name == COST else name]
    listed = {arm.id for arm in plan.arms}
    for arm in design.arms:
        if arm not in listed:
            raise UserError(plan_file, "arms", f"no {arm}", f"every arm of the run {name}")
    return design


def check_shuffled(file: Path, profile: Profile, plan: Plan) -> None:
    """Refuse an adapter that is not the shuffled control of the primary adapter's settings."""
    metadata = read_adapter(file)[1]
    if metadata["arm"] != SHUFFLED_ARM:
        raise UserError(file, "metadata.arm", metadata["arm"], SHUFFLED_ARM)
    check_adapter(file, {**metadata, "arm": ADAPTER_ARM}, profile, plan, ADAPTER_ARM)


def cost_table(ksweep: Path, allowed: Sequence[int]) -> dict[int, float]:
    """Milliseconds of a cycle by block size: the median over rows of the run `ksweep`.

    All four stages of a cycle count. Raises `UserError` for a block size without rows.
    """
    frame = read_rows(ksweep, "generations")
    costs = {}
    for size in allowed:
        own = frame[frame["arm"] == f"uno_k{size}"]
        if own.empty:
            raise UserError(ksweep, "arm", f"no rows of uno_k{size}", "each allowed block size")
        seconds = own[[f"{stage}_seconds" for stage in STAGES]].sum(axis=1)
        costs[size] = float((seconds / own["cycles"]).median() * 1000)
    return costs
