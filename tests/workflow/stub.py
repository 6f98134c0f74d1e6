"""Stands in for every script of a rule: writes the files that the rule declares, and no more.

The stub named in STUB_SLOW takes a minute; one with `--work` leaves a checkpoint there first; the
one that times prints how many threads a BLAS of any kind would take.
"""

import itertools
import os
import sys
import time
from pathlib import Path

IN_FOLDER = {
    "build_corpus": "tokenizer.json tokenizer_config.json corpus.json "
    "train.npy dev.npy extract.npy prompts.npy",
    "train_target": "config.json model.safetensors tokenizer.json tokenizer_config.json "
    "training.json training.csv",
    "train_adapter": "adapter.safetensors training.csv training.json",
    "take_adapter": "adapter.safetensors training.csv training.json",
    "analyse_rprm": "analysis_{tag}.json metrics_{tag}.json quintiles_{tag}.csv "
    "within_offset_{tag}.csv calibration_{tag}.csv roc_{tag}.csv pr_{tag}.csv",
    "analyse_paired_timing": "analysis.json metrics.json",
    "analyse_act4s": "analysis.json metrics.json summary.csv by_category.csv histogram.csv "
    "survival.csv slot_break_even.csv confidence_bins.csv policy_choices.csv degeneration.csv "
    "loop_phases.csv cost_curve.csv cost_parts.csv cost_model.csv audit.csv ties_summary.csv",
    "measure_act4s": "{run}.csv {run}_cycles.csv {run}_divergences.csv {run}_meta.json",
    "published": "verdict.json comparison.json readings.json",
    "report": "index.html summary.md figures/one.png",
}

name = Path(sys.argv[0]).stem
words = sys.argv[1:]
options = {key[2:]: value for key, value in itertools.pairwise(words) if key[:2] == "--"}
if "work" in options:
    checkpoint = Path(options["work"]) / "checkpoint"
    print("resumed" if checkpoint.exists() else "started", flush=True)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.touch()
if name == "time_paired":
    print(*(os.environ[f"{blas}_NUM_THREADS"] for blas in ("OPENBLAS", "OMP", "MKL")))
if os.environ.get("STUB_SLOW") == name:
    time.sleep(60)
more = {"confidence": " {run}_slots.csv", "precision": " ties.csv"}
IN_FOLDER["measure_act4s"] += more.get(options.get("run", ""), "")
if name in IN_FOLDER:
    folder = Path(options.get("out-dir") or options["out"])
    outputs = [folder / file.format(**options) for file in IN_FOLDER[name].split()]
else:
    outputs = [Path(options[key]) for key in ("out", "meta", "timing", "cycles") if key in options]
for output in outputs:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(name)
