# Corpus. Needs the pinned data set of the hub (its cache, the network, or `--config text=FOLDER`)
# and the target, whose tokenizer it takes; makes four token streams in build/PROFILE/corpus.


rule fetch_corpus:
    """Token streams (train, dev, extract, prompts) from the rows of the data set."""
    input:
        profile=ancient(PROFILE_FILE),
        target=TARGET_FILES,
    output:
        CORPUS_FILES,
    log:
        f"{BUILD}/logs/fetch_corpus.txt",
    conda:
        "../envs/hub.yaml"
    params:
        version=version("fetch_corpus.py", "corpus"),
        text=option("text"),
        given=given(config.get("text")),
        target=lambda wildcards, input: folder(input.target),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " fetch_corpus.py --profile {input.profile} {params.text:q} --target {params.target}"
        " --out {params.out}"
