# Report. Needs verdicts, tables and plans; makes the replay of the published figures and one HTML
# page with its Markdown summary. Runs no model.


rule published:
    """The published figures through the same criteria and verdict engine."""
    input:
        plan="prereg/rprm.yaml",
        published="results/published/rprm.yaml",
    output:
        verdict=f"{BUILD}/published/verdict.json",
        comparison=f"{BUILD}/published/comparison.json",
    log:
        f"{BUILD}/logs/published.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "published.py"),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " published.py --plan {input.plan} --published {input.published}"
        " --out-dir {params.out}"


rule write_report:
    """One self-contained HTML page, its Markdown summary and its figures, for one evidence root."""
    input:
        plans=expand("prereg/{study}.yaml", study=STUDIES),
        amendments=[path for study in STUDIES for path in amendments(study)],
        rprm=[
            f"{BUILD}/{{evidence}}/rprm/verdict.json",
            expand(rules.analyse_rprm.output, evidence="{evidence}", tag=TAGS),
        ],
        timing=[
            f"{BUILD}/{{evidence}}/paired_timing/verdict.json",
            rules.analyse_paired_timing.output,
        ],
        published=rules.published.output,
        figures="results/published/rprm.yaml",
        records=records,
    output:
        html=f"{BUILD}/report/{{evidence}}/index.html",
        summary=f"{BUILD}/report/{{evidence}}/summary.md",
        figures=directory(f"{BUILD}/report/{{evidence}}/figures"),
    log:
        f"{BUILD}/logs/report_{{evidence}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "report.py"),
        registered=[registered(study) for study in STUDIES],
        profile=PROFILE,
        rprm=lambda wildcards, input: folder(input.rprm),
        timing=lambda wildcards, input: folder(input.timing),
        published=lambda wildcards, input: folder(input.published),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " report.py --profile {params.profile} --evidence {wildcards.evidence}"
        " --rprm {params.rprm} --timing {params.timing} --published {params.published}"
        " --plans {input.plans} --out-dir {params.out}"
