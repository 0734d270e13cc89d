"""Explanations of jobs and runs, from stored facts only."""
