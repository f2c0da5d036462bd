"""Accounts of TxLINE's program on a chain: each day's holds the roots of the day's batches of five minutes.

Address and content are as open clients of the program read them, and unconfirmed: the address is derived from the seeds
``daily_batch_roots`` and the day since the epoch in two bytes, and a root stands in the data as 32 bytes, wherever that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from solders.pubkey import Pubkey

from clvlab.anchor.anchorer import blocking
from clvlab.anchor.chain import Chain
from clvlab.anchor.settings import AnchorSettings
from clvlab.errors import AnchorError

_SEED = b"daily_batch_roots"


def account_of(day: int, program: str) -> Pubkey:
    """Return the address of the account of a day since the epoch; ``AnchorError`` if ``program`` is no address."""
    try:
        return Pubkey.find_program_address([_SEED, day.to_bytes(2, "little")], Pubkey.from_string(program))[0]
    except (ValueError, OverflowError) as error:
        raise AnchorError(f"no program {program!r:.80}, or no day {day}: {error}") from error


def roots_missing(settings: AnchorSettings, batches: Mapping[int, frozenset[bytes]]) -> list[str]:
    """Return a sentence for each day whose account the chain lacks, or whose account lacks a root of that day.

    Raises
    ------
    AnchorUnavailableError
        The node does not answer.
    AnchorError
        No node is named, or it is of another chain.
    """
    return blocking(lambda: asyncio.run(_missing(settings, batches)))


async def _missing(settings: AnchorSettings, batches: Mapping[int, frozenset[bytes]]) -> list[str]:
    missing, expected = [], settings.trust().genesis[settings.cluster]
    async with Chain(settings) as chain:
        genesis = await chain.genesis_hash()
        if genesis != expected:
            raise AnchorError(f"{settings.rpc_url} is not {settings.cluster}: its genesis hash is {genesis}, not {expected}")
        for day, roots in batches.items():
            address = account_of(day, settings.txline_program)
            data = await chain.account(address, settings.txline_program)
            lost = sum(root not in data for root in roots) if data is not None else len(roots)
            if lost:
                what = "lacks" if data is not None else f"is not there, or not of {settings.txline_program}, for"
                missing.append(f"the account {address} of day {day} {what} {lost} of {len(roots)} roots")
    return missing
