"""Act IV-S by hand: one run on any target, from options of the command line.

It measures and writes as the planned runs do; nothing that it writes is evidence of a plan.
"""

import shutil
from argparse import Namespace
from pathlib import Path

from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import read_adapter, read_spec
from diffdraft.measure.speculative import options
from diffdraft.measure.speculative.audit import audit_file, audit_reports
from diffdraft.measure.speculative.printed import loops_table, run_tables, ties_line
from diffdraft.measure.speculative.record import measure
from diffdraft.measure.speculative.request import Request
from diffdraft.measure.speculative.seeds import DecodingSeeds
from diffdraft.measure.workloads import load_workload
from diffdraft.prereg.reading import fit
from diffdraft.prereg.schema import DecodingSample
from diffdraft.rows import read_rows
from diffdraft.studies.act4s.design import RunDesign, designs

SCRIPT = Path(__file__).parents[3] / "spec_decode.py"
COMMAND_LINE = "command line"
# What the published surface has no option for: constants of the published arms.
POLICIES = {
    "survival_decay": 0.7,
    "survival_start": 1.0,
    "value_decay": 0.85,
    "value_min_samples": 3,
    "value_explore_every": 16,
}
REFINEMENTS, NGRAM_ORDERS = [1, 2, 4], [3, 2]
UNTRAINED_RANK = 16


def run(args: Namespace) -> None:
    """Do what the subcommand says and print it.

    Raises:
        UserError: an option that is no number or out of range, an adapter of another rank or
            target, or whatever `record.measure` refuses.
    """
    sample, seeds = sample_of(args), seeds_of(args)
    tolerance = options.real("--ulp-tolerance", args.ulp_tolerance)
    loop_free_below = options.real("--loop-free", args.loop_free)
    if args.run == "audit" and args.file is not None:
        found = audit_file(
            args.file, args.target, args.workload, args.corpus, seeds.context, tolerance
        )
        print(audit_reports(*found, tolerance))
        return
    request = request_of(args, sample, seeds)
    written = measure(request)
    shutil.rmtree(request.work, ignore_errors=True)
    generations = read_rows(written["generations"], "generations")
    print(run_tables(generations))
    divergences = read_rows(written["divergences"], "divergences")
    if args.run == "audit":
        print(f"\n{audit_reports(generations, divergences, tolerance)}")
        print(f"\n{ties_line(read_rows(written['ties'], 'ties'))}")
    if args.run == "degeneration":
        print(f"\n{loops_table(generations, loop_free_below)}")
    print("\n" + "\n".join(str(file) for file in written.values()))


def sample_of(args: Namespace) -> DecodingSample:
    """The sizes that the options ask for, checked as those of a plan are."""
    prompts = load_workload(args.workload).prompts
    tokens = options.whole("--tokens", args.tokens)
    sizes = options.whole_list("--block-sizes", args.block_sizes)
    k = options.whole("--k", args.k)
    lengths = options.whole_list("--lengths", args.lengths)
    allowed = options.whole_list("--allowed", args.allowed)
    values = {
        "prompts": len(prompts),
        "categories": len({prompt.category for prompt in prompts}),
        "tokens": tokens,
        "repeats": options.whole("--repeats", args.repeats),
        "warmup": options.whole("--warmup", args.warmup),
        "token_counts": options.whole_list("--token-counts", args.token_counts),
        # Of a sweep without K the largest block is the one that is run twice, as the A/A control.
        "block_size": k if args.run != "ksweep" or k in sizes else max(sizes),
        "block_sizes": sizes,
        "refinements": REFINEMENTS,
        "ngram_orders": NGRAM_ORDERS,
        "policies": {
            **POLICIES,
            "allowed": sorted(allowed),
            "default": options.whole("--default-k", args.default_k),
            "entropy_low": options.real("--entropy-low", args.entropy_low),
            "entropy_high": options.real("--entropy-high", args.entropy_high),
            "confidence_block": max(allowed),
            "confidence_floor": options.real("--confidence-floor", args.confidence_floor),
        },
        "context": {
            "lengths": lengths,
            "passages": options.whole("--passages", args.passages),
            "tokens": tokens,
            "block_sizes": sizes,
        },
        "cost": {"widths": max(sizes) + 1, "context": tokens, "repeats": 1},
        "max_load_before": options.real("--max-load-before", args.max_load_before),
    }
    return fit(DecodingSample, values, COMMAND_LINE)


def seeds_of(args: Namespace) -> DecodingSeeds:
    """One seed for all streams; their names keep them apart."""
    seed = options.whole("--seed", args.seed, least=0)
    names = DecodingSeeds.model_fields
    return DecodingSeeds.from_plan(COMMAND_LINE, "--seed", dict.fromkeys(names, seed))


def request_of(args: Namespace, sample: DecodingSample, seeds: DecodingSeeds) -> Request:
    """The run as the planned measurement would be asked for it."""
    name = "precision" if args.run == "audit" else args.run
    rank = options.whole("--rank", args.rank) if args.rank is not None else None
    adapter = checked_adapter(args.adapter, rank)
    prefix = options.tag("--tag", args.tag) + "_"
    if name == "context" and args.corpus is None:
        raise UserError("--corpus", "folder", "nothing", "a corpus folder, for passages")
    return Request(
        name=name,
        design=design_of(args, sample),
        sample=sample,
        seeds=seeds,
        script=SCRIPT,
        workload=args.workload,
        target=args.target,
        adapter=adapter,
        out_dir=args.out_dir,
        work=args.out_dir / f".{prefix}{name}",
        loop_ngram=options.whole("--ngram", args.ngram),
        ulp_tolerance=options.real("--ulp-tolerance", args.ulp_tolerance),
        prefix=prefix,
        rank=rank or UNTRAINED_RANK,
        shuffled=args.shuffled if name == "controls" else None,
        corpus=args.corpus if name == "context" else None,
        cost_ms=options.cost_ms("--cost-ms", args.cost_ms),
        origin={"adapter": adapter_says(adapter), "profile": None, "plan_sha256": None},
    )


def design_of(args: Namespace, sample: DecodingSample) -> RunDesign:
    """Arms and lengths of the run. `controls` has the shuffled arm only where its file is given."""
    if args.run == "degeneration":
        pair = ("ar", f"uno_k{sample.block_size}")
        return RunDesign(pair, tuple(sample.context.lengths), repeats=1)
    if args.run == "confidence" and sample.block_size == 1:
        raise UserError("--k", "value", 1, "at least 2: a block of 1 offers nothing to be sure of")
    design = designs(sample)["precision" if args.run == "audit" else args.run]
    if args.run == "controls" and args.shuffled is None:
        arms = tuple(arm for arm in design.arms if not arm.startswith("shuffled"))
        return RunDesign(arms, design.max_tokens, design.repeats)
    return design


def checked_adapter(path: str, rank: int | None) -> Path | None:
    """The adapter file, whose rank must be one that is given; None for an empty path: untrained."""
    if not path:
        return None
    file = Path(path)
    found = read_spec(file, read_adapter(file)[1]).rank
    if rank is not None and found != rank:
        raise UserError(file, "metadata.spec.rank", found, f"{rank}, as --rank says")
    return file


def adapter_says(file: Path | None) -> dict[str, str] | None:
    """What an adapter file says of itself; None for an untrained one."""
    if file is None:
        return None
    metadata = read_adapter(file)[1]
    return {name: metadata[name] for name in ("arm", "block_size", "step", "seed")}
