# Analysis. Needs a study's plan and rows (measured here, or committed in results/); makes tables
# and named metrics in build/PROFILE/EVIDENCE/STUDY. Runs no model.


rule analyse_rprm:
    """Metrics and tables of rprm for one adapter, from its position rows."""
    input:
        plan="prereg/rprm.yaml",
        positions=rows("rprm/positions_{tag}.csv"),
    output:
        analysis=f"{BUILD}/{{evidence}}/rprm/analysis_{{tag}}.json",
        metrics=f"{BUILD}/{{evidence}}/rprm/metrics_{{tag}}.json",
        tables=expand(
            f"{BUILD}/{{{{evidence}}}}/rprm/{{table}}_{{{{tag}}}}.csv",
            table=("quintiles", "within_offset", "calibration", "roc", "pr"),
        ),
    log:
        f"{BUILD}/logs/analyse_rprm_{{evidence}}_{{tag}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "analyse_rprm.py"),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " analyse_rprm.py --plan {input.plan} --tag {wildcards.tag}"
        " --positions {input.positions} --out-dir {params.out}"


rule analyse_paired_timing:
    """Metrics of paired_timing, from its timing and cycle rows."""
    input:
        plan="prereg/paired_timing.yaml",
        timing=rows("paired_timing/timing.csv"),
        cycles=rows("paired_timing/cycles.csv"),
    output:
        analysis=f"{BUILD}/{{evidence}}/paired_timing/analysis.json",
        metrics=f"{BUILD}/{{evidence}}/paired_timing/metrics.json",
    log:
        f"{BUILD}/logs/analyse_paired_timing_{{evidence}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "analyse_paired_timing.py"),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " analyse_paired_timing.py --plan {input.plan} --timing {input.timing}"
        " --cycles {input.cycles} --out-dir {params.out}"


rule analyse_act4s:
    """Metrics and tables of act4s, from the rows of all its runs."""
    input:
        plan="prereg/act4s.yaml",
        rows=rows_of("act4s"),
    output:
        analysis=f"{BUILD}/{{evidence}}/act4s/analysis.json",
        metrics=f"{BUILD}/{{evidence}}/act4s/metrics.json",
        tables=expand(
            f"{BUILD}/{{{{evidence}}}}/act4s/{{table}}.csv", table=ACT4S_TABLES
        ),
    log:
        f"{BUILD}/logs/analyse_act4s_{{evidence}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "analyse_act4s.py"),
        rows=lambda wildcards, input: folder(input.rows),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " analyse_act4s.py --plan {input.plan} --rows {params.rows} --out-dir {params.out}"
