"""Typer commands: parse, call one flow, render, exit code. One file for each command."""
