"""The divergence audit of an existing row file, against the target that wrote it."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas as pd

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.measure.divergence import DivergenceAudit
from diffdraft.measure.speculative.passages import CATEGORY, passages, passages_sha256
from diffdraft.measure.speculative.protocol import BASELINE, Row
from diffdraft.measure.speculative.record import frame, text_of
from diffdraft.measure.workloads import EncodedPrompt, Workload, load_workload
from diffdraft.rows import read_rows
from diffdraft.studies.act4s.audit import counts
from diffdraft.studies.act4s.checks import check_full_length
from diffdraft.studies.act4s.design import RunDesign
from diffdraft.studies.act4s.references import check_references, reference_ids
from diffdraft.studies.act4s.study_rows import RunRows
from diffdraft.targets.load import DTYPES, Target, load_target

CELL = ["prompt_id", "prompt_tokens", "max_tokens", "dtype", "repeat"]
KEY = ["prompt_id", "category", "prompt_tokens", "max_tokens", "arm", "repeat"]
ARITHMETIC = "ARITHMETIC: every divergence is within one unit in the last place of a tie"
DEFECT = "DEFECT: at least one divergence has a clear preference of the target"
IDENTICAL = "IDENTICAL: no generation differs from the native one"


def read_generations(file: Path) -> pd.DataFrame:
    """The rows of a run, whole: no arm missing, and what they say of themselves true.

    Raises:
        UserError: a damaged file, one that is not as its meta file says, an arm that is missing
            for a prompt, or a row that misstates where it leaves the native text.
    """
    generations = read_rows(file, "generations")
    check_complete(generations, file)
    empty = pd.DataFrame()
    run = RunRows(file, RunDesign((), (), 0), generations, empty, empty)
    check_full_length(run)
    check_references(run, BASELINE)
    found = files.sha256_file(file)
    recorded = recorded_meta(file).get("rows", {}).get(file.name, found)
    if recorded != found:
        raise UserError(file, "sha256", found, f"{recorded}, as its meta file says")
    return generations


def recorded_meta(file: Path) -> dict[str, Any]:
    """What the meta file beside a row file says; nothing if there is none."""
    meta = file.with_name(f"{file.stem}_meta.json")
    found = files.read_json(meta) if meta.is_file() else {}
    for field, value in (("file", found), ("rows", found.get("rows", {}) if found else {})):
        if not isinstance(value, dict):
            raise UserError(meta, field, type(value).__name__, "a JSON object")
    return found


def check_complete(generations: pd.DataFrame, file: Path) -> None:
    """Every prompt, length, precision and repeat has every arm of the file, and every repeat.

    Raises `UserError` with the first that is missing.
    """
    arms = [BASELINE, *(arm for arm in generations["arm"].unique() if arm != BASELINE)]
    repeats = range(int(generations["repeat"].max()) + 1)
    present = set(generations[[*CELL, "arm"]].itertuples(index=False, name=None))
    texts = generations[CELL[:-1]].drop_duplicates().itertuples(index=False, name=None)
    for text in texts:
        for repeat in repeats:
            for arm in arms:
                if (*text, repeat, arm) not in present:
                    said = f"prompt {text[0]} ({text[1]} tokens), {text[2]} new, {text[3]}"
                    found = f"no {arm} for {said}, repeat {repeat}"
                    raise UserError(file, "arm", found, "every arm of the file for every prompt")


def audit_file(
    file: Path,
    target_folder: Path,
    workload_file: Path,
    corpus: Path | None,
    context_seed: int,
    tolerance: float,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The generations of a row file, and a row of `divergences` for each that differs.

    Raises:
        UserError: whatever `read_generations` refuses, another target, suite or corpus than the
            meta file names, or prompts that are not those of the file.
    """
    generations = read_generations(file)
    meta, workload = recorded_meta(file), load_workload(workload_file)
    check_origin(file, meta, workload_file, corpus)
    seed = meta.get("seeds", {}).get("context", context_seed)
    found: list[Row] = []
    for dtype, part in generations.groupby("dtype", sort=False):
        target = target_in(target_folder, str(dtype))
        named = meta.get("target_fingerprint", target.fingerprint)
        if named != target.fingerprint:
            field = "target_fingerprint"
            raise UserError(file, field, named, f"{target.fingerprint}, of {target_folder}")
        prompts = prompt_ids(part, file, target, workload, corpus, seed)
        audit = DivergenceAudit(target.model, tolerance)
        references = reference_ids(part, BASELINE)
        for record, reference in zip(part.to_dict("records"), references, strict=True):
            row = {str(name): value for name, value in record.items()}
            prompt = prompts[row["prompt_id"], row["prompt_tokens"]]
            native = [int(token) for token in reference.split()]
            check_ids(file, row, target.vocab_size)
            if measured := audit.row(prompt, native, text_of(row)):
                found.append({**measured, **{name: row[name] for name in [*KEY, "dtype"]}})
    return generations, frame(found, "divergences")


def check_origin(file: Path, meta: dict[str, Any], workload: Path, corpus: Path | None) -> None:
    """Prompts of other texts may have the same names and lengths, so their files must be the same.

    Raises `UserError` with the digest that is another one than the meta file names.
    """
    given = {"workload_sha256": (workload, files.sha256_file(workload))}
    if corpus is not None:
        given["corpus_sha256"] = (corpus, passages_sha256(corpus))
    for field, (path, found) in given.items():
        named = meta.get(field) or found
        if found != named:
            raise UserError(path, field, found, f"{named}, with which {file} was measured")


def check_ids(file: Path, row: Row, vocab_size: int) -> None:
    """Every token of a row is one of the target's."""
    for token in text_of(row):
        if token >= vocab_size:
            found = f"{token} of prompt {row['prompt_id']}, arm {row['arm']}"
            raise UserError(file, "token_ids", found, f"ids below {vocab_size}")


def target_in(folder: Path, dtype: str) -> Target:
    """The target in the precision of the rows."""
    chosen = next(name for name in DTYPES if name == dtype)
    return load_target(folder, chosen)


def prompt_ids(
    rows: pd.DataFrame,
    file: Path,
    target: Target,
    workload: Workload,
    corpus: Path | None,
    context_seed: int,
) -> dict[tuple[str, int], list[int]]:
    """Token ids of the prompts of some rows, by name and length.

    Raises `UserError` where the suite, or the passages of the corpus, are others.
    """
    known: dict[str, list[EncodedPrompt]] = defaultdict(list)
    for prompt in workload.prompts:
        encoded = list(target.tokenizer.encode(prompt.text))
        known[prompt.id].append(EncodedPrompt(prompt.id, prompt.category, encoded))
    for passage in context_passages(rows, file, corpus, context_seed):
        known[passage.id].append(passage)
    ids: dict[tuple[str, int], list[int]] = {}
    for name, tokens in zip(rows["prompt_id"], rows["prompt_tokens"], strict=True):
        if (name, tokens) in ids:
            continue
        fitting = [prompt.ids for prompt in known[name] if len(prompt.ids) == tokens]
        if not fitting:
            expected = f"a prompt of {workload.name} with as many tokens, or a passage"
            raise UserError(file, "prompt_id", f"{name} of {tokens} tokens", expected)
        ids[name, tokens] = fitting[0]
    return ids


def context_passages(
    rows: pd.DataFrame, file: Path, corpus: Path | None, seed: int
) -> list[EncodedPrompt]:
    """The passages that rows of the run `context` continue; none for other rows."""
    contexts = rows[rows["category"] == CATEGORY]
    if contexts.empty:
        return []
    if corpus is None:
        raise UserError("--corpus", "folder", "nothing", f"where the passages of {file} are")
    lengths = sorted(int(length) for length in contexts["prompt_tokens"].unique())
    drawn = passages(corpus, lengths, contexts["prompt_id"].nunique(), seed)
    return [passage for prompts in drawn for passage in prompts]


def audit_reports(generations: pd.DataFrame, divergences: pd.DataFrame, tolerance: float) -> str:
    """The report of every precision."""
    return "\n\n".join(
        f"{dtype}\n{audit_report(part, divergences[divergences['dtype'] == dtype], tolerance)}"
        for dtype, part in generations.groupby("dtype", sort=False)
    )


def audit_report(generations: pd.DataFrame, divergences: pd.DataFrame, tolerance: float) -> str:
    """Counts, both rules, and a verdict line."""
    found = counts(generations, divergences, BASELINE, tolerance)
    native = generations[generations["arm"] == BASELINE]
    same = found["identical"] == found["rows_checked"]
    verdict = IDENTICAL if same else ARITHMETIC if found["passes_ulp"] else DEFECT
    largest = found["max_gap_in_ulps"]
    lines = {
        "generations checked": found["rows_checked"],
        "identical": found["identical"],
        "divergent": found["divergent"],
        "exact ties": found["exact_ties"],
        "within one ULP, no tie": found["within_one_ulp_not_tie"],
        "beyond one ULP": found["beyond_one_ulp"],
        "largest gap in ULPs": "-" if math.isnan(largest) else f"{largest:.3g}",
        "native runs that repeat": f"{int(native['identical'].sum())}/{len(native)}",
        "rule of exact ties": "PASS" if found["passes_exact_tie"] else "FAIL",
        "rule of one ULP": "PASS" if found["passes_ulp"] else "FAIL",
    }
    width = max(map(len, lines))
    return "\n".join([*(f"{name:<{width}}  {value}" for name, value in lines.items()), verdict])
