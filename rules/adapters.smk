# Adapters. Needs the corpus and the target; makes the two drafters of the study rprm (primary and
# replication) and the control of the study act4s in build/PROFILE/adapters.


rule train_adapter:
    """Train one drafter against the frozen target; killed, it goes on from its checkpoint."""
    input:
        profile=ancient(PROFILE_FILE),
        corpus=CORPUS_FILES,
        target=TARGET_FILES,
    output:
        f"{BUILD}/adapters/{{tag}}/adapter.safetensors",
        f"{BUILD}/adapters/{{tag}}/training.csv",
        f"{BUILD}/adapters/{{tag}}/training.json",
    log:
        f"{BUILD}/logs/train_adapter_{{tag}}.txt",
    conda:
        "../envs/models.yaml"
    threads: MODEL_THREADS
    params:
        tag=lambda wildcards: wildcards.tag,
        options="",
        version=lambda wildcards: version("train_adapter.py", "adapters", wildcards.tag),
        corpus=lambda wildcards, input: folder(input.corpus),
        target=lambda wildcards, input: folder(input.target),
        out=lambda wildcards, output: folder(output),
        work=lambda wildcards: work(
            f"adapter_{wildcards.tag}", "train_adapter.py", "adapters", wildcards.tag
        ),
    shell:
        "python workflow_scripts/logged.py {log} --discard {params.work}"
        " train_adapter.py --profile {input.profile} --tag {params.tag} {params.options}"
        " --corpus {params.corpus} --target {params.target} --out {params.out}"
        " --work {params.work}"


use rule train_adapter as train_shuffled_adapter with:
    output:
        f"{BUILD}/adapters/primary_shuffled/adapter.safetensors",
        f"{BUILD}/adapters/primary_shuffled/training.csv",
        f"{BUILD}/adapters/primary_shuffled/training.json",
    log:
        f"{BUILD}/logs/train_adapter_primary_shuffled.txt",
    params:
        tag="primary",
        options="--shuffle-targets",
        version=version("train_adapter.py", "adapters", "primary"),
        corpus=lambda wildcards, input: folder(input.corpus),
        target=lambda wildcards, input: folder(input.target),
        out=lambda wildcards, output: folder(output),
        work=work("adapter_shuffled", "train_adapter.py", "adapters", "primary"),
