"""A backtest in marimo: ``marimo run notebooks/explore_in_marimo.py``, or ``marimo edit`` to change it."""

import marimo

app = marimo.App(width="medium", app_title="A backtest in marimo")


@app.cell
def _():
    import marimo as mo

    import clvlab as cl

    return cl, mo


@app.cell
def _(mo):
    mo.md("""
    # A backtest in marimo

    Choose an agent. The card, the explorer and the proof follow.
    """)


@app.cell
def _(mo):
    agent = mo.ui.dropdown(["cumulative-drift", "baseline"], value="cumulative-drift", label="Agent")
    agent
    return (agent,)


@app.cell
def _(agent, cl):
    bt = cl.backtest("starter", agent.value)
    bt
    return (bt,)


@app.cell
def _(bt):
    bt.explore()


@app.cell
def _(bt):
    bt.run.verify()


@app.cell
def _(bt):
    bt.run.merkle_path(5)


if __name__ == "__main__":
    app.run()
