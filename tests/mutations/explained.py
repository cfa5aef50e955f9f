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
    # --- steps that another check makes too ---------------------------------------------------------------------------
    "effects: a dead holder is taken for live": "a dead holder's effect is presented as *unknown* before the rule is asked",
    "log: a state of another session is believed": "its digest is that of another chain, and the chain's place is compared, too",
    "log: a state of another seq is believed": "the digest of another seq is compared with that of this row, too",
    "packing: the digests of before and after are not compared": "each body was compared with its row when its segment was read back",
    "removal: pinned turns may be pruned": "a pinned turn stands in the view, and the view keeps it",
    "removal: purges before the fork are carried out in it again": "there is nothing left of them to be erased",
    "spilling: a spilled turn that reads back otherwise is believed": "a row with another digest breaks the chain, and the read refuses it",
    "travel: another seq's state is taken for the checkpoint's": "a state's digest covers its seq, and the digest is compared, too",
    "travel: a compaction in flight at the target is in flight again": "the fold voids it; without it the entry is smaller",
    # --- expressions --------------------------------------------------------------------------------------------------
    "fold.py::_chained: return after -> pass": "the same chains are written anew",
    "rules/cut.py::spill_cut: any(t.id in why for t in u.turns) -> *": "what protects one turn of a unit protects the whole unit",
    'rules/completion.py::false_completion: return "" -> pass': "where no effect is open nothing is sought in the text",
    "rules/integrity.py::conclude: max(len(first.ids)*": "what is joined is cut to that length anyway; this only saves the work",
    "rules/rollback.py::_above: isinstance(effect_id, str) and *": "ids of another type than the ledger's are refused before",
    "holder.py::SystemClock.boot: hasattr(time, *": "the two clocks differ only on a machine that slept",
    "holder.py::new_holder: _start_of(pid) or 0 -> *": "where a process has no start time it is told by its id alone",
    "holder.py::_boot_id: path.exists() -> *": "where a machine has no boot id a lease is judged by its deadline alone",
}
