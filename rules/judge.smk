# Judgement. Needs metrics and the frozen plan; makes the verdict, what it stops, and how it
# compares with the committed one. Runs no model.


rule judge_rprm:
    """The verdict of rprm: the plan's criteria over the metrics of both adapters."""
    input:
        plan="prereg/rprm.yaml",
        amendments=amendments("rprm"),
        metrics=expand(f"{BUILD}/{{{{evidence}}}}/rprm/metrics_{{tag}}.json", tag=TAGS),
    output:
        f"{BUILD}/{{evidence}}/rprm/verdict.json",
    log:
        f"{BUILD}/logs/judge_rprm_{{evidence}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "judge.py"),
        registered=registered("rprm"),
    shell:
        "python workflow_scripts/logged.py {log}"
        " judge.py --plan {input.plan} --metrics {input.metrics} --out {output}"


rule judge_paired_timing:
    """The verdict of paired_timing: the plan's criteria over its metrics."""
    input:
        plan="prereg/paired_timing.yaml",
        amendments=amendments("paired_timing"),
        metrics=f"{BUILD}/{{evidence}}/paired_timing/metrics.json",
    output:
        f"{BUILD}/{{evidence}}/paired_timing/verdict.json",
    log:
        f"{BUILD}/logs/judge_paired_timing_{{evidence}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "judge.py"),
        registered=registered("paired_timing"),
    shell:
        "python workflow_scripts/logged.py {log}"
        " judge.py --plan {input.plan} --metrics {input.metrics} --out {output}"


rule judge_act4s:
    """The verdict of act4s: the plan's criteria over its metrics."""
    input:
        plan="prereg/act4s.yaml",
        amendments=amendments("act4s"),
        metrics=f"{BUILD}/{{evidence}}/act4s/metrics.json",
    output:
        f"{BUILD}/{{evidence}}/act4s/verdict.json",
    log:
        f"{BUILD}/logs/judge_act4s_{{evidence}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "judge.py"),
        registered=registered("act4s"),
    shell:
        "python workflow_scripts/logged.py {log}"
        " judge.py --plan {input.plan} --metrics {input.metrics} --out {output}"


rule rprm_stage2:
    """Stage 2 of rprm, as far as the plan lets it run: a STOP ends here, with its reason."""
    input:
        plan="prereg/rprm.yaml",
        amendments=amendments("rprm"),
        verdict=f"{BUILD}/measured/rprm/verdict.json",
    output:
        f"{BUILD}/measured/rprm/stage2_gate.json",
    log:
        f"{BUILD}/logs/rprm_stage2.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "stage2_gate.py"),
        registered=registered("rprm"),
    shell:
        "python workflow_scripts/logged.py {log}"
        " stage2_gate.py --plan {input.plan} --verdict {input.verdict} --out {output}"


# compare.py ends with 1 where the verdicts differ. Committed rows that no longer give the committed
# verdict are an error; a new measurement that gives another one is a result.
rule compare_verdicts:
    """Whether a verdict from here equals the committed one, criterion by criterion."""
    input:
        ours=f"{BUILD}/{{evidence}}/{{study}}/verdict.json",
        theirs=f"{RESULTS}/{{study}}/verdict.json",
    output:
        f"{BUILD}/{{evidence}}/{{study}}/comparison.json",
    log:
        f"{BUILD}/logs/compare_{{evidence}}_{{study}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "compare.py"),
    shell:
        "python workflow_scripts/logged.py {log}"
        " compare.py --ours {input.ours} --theirs {input.theirs} --out {output}"
        " || {{ [ $? = 1 ] && [ {wildcards.evidence} = measured ]; }}"


rule audit:
    """Check plans, ledger, history and committed evidence: PASS, FAIL or CANNOT TELL."""
    log:
        "build/logs/audit.txt",
    conda:
        "../envs/analysis.yaml"
    shell:
        "python workflow_scripts/logged.py {log} audit.py"
