"""The index of coming occurrences: the schedule table, its expansion, its snapshots."""
