"""Strategy templates, by name: each a typed, bounded configuration and a vectorised decision rule.

``clvlab.agents()`` lists the templates with their parameters.

Examples
--------
>>> import clvlab as cl
>>> cl.agents().frame["agent"].unique(maintain_order=True).to_list()
['baseline', 'cumulative-drift', 'sharp-momentum-v2', 'llm', 'bets']
"""
