# Judgement. Needs metrics and the frozen plan; makes the verdict, what it stops, and how it
# compares with the committed one. Runs no model.


rule judge:
    """The verdict of a study: the plan's criteria over its metrics."""
    input:
        plan="prereg/{study}.yaml",
        amendments=lambda wildcards: amendments(wildcards.study),
        metrics=metrics,
    output:
        f"{BUILD}/{{evidence}}/{{study}}/verdict.json",
    log:
        f"{BUILD}/logs/judge_{{study}}_{{evidence}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "judge.py"),
        registered=lambda wildcards: registered(wildcards.study),
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
