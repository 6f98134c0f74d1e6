# Report. Needs verdicts, tables and plans; makes the replay of the published figures and one HTML
# page with its Markdown summary for each set of studies. Runs no model.


rule published:
    """The published figures of RPRM through the same criteria and verdict engine."""
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
        " published.py --study rprm --plan {input.plan} --published {input.published}"
        " --out-dir {params.out}"


rule published_act4s:
    """The published figures of Act IV-S under every estimator, subset and correctness rule."""
    input:
        plan="prereg/act4s.yaml",
        published="results/published/act4_s.yaml",
    output:
        f"{BUILD}/published/act4s/readings.json",
    log:
        f"{BUILD}/logs/published_act4s.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "published.py"),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " published.py --study act4s --plan {input.plan} --published {input.published}"
        " --out-dir {params.out}"


rule write_report:
    """The page on rprm and paired_timing, for one evidence root: HTML, Markdown and figures."""
    input:
        plans=["prereg/rprm.yaml", "prereg/paired_timing.yaml"],
        amendments=amendments("rprm") + amendments("paired_timing"),
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
        records=records("rprm", "paired_timing"),
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
        registered=[registered(study) for study in ("rprm", "paired_timing")],
        profile=PROFILE,
        studies=lambda wildcards, input: [
            f"--rprm {folder(input.rprm)}",
            f"--timing {folder(input.timing)}",
            f"--published {folder(input.published)}",
        ],
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " report.py --profile {params.profile} --evidence {wildcards.evidence}"
        " {params.studies} --plans {input.plans} --out-dir {params.out}"


rule write_act4s_report:
    """The page on Act IV-S, for one evidence root: HTML, Markdown and figures."""
    input:
        plans="prereg/act4s.yaml",
        amendments=amendments("act4s"),
        act4s=[
            f"{BUILD}/{{evidence}}/act4s/verdict.json",
            rules.analyse_act4s.output,
        ],
        published=rules.published_act4s.output,
        records=records("act4s"),
    output:
        html=f"{BUILD}/report/{{evidence}}/act4s/index.html",
        summary=f"{BUILD}/report/{{evidence}}/act4s/summary.md",
        figures=directory(f"{BUILD}/report/{{evidence}}/act4s/figures"),
    log:
        f"{BUILD}/logs/report_act4s_{{evidence}}.txt",
    conda:
        "../envs/analysis.yaml"
    params:
        version=code_digest(SCRIPTS / "report.py"),
        registered=registered("act4s"),
        profile=PROFILE,
        studies=lambda wildcards, input: [
            f"--act4s {folder(input.act4s)}",
            f"--published-act4s {folder(input.published)}",
        ],
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " report.py --profile {params.profile} --evidence {wildcards.evidence}"
        " {params.studies} --plans {input.plans} --out-dir {params.out}"
