"""Flower behind a guard of our own: who may reach it, and how the dashboard's users log in with one click."""
