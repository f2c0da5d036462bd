-- The law clv-law/1 as one statement: from the lines of events.jsonl to the rows of scores.jsonl.
-- ``lines`` is a table with one column, ``line``. All arithmetic is in integers; a condition of null does not hold.
WITH events AS (
    SELECT line ->> '$.kind' AS kind, (line ->> '$.seq')::BIGINT AS seq, line -> '$.payload' AS payload FROM lines
),
rules AS (
    SELECT unnest(from_json_strict(payload -> '$.window', '{"market_allowlist": ["VARCHAR"], "min_clv_horizon_s": "BIGINT"}')),
        (payload ->> '$.window.max_close_age_s')::BIGINT AS max_close_age_s  -- null without a limit
    FROM events WHERE kind = 'RUN_STARTED' LIMIT 1
),
decisions AS (
    SELECT seq, unnest(from_json_strict(payload, '{
        "agent_id": "VARCHAR", "fixture_id": "BIGINT", "tick_seq": "BIGINT", "ts_ms": "BIGINT",
        "action": {"type": "VARCHAR", "market_key": "VARCHAR", "side": "VARCHAR"},
        "market_state": {"sides": [{"odds_milli": "BIGINT", "prob_bps": "BIGINT", "side": "VARCHAR"}], "suspended": "BOOLEAN"},
        "untrusted": {"confidence_ppm": "BIGINT"}
    }'))
    FROM events WHERE kind = 'DECISION'
),
closes AS (
    SELECT unnest(from_json_strict(payload, '{
        "fixture_id": "BIGINT", "market_key": "VARCHAR",
        "end_seq": "BIGINT", "close_ts_ms": "BIGINT", "close_kind": "VARCHAR",
        "closing": {"sides": [{"prob_bps": "BIGINT", "side": "VARCHAR"}], "suspended": "BOOLEAN", "ts_ms": "BIGINT"}
    }'))
    FROM events WHERE kind = 'MARKET_CLOSE'
),
-- Each close is split into a row for the market and a row for each side, because joining the list of sides to every decision
-- would take much memory. Valid evidence has one close for a market. Invalid lines may repeat a close, so repeats are dropped:
-- otherwise each decision would be joined to all of them.
ends AS (
    SELECT DISTINCT ON (fixture_id, market_key)
        fixture_id, market_key, end_seq, close_ts_ms, close_kind,
        closing IS NOT NULL AS closes, closing.suspended AS close_suspended, closing.ts_ms AS closing_ts_ms
    FROM closes
),
finals AS (
    SELECT DISTINCT ON (fixture_id, market_key, side) *
    FROM (SELECT fixture_id, market_key, unnest(closing.sides, recursive := true) FROM closes)
),
positions AS (
    SELECT
        d.seq, d.agent_id, d.fixture_id, d.tick_seq, d.ts_ms, d.untrusted.confidence_ppm,
        d."action"."type" AS act, d."action".market_key AS market, d."action".side AS side,
        d.market_state, list_filter(d.market_state.sides, lambda s: s.side = d."action".side)[1] AS entry,
        c.closes, c.close_suspended, c.closing_ts_ms, f.prob_bps AS final_prob_bps, c.end_seq, c.close_ts_ms, c.close_kind
    FROM decisions AS d
    LEFT JOIN ends AS c
        ON d."action"."type" = 'BACK' AND c.fixture_id = d.fixture_id AND c.market_key = d."action".market_key
    LEFT JOIN finals AS f
        ON f.fixture_id = c.fixture_id AND f.market_key = c.market_key AND f.side = d."action".side
),
judged AS (
    SELECT *, CASE
        WHEN act = 'WAIT' THEN 'wait_unscored'
        WHEN market IS NULL THEN 'market_key_missing'
        WHEN side IS NULL THEN 'side_missing'
        WHEN len(list_filter(market_allowlist, lambda prefix: starts_with(market, prefix))) = 0 THEN 'market_not_allowed'
        WHEN tick_seq >= end_seq THEN 'outside_window'
        WHEN market_state IS NULL THEN 'entry_market_absent'
        WHEN market_state.suspended THEN 'entry_suspended'
        WHEN entry.prob_bps IS NULL THEN 'entry_side_missing'
        WHEN NOT closes THEN 'closing_market_absent'
        WHEN close_suspended THEN 'closing_suspended'
        WHEN close_ts_ms - closing_ts_ms > 1000 * max_close_age_s THEN 'closing_stale'
        WHEN final_prob_bps IS NULL THEN 'closing_side_missing'
        WHEN close_ts_ms - ts_ms < 1000 * min_clv_horizon_s THEN 'pending_horizon'
        ELSE 'scored'
    END AS reason
    FROM positions, rules
)
SELECT
    seq, agent_id, fixture_id, tick_seq, market AS market_key, side,
    reason IN ('scored', 'wait_unscored', 'pending_horizon') AS valid, reason,
    entry.prob_bps AS entry_prob_bps, entry.odds_milli AS odds_milli, final_prob_bps AS close_prob_bps,
    CASE WHEN reason = 'scored' THEN final_prob_bps - entry.prob_bps END AS clv_bps,
    CASE
        WHEN reason <> 'scored' THEN NULL
        WHEN entry.odds_milli IS NOT NULL THEN (2 * final_prob_bps * entry.odds_milli + 1000) // 2000 - 10000
        WHEN entry.prob_bps > 0 THEN (2 * final_prob_bps * 10000 + entry.prob_bps) // (2 * entry.prob_bps) - 10000
    END AS edge_bps,
    close_kind, close_ts_ms - closing_ts_ms AS closing_age_ms, confidence_ppm
FROM judged
ORDER BY seq
