"""Agents of other projects in a served arena: each is run by one command, and a model that is none decides."""
