"""Packs and runs in one place, and the verbs over them: here, or at a service."""
