# Corpus. Needs the pretrained target; makes four token streams of text that it writes itself in
# build/PROFILE/corpus.


rule sample_corpus:
    """Let the target write its own text; killed, it goes on behind the last finished batch."""
    input:
        profile=ancient(PROFILE_FILE),
        target=TARGET_FILES,
    output:
        CORPUS_FILES,
    log:
        f"{BUILD}/logs/sample_corpus.txt",
    conda:
        "../envs/models.yaml"
    threads: MODEL_THREADS
    params:
        version=version("sample_corpus.py", "corpus"),
        target=lambda wildcards, input: folder(input.target),
        out=lambda wildcards, output: folder(output),
        work=work("corpus", "sample_corpus.py", "corpus"),
    shell:
        "python workflow_scripts/logged.py {log} --discard {params.work}"
        " sample_corpus.py --profile {input.profile} --target {params.target} --out {params.out}"
        " --work {params.work}"
