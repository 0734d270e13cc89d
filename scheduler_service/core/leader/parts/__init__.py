"""The parts of the leader's state, a file each. A part is written only in its own file: others read it, or call it."""
