"""The rules that every stored history must satisfy."""
