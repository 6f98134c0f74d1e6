"""The run `cost`: what a forward takes at every width, in both precisions."""

from pathlib import Path

from diffdraft import files, rows
from diffdraft.measure.cost_curve import CostCurve, Subject
from diffdraft.measure.shards import Shards
from diffdraft.measure.speculative.record import frame, load_benches, meta_of
from diffdraft.measure.speculative.request import Request
from diffdraft.measure.workloads import load_workload
from diffdraft.targets.load import DTYPES


def measure_cost(request: Request) -> Path:
    """Time every pass as often as planned; a kill resumes at the next repeat.

    The text that passes run on is that of the suite's prompts, one after the other.

    Raises:
        UserError: a target or adapter that does not fit, or a suite with too few tokens.
    """
    workload = load_workload(request.workload)
    benches = load_benches(request, DTYPES)
    target = next(iter(benches.values())).target
    text = [token for prompt in workload.prompts for token in target.tokenizer.encode(prompt.text)]
    identity = request.identity(target.fingerprint)
    shards = Shards(request.work, identity, request.plan)
    subjects = {dtype: Subject(bench.target, bench.adapter) for dtype, bench in benches.items()}
    sample = request.sample
    curve = CostCurve(subjects, sample.cost, sample.block_size, text, request.seeds.arm_order)
    names = [f"repeat{index}" for index in range(sample.cost.repeats)]
    pieces = shards.collect(names, curve.repeat, "repeat")
    for bench in benches.values():
        bench.target.check_unchanged()
    table = frame([row for piece in pieces for row in piece], "passes")
    file = request.out_dir / f"{request.prefix}{request.name}.csv"
    rows.write_rows(file, table, "passes")
    meta = meta_of(request, identity, list(benches), [file], shards)
    files.write_json(file.with_name(f"{file.stem}_meta.json"), meta)
    return file
