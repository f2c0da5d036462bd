"""Packs: frozen, hash-verified ticks on disk. The only code that touches pack files.

A call of the module lists the packs that can be opened by name.

Examples
--------
>>> import clvlab as cl
>>> cl.packs().frame.select("pack_id", "fixtures").rows()
[('season', 300), ('starter', 12)]
"""
