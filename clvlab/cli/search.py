"""``clvlab sweep``: a grid of parameters, judged together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from clvlab.cli.options import (
    HORIZON_S,
    FixturesOption,
    HorizonOption,
    JsonOption,
    MarketsOption,
    NetworkOption,
    PackArgument,
    ReadsOption,
    limit_words,
    option_words,
    value_of,
    window_of,
)
from clvlab.cli.output import out, plain, print_json, say, show_next, show_table
from clvlab.cli.progress import display_progress, interruptible
from clvlab.words import counted, estimate, p_value

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.report.search import HonestSearch

_LISTED = 10


def sweep(
    pack: PackArgument,
    grid: Annotated[list[str], typer.Option(help="A parameter and its values, as name=v1,v2; may be repeated.")],
    agent: Annotated[str, typer.Option(help="Name of a template, or file.py:name.")] = "cumulative-drift",
    fixture: FixturesOption = None,
    market: MarketsOption = None,
    horizon_s: HorizonOption = HORIZON_S,
    earlier: Annotated[int, typer.Option(help="Number of your earlier trials on these fixtures; they count.", min=0)] = 0,
    reads: ReadsOption = None,
    network: NetworkOption = False,
    as_json: JsonOption = False,
) -> None:
    """Try an agent at every setting of a grid, and judge the best after correction for all trials."""
    from clvlab.agents.isolation.agent import isolated
    from clvlab.arena import packs
    from clvlab.report.search import honest_search

    values = _grid(grid)
    window = window_of(horizon_s, market)
    chosen = isolated(agent, reads=reads or [], network=network) if reads or network else agent
    with interruptible(lambda: "a sweep writes nothing"), display_progress(f"Sweep of {agent}", as_json=as_json):
        opened = packs.open_pack(pack)
        found = honest_search(opened, chosen, values, window=window, fixture_ids=fixture, earlier=earlier)
    if as_json:
        print_json({"pack_id": opened.pack_id, "content_hash": opened.content_hash, "agent": agent, **found.facts()})
        return
    options = [*option_words("--fixture", fixture), *option_words("--market", market), *limit_words(reads, network=network)]
    if horizon_s != HORIZON_S:
        options += ["--horizon-s", horizon_s]
    _show(found, agent, pack, options)


def _show(found: HonestSearch, agent: str, pack: str, options: Sequence[object]) -> None:
    from rich.table import Table

    from clvlab.report.search import point_text

    say(found.verdict.sentence, "bold")
    best = found.best
    if best is None:
        return
    passed = sum(point.p_family is not None and point.p_family < 0.05 for point in found.points)
    alone = sum(point.clv.p_value is not None and point.clv.p_value < 0.05 for point in found.points)
    say(
        f"{counted(len(found.points), 'setting')}, {counted(found.trials, 'trial')} on record: {alone} above zero uncorrected, "
        f"{passed} after correction for all trials. The corrected p is how often the best of as many trials without skill does "
        "as well."
    )
    for caution in found.cautions:
        say(caution)
    out.print()
    layout = Table(
        box=None, pad_edge=False, title=f"Best of {agent} on {plain(pack)}", title_justify="left", title_style="bold"
    )
    texts = ("parameters", "mean CLV [95 %]", "edge at the price")
    for name in (*texts, "fixtures", "p", "corrected p"):
        layout.add_column(name, justify="left" if name in texts else "right", overflow="fold")
    ranked = sorted(found.points, key=lambda point: (point.clv.low is None, -(point.clv.mean or 0.0)))
    for point in ranked[:_LISTED]:
        clv = point.clv
        spelt = (
            "none" if one.mean is None else estimate(one.mean, one.low, one.high, "" if one.low is None else unit)
            for one, unit in ((clv, "bps"), (point.edge, "%"))
        )
        p_values = (p_value(p) or "" for p in (clv.p_value, point.p_family))
        layout.add_row(plain(point_text(point)), *spelt, str(clv.n_clusters), *p_values)
    show_table(layout)
    if len(ranked) > _LISTED:
        out.print(f"and {counted(len(ranked) - _LISTED, 'setting')} more, with --json")
    params = [word for name, value in best.params.items() for word in ("--param", f"{name}={_spelt(value)}")]
    show_next("backtest", pack, "--agent", agent, *params, *options)


def _spelt(value: Any) -> str:
    """Return a value in the form that ``--param`` reads; a text that would be read as another value is quoted."""
    return value if isinstance(value, str) and value_of(value) == value else orjson.dumps(value).decode()


def _grid(pairs: list[str]) -> dict[str, list[Any]]:
    grid: dict[str, list[Any]] = {}
    for pair in pairs:
        name, equals, values = pair.partition("=")
        if not equals or not name or not all(values.split(",")):
            raise typer.BadParameter(f"{pair!r} is not name=v1,v2", param_hint="--grid")
        if name in grid:
            raise typer.BadParameter(f"{name} is given twice", param_hint="--grid")
        grid[name] = [value_of(text) for text in values.split(",")]
        twice = [value for number, value in enumerate(grid[name]) if value in grid[name][:number]]
        if twice:
            raise typer.BadParameter(f"{name}={twice[0]} is there twice: each value is one trial", param_hint="--grid")
    return grid
