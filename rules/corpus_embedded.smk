# Corpus. Needs the text that a pinned package ships; makes a tokenizer and four disjoint token
# streams in build/PROFILE/corpus.


rule build_corpus:
    """Tokenizer and token streams (train, dev, extract, prompts) from the public-domain text."""
    input:
        profile=ancient(PROFILE_FILE),
    output:
        multiext(
            f"{BUILD}/corpus/",
            "tokenizer.json",
            "tokenizer_config.json",
            "corpus.json",
            "train.npy",
            "dev.npy",
            "extract.npy",
            "prompts.npy",
        ),
    log:
        f"{BUILD}/logs/build_corpus.txt",
    conda:
        "../envs/models.yaml"
    params:
        version=version("build_corpus.py", "corpus"),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " build_corpus.py --profile {input.profile} --out {params.out}"
