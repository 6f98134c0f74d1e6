# Measurement of Act IV-S. Needs the target, its adapters and the plan; makes the rows of every run
# (generations, their cycles, their divergences) in build/PROFILE/measured/act4s. The runs go one
# after the other, each with every core its own.


rule time_act4s:
    """One run of Act IV-S: all its arms on the same prompts, in balanced orders."""
    input:
        unpack(act4s_needs),
        profile=ancient(PROFILE_FILE),
        plan="prereg/act4s.yaml",
        amendments=amendments("act4s"),
        workload=WORKLOAD,
        target=TARGET_FILES,
        adapter=f"{BUILD}/adapters/primary/adapter.safetensors",
    output:
        rows=f"{ACT4S}/{{run}}.csv",
        cycles=f"{ACT4S}/{{run}}_cycles.csv",
        divergences=f"{ACT4S}/{{run}}_divergences.csv",
        meta=f"{ACT4S}/{{run}}_meta.json",
    log:
        f"{BUILD}/logs/act4s_{{run}}.txt",
    wildcard_constraints:
        run="baseline|ksweep|context|controls|adaptive",
    conda:
        "../envs/models.yaml"
    threads: workflow.cores
    params:
        version=version("measure_act4s.py"),
        registered=registered("act4s"),
        blas_threads=MODEL_THREADS,
        run=lambda wildcards, output: Path(output.rows).stem,
        options=act4s_options,
        target=lambda wildcards, input: folder(input.target),
        out=lambda wildcards, output: folder([output.rows]),
        work=lambda wildcards, output: work(
            f"act4s_{Path(output.rows).stem}", "measure_act4s.py"
        ),
    shell:
        "export {{OMP,MKL,OPENBLAS}}_NUM_THREADS={params.blas_threads};"
        " python workflow_scripts/logged.py {log} --discard {params.work}"
        " measure_act4s.py --profile {input.profile} --plan {input.plan} --run {params.run}"
        " --workload {input.workload} --target {params.target} --adapter {input.adapter}"
        " {params.options} --out-dir {params.out} --work {params.work}"


# The run that records the drafter's confidence in every slot.
use rule time_act4s as time_act4s_confidence with:
    output:
        rows=f"{ACT4S}/confidence.csv",
        cycles=f"{ACT4S}/confidence_cycles.csv",
        divergences=f"{ACT4S}/confidence_divergences.csv",
        slots=f"{ACT4S}/confidence_slots.csv",
        meta=f"{ACT4S}/confidence_meta.json",
    log:
        f"{BUILD}/logs/act4s_confidence.txt",


# Not timed: all block sizes in float32 and bfloat16, for the audit of divergences and ties.
use rule time_act4s as run_act4s_precision with:
    output:
        rows=f"{ACT4S}/precision.csv",
        cycles=f"{ACT4S}/precision_cycles.csv",
        divergences=f"{ACT4S}/precision_divergences.csv",
        ties=f"{ACT4S}/ties.csv",
        meta=f"{ACT4S}/precision_meta.json",
    log:
        f"{BUILD}/logs/act4s_precision.txt",


# What a forward costs at every width.
use rule time_act4s as time_act4s_cost with:
    output:
        rows=f"{ACT4S}/cost.csv",
        meta=f"{ACT4S}/cost_meta.json",
    log:
        f"{BUILD}/logs/act4s_cost.txt",
