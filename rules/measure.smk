# Measurement. Needs the corpus, the target, the adapters and the plans; makes the rows of each
# study, and what they were measured with, in build/PROFILE/measured/STUDY.


rule stage0:
    """Stage 0 of rprm: the checks that must hold before any position is extracted."""
    input:
        profile=ancient(PROFILE_FILE),
        plan="prereg/rprm.yaml",
        amendments=amendments("rprm"),
        corpus=CORPUS_FILES,
        target=TARGET_FILES,
        adapters=expand(f"{BUILD}/adapters/{{tag}}/adapter.safetensors", tag=TAGS),
    output:
        f"{BUILD}/stage0/stage0.json",
    log:
        f"{BUILD}/logs/stage0.txt",
    conda:
        "../envs/models.yaml"
    threads: MODEL_THREADS
    params:
        version=version("stage0.py"),
        registered=registered("rprm"),
        corpus=lambda wildcards, input: folder(input.corpus),
        target=lambda wildcards, input: folder(input.target),
        adapters=lambda wildcards, input: [folder([path]) for path in input.adapters],
    shell:
        "python workflow_scripts/logged.py {log}"
        " stage0.py --profile {input.profile} --plan {input.plan} --corpus {params.corpus}"
        " --target {params.target} --adapters {params.adapters} --out {output}"


rule extract_positions:
    """Rows of rprm: what the drafter proposed at each position, and what the target accepted."""
    input:
        profile=ancient(PROFILE_FILE),
        plan="prereg/rprm.yaml",
        amendments=amendments("rprm"),
        corpus=CORPUS_FILES,
        target=TARGET_FILES,
        adapter=f"{BUILD}/adapters/{{tag}}/adapter.safetensors",
        stage0=rules.stage0.output,
    output:
        csv=f"{BUILD}/measured/rprm/positions_{{tag}}.csv",
        meta=f"{BUILD}/measured/rprm/positions_{{tag}}_meta.json",
    log:
        f"{BUILD}/logs/extract_positions_{{tag}}.txt",
    conda:
        "../envs/models.yaml"
    threads: MODEL_THREADS
    params:
        version=version("extract_positions.py"),
        registered=registered("rprm"),
        corpus=lambda wildcards, input: folder(input.corpus),
        target=lambda wildcards, input: folder(input.target),
        work=lambda wildcards: work(
            f"positions_{wildcards.tag}", "extract_positions.py"
        ),
    shell:
        "python workflow_scripts/logged.py {log} --discard {params.work}"
        " extract_positions.py --profile {input.profile} --plan {input.plan}"
        " --tag {wildcards.tag} --corpus {params.corpus} --target {params.target}"
        " --adapter {input.adapter} --stage0 {input.stage0} --out {output.csv}"
        " --meta {output.meta} --work {params.work}"


rule time_paired:
    """Rows of paired_timing: both arms on the same prompts. Runs alone, with every core its own."""
    input:
        profile=ancient(PROFILE_FILE),
        plan="prereg/paired_timing.yaml",
        amendments=amendments("paired_timing"),
        workload=WORKLOAD,
        target=TARGET_FILES,
        adapter=f"{BUILD}/adapters/primary/adapter.safetensors",
    output:
        timing=f"{BUILD}/measured/paired_timing/timing.csv",
        cycles=f"{BUILD}/measured/paired_timing/cycles.csv",
        meta=f"{BUILD}/measured/paired_timing/timing_meta.json",
    log:
        f"{BUILD}/logs/time_paired.txt",
    conda:
        "../envs/models.yaml"
    threads: workflow.cores
    params:
        version=version("time_paired.py"),
        registered=registered("paired_timing"),
        # Every core is reserved so that nothing runs beside it, not to be computed on: products of
        # the few rows that decoding has at a time are too small to be shared out.
        blas_threads=MODEL_THREADS,
        target=lambda wildcards, input: folder(input.target),
        work=work("timing", "time_paired.py"),
    shell:
        "export {{OMP,MKL,OPENBLAS}}_NUM_THREADS={params.blas_threads};"
        " python workflow_scripts/logged.py {log} --discard {params.work}"
        " time_paired.py --profile {input.profile} --plan {input.plan}"
        " --workload {input.workload} --target {params.target} --adapter {input.adapter}"
        " --timing {output.timing} --cycles {output.cycles} --meta {output.meta}"
        " --work {params.work}"
