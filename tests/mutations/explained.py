"""Mutants that no test can kill, or that none should: each with the sentence why. A name may end in `*` or hold one."""

ONE_FIELD = "both rows ask for a value of the same field, so that they never hold together"
ONE_FINDING = "a finding has exactly one thing that was looked at, so that the two rows never hold together"

EXPLAINED: dict[str, str] = {
    # --- rows whose order does not matter -----------------------------------------------------------------------------
    "recovery.open_compaction_live: swapped": ONE_FIELD,
    "emission.recorded: swapped": ONE_FIELD,
    "emission.compensated: swapped": ONE_FIELD,
    "emission.send_again: swapped": ONE_FIELD,
    "look-alike.none: swapped": ONE_FIELD,
    "look-alike.parallel: swapped": ONE_FIELD,
    "look-alike.allowed_by_policy: swapped": ONE_FIELD,
    "integrity.in_progress: swapped": ONE_FINDING,
    "integrity.altered: swapped": "an altered row has its content, a phantom deletion has not or is a gap: they never hold together",
    "integrity.mixed_generation: swapped": ONE_FINDING,
    "integrity.leftover: swapped": ONE_FINDING,
    "integrity.chain_broken: swapped": ONE_FINDING,
    "integrity.manifest_mismatch: swapped": ONE_FINDING,
    "retention.empty_run: swapped": "no need meets a run that holds no row, so that the two rows never hold together",
}
