# Names and functions that the rules share.
#
# Besides its files, a step depends on its parameter `version`, a digest of the code that its script
# runs and of the profile's settings that concern it (diffdraft/code_digest.py). Scripts listed as
# inputs would go by file times, which a clone sets at random, and would leave out the library.
# This way a comment, or a module that a script never imports, reruns nothing, and a change of what
# it computes does.
import fcntl
import os
import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/workflow_scripts")

from diffdraft import files
from diffdraft.code_digest import code_digest
from diffdraft.config import TAGS, load_profile
from diffdraft.errors import UserError
from diffdraft.prereg import ledger, registry
from diffdraft.prereg.adapter_evidence import ADAPTER_TAGS
from diffdraft.prereg.amendments import amendment_files
from diffdraft.prereg.planned_profile import require_sample
from diffdraft.studies.act4s.design import TABLES as ACT4S_TABLES

SCRIPTS = Path(workflow.basedir) / "workflow_scripts"
STUDIES = tuple(registry.STUDIES)
# What a newcomer runs first; Act IV-S takes longer and is asked for by name.
FIRST_STUDIES = ("rprm", "paired_timing")
EVIDENCE = ("measured", "committed")
# What a profile of the hub can be given from this machine: --config model=FOLDER text=FOLDER.
HUB_KEYS = ("model", "text")


# `python` in a command is the interpreter that runs Snakemake (or that of the rule's environment,
# where Snakemake deploys one). Its path is no part of a command, so a moved folder reruns nothing.
envvars:
    "PATH",


os.environ["PATH"] = os.pathsep.join(
    (str(Path(sys.executable).parent), os.environ["PATH"])
)


def active_profile():
    """The profile that the configuration names, its file and its settings, or one line."""
    if unknown := sorted(set(config) - {"profile", "adapter", *HUB_KEYS}):
        expected = f"profile, adapter, {', '.join(HUB_KEYS)}"
        raise UserError("config", unknown[0], "an unknown key", expected)
    name = config.get("profile")
    names = sorted(
        path.stem for path in Path(workflow.basedir, "config/profiles").glob("*.yaml")
    )
    if name not in names:
        raise UserError("config", "profile", repr(name), f"one of {', '.join(names)}")
    return name, f"config/profiles/{name}.yaml"


def adapter_source():
    """Where adapters come from: `train`, `committed`, or a file or URL; or one line.

    Those that are committed are taken unless the configuration says otherwise.
    """
    manifest = Path(f"{RESULTS}/adapters/MANIFEST.json")
    known = ("train", "committed")
    source = str(config.get("adapter") or known[manifest.exists()])
    values = {**config, "adapter": None if source in known else source}
    keys = [key for key in ("adapter", *HUB_KEYS) if values.get(key)]
    if keys and TARGET_KIND != "hub":
        other = f"a profile with a target of the hub; {PROFILE} has a {TARGET_KIND} one"
        expected = (
            f"{' or '.join(known)}, or {other}" if keys[0] == "adapter" else other
        )
        raise UserError("config", keys[0], values[keys[0]], expected)
    if source == "committed" and not manifest.exists():
        raise UserError("config", "adapter", source, f"{manifest}, which is not there")
    return source


def checked(function, *arguments):
    """Call a function; bad input ends the run with its one line."""
    try:
        return function(*arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)


PROFILE, PROFILE_FILE = checked(active_profile)
ACTIVE = checked(load_profile, PROFILE_FILE)
SETTINGS = ACTIVE.model_dump(mode="json")
# What the target and the text come from decides which rule files make them.
TARGET_KIND, CORPUS_KIND = ACTIVE.target_kind, ACTIVE.corpus_kind
LEDGER = checked(ledger.read, "prereg")
BUILD = f"build/{PROFILE}"
RESULTS = f"results/{PROFILE}"
ACT4S = f"{BUILD}/measured/act4s"
# A model that was trained here knows the register of its corpus and no other.
WORKLOAD = f"config/workloads/{'tiny' if TARGET_KIND == 'trained' else 'general'}.yaml"
TARGET_FILES = [
    f"{BUILD}/target/{name}"
    for name in (
        *("config.json", "tokenizer.json", "tokenizer_config.json"),
        *{
            "trained": ("model.safetensors", "training.json", "training.csv"),
            "packaged": ("model.safetensors", "conversion.json"),
            "hub": ("weights.json",),
        }[TARGET_KIND],
    )
]
ADAPTER_SOURCE = checked(adapter_source)
# The rule files that make adapters, for each source; a file or URL is the primary one only.
ADAPTER_RULES = {
    "train": ("adapters",),
    "committed": ("adapters_committed",),
}.get(ADAPTER_SOURCE, ("adapters", "adapter_given"))
CORPUS_FILES = [
    f"{BUILD}/corpus/{name}"
    for name in ("corpus.json", "train.npy", "dev.npy", "extract.npy", "prompts.npy")
]
# Most of MLX's CPU work is single-threaded, so steps on a tiny model run side by side; a larger
# model has the machine to itself.
MODEL_THREADS = 1 if PROFILE == "tiny" else workflow.cores


def version(script, *section):
    """Digest of what `script` runs, and of one section of the profile (all of it if none)."""
    settings = SETTINGS
    for key in section:
        settings = settings[key]
    return f"{code_digest(SCRIPTS / script)}-{files.sha256_bytes(repr(settings).encode())[:12]}"


def option(key):
    """A key of the configuration as an option of a script; nothing where it is not given."""
    return [f"--{key}", str(config[key])] if config.get(key) else []


def given(path):
    """What lies at a path that the configuration gives; an address says all in itself.

    It is no input, since a path may lead to nothing, and then the script says so in one line.
    """
    return files.stamp(path) if path else ""


def work(name, script, *section):
    """Where a long step keeps its checkpoints: never a declared output, which a rerun deletes.

    The version is in the name, so a step goes on only from what the same code and settings left.
    """
    return f"{BUILD}/work/{name}-{version(script, *section)}"


def amendments(study):
    """The amendments of a study, which change what is measured: inputs beside its plan."""
    return [str(path) for path in amendment_files("prereg", study)]


def registered(study):
    """What the ledger says of a study: a parameter of the rules that keep to its plan.

    Freezing or amending the study reruns them, since rows from before are no evidence; a line on
    another study does not, as it would if the whole ledger were an input.
    """
    names = {Path(path).name for path in (f"{study}.yaml", *amendments(study))}
    return [entry.sha256 for entry in LEDGER if entry.file in names]


def folder(paths):
    """The folder of the first of some paths: scripts take folders, rules track files."""
    return str(Path(paths[0]).parent)


def rows(name):
    """Input function: a file of a study's rows, under the evidence root that the job is for."""

    def path(wildcards):
        root = f"{BUILD}/measured" if wildcards.evidence == "measured" else RESULTS
        return f"{root}/{name}".format(**wildcards)

    return path


def metrics(wildcards):
    """The metrics of a study; rprm has a file for each of its adapters."""
    names = (
        [f"metrics_{tag}.json" for tag in TAGS]
        if wildcards.study == "rprm"
        else ["metrics.json"]
    )
    root = f"{BUILD}/{wildcards.evidence}/{wildcards.study}"
    return [f"{root}/{name}" for name in names]


def rows_of(study):
    """Input function: all that is measured in a study, under the evidence root of the job."""
    names = registry.STUDIES[study].files()
    return lambda wildcards: [rows(f"{study}/{name}")(wildcards) for name in names]


def records(*studies):
    """Input function: what a report tells of how its rows were measured."""

    def paths(wildcards):
        metas = [
            f"{study}/{name}"
            for study in studies
            for name in sorted(set(registry.STUDIES[study].metas.values()))
        ]
        if wildcards.evidence == "measured":
            return [f"{BUILD}/measured/{name}" for name in metas]
        manifests = [f"{study}/MANIFEST.json" for study in studies]
        return [f"{RESULTS}/{name}" for name in [*metas, *manifests]]

    return paths


def comparisons(*studies):
    """Input function: comparisons of measured with committed verdicts, where there is evidence."""

    def paths(wildcards):
        committed = [
            study
            for study in studies
            if Path(f"{RESULTS}/{study}/verdict.json").exists()
        ]
        return [f"{BUILD}/measured/{study}/comparison.json" for study in committed]

    return paths


def measured_studies():
    """The studies that jobs of this run measure; known once the jobs are."""
    outputs = [path for job in workflow.dag.needrun_jobs() for path in job.output]
    folders = {Path(path).parent for path in outputs}
    return tuple(
        study for study in STUDIES if Path(f"{BUILD}/measured/{study}") in folders
    )


def act4s_needs(wildcards):
    """What only one of the runs needs, by the name of the script's option."""
    return {
        "adaptive": {"ksweep": f"{ACT4S}/ksweep.csv"},
        "context": {"corpus": f"{BUILD}/corpus/prompts.npy"},
        "controls": {
            "shuffled": f"{BUILD}/adapters/primary_shuffled/adapter.safetensors"
        },
    }.get(wildcards.get("run"), {})


def act4s_options(wildcards, input):
    """Those needs as options of the script, which takes the corpus as a folder."""
    paths = dict(act4s_needs(wildcards))
    if "corpus" in paths:
        paths["corpus"] = folder([paths["corpus"]])
    return [word for name, path in paths.items() for word in (f"--{name}", path)]


def hold_run_lock():
    """Let one run at a time work in build/; the system drops the lock when the process ends."""
    global run_lock
    Path("build").mkdir(exist_ok=True)
    run_lock = open("build/.lock", "w")
    try:
        fcntl.flock(run_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(
            "error: build/.lock: another run works in this folder; wait for it",
            file=sys.stderr,
        )
        sys.exit(3)


def refuse_unplanned():
    """Before hours are spent on a study whose plan has no sample for the profile."""
    for study in measured_studies():
        require_sample(Path(f"prereg/{study}.yaml"), PROFILE)


wildcard_constraints:
    evidence="|".join(EVIDENCE),
    study="|".join(STUDIES),
    tag="|".join(TAGS),


onstart:
    hold_run_lock()
    checked(refuse_unplanned)
