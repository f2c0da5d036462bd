CREATE FUNCTION public.log_is_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the run log is append-only'; END $$;
CREATE TABLE public.agent_errors (
    run_id text NOT NULL,
    agent_id text NOT NULL,
    error text NOT NULL,
    message text NOT NULL
);
CREATE TABLE public.agent_results (
    run_id text NOT NULL,
    agent_id text NOT NULL,
    owner text NOT NULL,
    decision_count bigint NOT NULL,
    action_count bigint NOT NULL,
    valid_count bigint NOT NULL,
    invalid_count bigint NOT NULL,
    total_clv_bps bigint NOT NULL,
    sim_pnl bigint NOT NULL,
    forecasts bigint NOT NULL,
    squared_error bigint NOT NULL,
    max_drawdown bigint NOT NULL,
    fixtures bigint NOT NULL,
    proof_mode text NOT NULL,
    source_mode text NOT NULL,
    failing boolean NOT NULL
);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.anchors (
    run_id text NOT NULL,
    status text NOT NULL,
    cluster text NOT NULL,
    signature text,
    explorer_url text,
    updated_ts_ms bigint NOT NULL,
    record text
);
CREATE TABLE public.backtest_requests (
    key text NOT NULL,
    run_id text NOT NULL,
    given boolean NOT NULL,
    active boolean NOT NULL,
    created_ts_ms bigint NOT NULL
);
CREATE TABLE public.competition_events (
    competition_id text NOT NULL,
    first_seq bigint NOT NULL,
    count bigint NOT NULL,
    kind text,
    run_id text NOT NULL,
    ts bigint NOT NULL,
    events text NOT NULL
);
CREATE TABLE public.competitions (
    competition_id text NOT NULL,
    owner text NOT NULL,
    status text NOT NULL,
    config text NOT NULL,
    roster_size integer NOT NULL,
    pack_id text,
    fixture_id bigint,
    content_hash text,
    run_id text,
    cause text,
    claimed_from text,
    started_seq bigint,
    next_seq bigint NOT NULL,
    created_ts_ms bigint NOT NULL
);
CREATE TABLE public.counted_fixtures (
    owner text NOT NULL,
    agent_id text NOT NULL,
    content_hash text NOT NULL,
    fixture_id bigint NOT NULL,
    run_id text NOT NULL
);
CREATE TABLE public.held_out (
    plan_id text NOT NULL,
    digest text NOT NULL
);
CREATE TABLE public.idempotency (
    owner text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    instance_id text NOT NULL,
    created_ts_ms bigint NOT NULL
);
CREATE TABLE public.instances (
    instance_id text NOT NULL,
    owner text,
    template text NOT NULL,
    run_id text NOT NULL,
    record text NOT NULL,
    next_event_id bigint NOT NULL,
    created_ts_ms bigint NOT NULL
);
CREATE TABLE public.jobs (
    job_id bigint NOT NULL,
    kind text NOT NULL,
    run_id text NOT NULL,
    payload text NOT NULL,
    status text NOT NULL,
    attempt integer NOT NULL,
    leased_ts_ms bigint,
    lease_until_ts_ms bigint,
    cause text,
    created_ts_ms bigint NOT NULL,
    postponed integer DEFAULT 0 NOT NULL,
    progress text
);
CREATE SEQUENCE public.jobs_job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.jobs_job_id_seq OWNED BY public.jobs.job_id;
CREATE TABLE public.log_entries (
    idx bigint NOT NULL,
    kind text NOT NULL,
    run_id text NOT NULL,
    owner text NOT NULL,
    commit_index bigint,
    entry bytea NOT NULL,
    content_hash text
);
CREATE TABLE public.log_nodes (
    level integer NOT NULL,
    idx bigint NOT NULL,
    hash bytea NOT NULL
);
CREATE TABLE public.plans (
    plan_id text NOT NULL,
    content_hash text NOT NULL,
    idx bigint NOT NULL,
    opened boolean NOT NULL,
    trials_before bigint NOT NULL,
    payload text NOT NULL,
    created_ts_ms bigint NOT NULL
);
CREATE TABLE public.receipts (
    run_id text NOT NULL,
    first_line bigint NOT NULL,
    lines bytea NOT NULL,
    size bigint
);
CREATE TABLE public.reports (
    backtest_id text NOT NULL,
    run_id text NOT NULL,
    pack_id text NOT NULL,
    fixture_id bigint,
    created_ts_ms bigint NOT NULL,
    report text NOT NULL
);
CREATE TABLE public.roster (
    competition_id text NOT NULL,
    agent_id text NOT NULL,
    "position" integer NOT NULL,
    roster_size integer NOT NULL,
    strategy text NOT NULL,
    config text NOT NULL,
    config_hash text NOT NULL,
    proof_mode text NOT NULL,
    instance_id text,
    CONSTRAINT ck_roster_within_size CHECK (("position" < roster_size))
);
CREATE TABLE public.run_chunks (
    run_id text NOT NULL,
    part text NOT NULL,
    first_line bigint NOT NULL,
    lines bytea NOT NULL,
    size bigint
);
CREATE TABLE public.runs (
    run_id text NOT NULL,
    kind text NOT NULL,
    origin_id text,
    status text NOT NULL,
    source_mode text NOT NULL,
    mode_label text NOT NULL,
    lineage text NOT NULL,
    cause text,
    created_ts_ms bigint NOT NULL,
    sealed_ts_ms bigint,
    evidence_hash text,
    manifest_hash text,
    manifest bytea,
    checks text,
    metrics text,
    commit_index bigint,
    owner text,
    pack_id text,
    content_hash text,
    checked_ts_ms bigint,
    ranked boolean DEFAULT true NOT NULL,
    stored_bytes bigint
);
CREATE TABLE public.runtime_events (
    instance_id text NOT NULL,
    id bigint NOT NULL,
    type text NOT NULL,
    agent_id text NOT NULL,
    run_id text NOT NULL,
    session_id text NOT NULL,
    ts bigint NOT NULL,
    payload text NOT NULL
);
CREATE TABLE public.standings (
    owner text NOT NULL,
    agent_id text NOT NULL,
    "position" bigint NOT NULL,
    decision_count bigint NOT NULL,
    action_count bigint NOT NULL,
    valid_count bigint NOT NULL,
    invalid_count bigint NOT NULL,
    total_clv_bps bigint NOT NULL,
    sim_pnl bigint NOT NULL,
    forecasts bigint NOT NULL,
    squared_error bigint NOT NULL,
    max_drawdown bigint NOT NULL,
    runs bigint NOT NULL,
    counted_runs bigint NOT NULL,
    verified_runs bigint NOT NULL,
    live_runs bigint NOT NULL,
    failing_runs bigint NOT NULL,
    anchored_runs bigint NOT NULL,
    pending_runs bigint NOT NULL
);
CREATE TABLE public.trials (
    trial_id text NOT NULL,
    content_hash text NOT NULL,
    created_ts_ms bigint NOT NULL
);
CREATE TABLE public.turns (
    owner text NOT NULL,
    turn bigint NOT NULL
);
CREATE TABLE public.uploads (
    owner text NOT NULL,
    pack_id text NOT NULL,
    content_hash text NOT NULL,
    provenance text NOT NULL,
    is_genuine boolean NOT NULL,
    fixtures text NOT NULL,
    bytes bigint NOT NULL,
    entry text NOT NULL,
    created_ts_ms bigint NOT NULL
);
CREATE TABLE public.usage (
    owner text NOT NULL,
    bytes bigint NOT NULL
);
ALTER TABLE ONLY public.jobs ALTER COLUMN job_id SET DEFAULT nextval('public.jobs_job_id_seq'::regclass);
INSERT INTO public.agent_results VALUES ('run_50946e62e9ce4f29b6134e7177717905', 'baseline', 'did:example:alice', 5, 4, 4, 1, -160, -1907, 0, 0, -321, 1, 'reproducible', 'replay', false);
INSERT INTO public.alembic_version VALUES ('0010');
INSERT INTO public.anchors VALUES ('run_50946e62e9ce4f29b6134e7177717905', 'not_anchored', 'devnet', NULL, NULL, 1795674711173, NULL);
INSERT INTO public.competition_events VALUES ('comp_133230e4d8af4ccc8b3e6125a74f5056', 0, 1, 'COMPETITION_STARTED', 'run_50946e62e9ce4f29b6134e7177717905', 1795674710150, '[["COMPETITION_STARTED",false,{"agents":[{"agent_id":"baseline","strategy":"baseline","config":{},"config_hash":"sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed","proof_mode":"reproducible","instance_id":null,"unused_keys":[]}],"window":{"window_id":"full","end_rule":"pre_match","duration_s":null,"min_clv_horizon_s":60,"market_allowlist":[""],"closing_policy":"last_state"},"policy_hash":"sha256:7a63c478205316c45b469d33310c7ae861de134c11256de434437b99be69c8c2","replay_binding":{"pack_id":"starter","fixture_id":90000000,"content_hash":"sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0"}}]]');
INSERT INTO public.competition_events VALUES ('comp_133230e4d8af4ccc8b3e6125a74f5056', 1, 15, NULL, 'run_50946e62e9ce4f29b6134e7177717905', 1795674711083, '[["AGENT_ACTION",true,{"run_seq":1,"agent_id":"baseline","fixture_id":90000000,"tick_seq":1,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5","side":"part2","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 5622 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":1,"agent_id":"baseline","fixture_id":90000000,"tick_seq":1,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":1,"agent_id":"baseline","fixture_id":90000000,"tick_seq":1,"ts_ms":1767012359276,"valid":true,"reason":"scored","entry_prob_bps":5622,"odds_milli":1733,"close_prob_bps":5375,"clv_bps":-247,"edge_bps":-685,"close_kind":"in_running","closing_age_ms":25363}],["AGENT_ACTION",true,{"run_seq":2,"agent_id":"baseline","fixture_id":90000000,"tick_seq":2,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"OVERUNDER_PARTICIPANT_GOALS||line=1.5","side":"over","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 6944 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":2,"agent_id":"baseline","fixture_id":90000000,"tick_seq":2,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":2,"agent_id":"baseline","fixture_id":90000000,"tick_seq":2,"ts_ms":1767012359276,"valid":false,"reason":"closing_suspended","entry_prob_bps":6944,"odds_milli":1380,"close_prob_bps":null,"clv_bps":null,"edge_bps":null,"close_kind":"in_running","closing_age_ms":44385}],["AGENT_ACTION",true,{"run_seq":3,"agent_id":"baseline","fixture_id":90000000,"tick_seq":3,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"OVERUNDER_PARTICIPANT_GOALS||line=2.5","side":"under","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 5371 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":3,"agent_id":"baseline","fixture_id":90000000,"tick_seq":3,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":3,"agent_id":"baseline","fixture_id":90000000,"tick_seq":3,"ts_ms":1767012359276,"valid":true,"reason":"scored","entry_prob_bps":5371,"odds_milli":1804,"close_prob_bps":5325,"clv_bps":-46,"edge_bps":-394,"close_kind":"in_running","closing_age_ms":56833}],["AGENT_ACTION",true,{"run_seq":4,"agent_id":"baseline","fixture_id":90000000,"tick_seq":4,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"OVERUNDER_PARTICIPANT_GOALS||line=3.5","side":"under","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 7498 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":4,"agent_id":"baseline","fixture_id":90000000,"tick_seq":4,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":4,"agent_id":"baseline","fixture_id":90000000,"tick_seq":4,"ts_ms":1767012359276,"valid":true,"reason":"scored","entry_prob_bps":7498,"odds_milli":1276,"close_prob_bps":7470,"clv_bps":-28,"edge_bps":-468,"close_kind":"in_running","closing_age_ms":27785}],["AGENT_ACTION",true,{"run_seq":5,"agent_id":"baseline","fixture_id":90000000,"tick_seq":5,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5","side":"under","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 6774 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":5,"agent_id":"baseline","fixture_id":90000000,"tick_seq":5,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":5,"agent_id":"baseline","fixture_id":90000000,"tick_seq":5,"ts_ms":1767012359276,"valid":true,"reason":"scored","entry_prob_bps":6774,"odds_milli":1390,"close_prob_bps":6935,"clv_bps":161,"edge_bps":-360,"close_kind":"in_running","closing_age_ms":6044065}]]');
INSERT INTO public.competition_events VALUES ('comp_133230e4d8af4ccc8b3e6125a74f5056', 16, 1, 'SCORE_UPDATE', 'run_50946e62e9ce4f29b6134e7177717905', 1795674711173, '[["SCORE_UPDATE",false,{"rank":1,"agent_id":"baseline","total_clv_bps":-160,"mean_clv_bps":-40.0,"valid_count":4,"action_count":4,"sim_pnl":-1907,"proof_mode":"reproducible"}]]');
INSERT INTO public.competition_events VALUES ('comp_133230e4d8af4ccc8b3e6125a74f5056', 17, 1, 'PROOF_ANCHOR', 'run_50946e62e9ce4f29b6134e7177717905', 1795674711173, '[["PROOF_ANCHOR",false,{"anchor_status":"not_anchored","signature":null,"cluster":"devnet","explorer_url":null,"manifest_hash":"sha256:ba1dc75ccb1bbe0d93aba88e3b71dba5a20753ca7489c10e0f27a2bb0e269c4f"}]]');
INSERT INTO public.competition_events VALUES ('comp_133230e4d8af4ccc8b3e6125a74f5056', 18, 1, 'COMPETITION_FINALIZED', 'run_50946e62e9ce4f29b6134e7177717905', 1795674711173, '[["COMPETITION_FINALIZED",false,{"status":"finalized","evidence_hash":"sha256:231caa4ecf2db568cf5c13216b1a2f23ebc3ffcd9899cc6aa418e3feb45e58c8","manifest_hash":"sha256:ba1dc75ccb1bbe0d93aba88e3b71dba5a20753ca7489c10e0f27a2bb0e269c4f"}]]');
INSERT INTO public.competitions VALUES ('comp_133230e4d8af4ccc8b3e6125a74f5056', 'did:example:alice', 'finalized', '{"competition_type":"arena","source_mode":"replay","market_scope":"all","roster_size":2,"execution_mode":"paper","pack_id":"starter","fixture_id":90000000,"scoring_window":null,"division":null}', 2, 'starter', 90000000, 'sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0', 'run_50946e62e9ce4f29b6134e7177717905', NULL, 'draft', 0, 19, 1795674709992);
INSERT INTO public.counted_fixtures VALUES ('did:example:alice', 'baseline', 'sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0', 90000000, 'run_50946e62e9ce4f29b6134e7177717905');
INSERT INTO public.jobs VALUES (1, 'competition', 'run_50946e62e9ce4f29b6134e7177717905', '{"origin_id":"comp_133230e4d8af4ccc8b3e6125a74f5056"}', 'done', 1, 1795674710307, 1795674740307, NULL, 1795674710150, 0, NULL);
INSERT INTO public.log_entries VALUES (0, 'COMMIT', 'run_50946e62e9ce4f29b6134e7177717905', 'did:example:alice', NULL, '\x7b22636f6e74656e745f68617368223a227368613235363a62353361333935613063623062346337376262303932303664613436313861653262363065613333383732326361326262386164333363656263353638636430222c22696e707574735f68617368223a227368613235363a35303934366536326539636534663239623631333465373137373731373930353462363066303861613334333439646131313365623235366638326134373361222c226b696e64223a22434f4d4d4954222c226f776e6572223a226469643a6578616d706c653a616c696365222c2272756e5f6964223a2272756e5f3530393436653632653963653466323962363133346537313737373137393035222c22736368656d61223a22636c766c61622d6c6f672f32222c2274735f6d73223a313739353637343731303135307d', 'sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0');
INSERT INTO public.log_entries VALUES (1, 'RESULT', 'run_50946e62e9ce4f29b6134e7177717905', 'did:example:alice', 0, '\x7b22636f6d6d69745f696e646578223a302c226b696e64223a22524553554c54222c226d616e69666573745f68617368223a227368613235363a62613164633735636362316262653064393361626138386533623731646261356132303735336361373438396331306530663237613262623065323639633466222c2272756e5f6964223a2272756e5f3530393436653632653963653466323962363133346537313737373137393035222c22736368656d61223a22636c766c61622d6c6f672f32222c2274735f6d73223a313739353637343731313137337d', 'sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0');
INSERT INTO public.log_nodes VALUES (0, 0, '\x7a047321361afa940429cbb7ad5bd6aa3215f175b647163815883d7f8cb38813');
INSERT INTO public.log_nodes VALUES (0, 1, '\x1e69f25a5b04e463e1855db503bafdd3147c8363b3493c06e1b49fcb563b051a');
INSERT INTO public.log_nodes VALUES (1, 0, '\x68473794171b2c87e6ffea0599d3e4897e28eba84c2d870231ad8818dd6abe14');
INSERT INTO public.receipts VALUES ('run_50946e62e9ce4f29b6134e7177717905', 0, '\xcd924d0e83201085f73dc6ac59f0a3205ec6a08c86d4a215ecc6f4ee1ded01ecae2e4826c0bc791f8f0ddc803137c1430dad4b388688c0c0631752986293f009b56010f7ba9b961007a8f3b22283c9fbd43cc23806ba619462b0acf1abb41725b785462dd17658f4d2b65aa8028d308696e5254d49d9dd919a393feabc2672d193227a3acda44e1bc268c38554a595463378615ca9076637e302efdbf613813c275015b9b82e013def5906152fae4c40e6ce088e84af9b41794ea0ec9f7ed107a269b763ca030000', 970);
INSERT INTO public.roster VALUES ('comp_133230e4d8af4ccc8b3e6125a74f5056', 'baseline', 0, 2, 'baseline', '{}', 'sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed', 'reproducible', NULL);
INSERT INTO public.run_chunks VALUES ('run_50946e62e9ce4f29b6134e7177717905', 'events', 0, '\xcd595d6fdb36147ddfaf08f4ec6e22299192813eb849b005ed9222c9f652140445d18910d952f5d1244dfbdf7748c991943a693b74f10204b0297edc7beeb9e7ead277de55b64ebdb977fad7b13c3b5f9c9e1f1e7833af54b779a1307ee7a90bb36e6a6ffeaeff28333b3d51b5c9b3b5c15cadda5ae559738be1c6acca5c356eb8582fb30bbbc34a5557c66de179ef67de2a5bcbb22a129994d836f47d7fe6d58dba32de9cd8cfd7aa5ab5a56c327d85e7fe179ce0b69297aabec419f5a5a2219f074cf891d15cd120e251ca7d21423f0d965409b6644c2b96c4694a45c248181a9fead404c4248cb380c5a149ad9755512ce5aa4871b457197c4d5b9d25b935bf2eda4a1bd91de6cdd76d9e5b332b3877613d1d01b019951f4d5567c51a4f89f7059e2680365b3b0ce042031c1ff890844cc118e5ebc44f022d4492f831f579aa024e226568c27da3188b04a55ad12489540ad74ca2431ee9d4879dcbeca6692b83a8d818c540d3fee1f052e9ab2e5600b76a4ce501c93ed8ba5895a6c91a6beccccbd5f5c8749d7f7c8191df089e586864ae1293c3a757d8b0317583f1a2ca2e1045c704bb97248c51e69b208dd432d05a4709339cd050896019fa21c79ab2c8330de4ee10ce224f8bebb5b4e19d79e6c6e8d69ab28944a94a586b8dcd73595f678d46d8972aaf0d2c725c922acf8beb3c8331f3771da9d48d343765515b2cb05cf6b86c22b77af8bcdb68fcb8a852c46f3c32b034c69f3dfc467e688bc6482485b51e7077a3759e95a51d749c7634b693075abb8980cca49b491da3a6c94066a0e18736830fee1c6fde542dbcaef5a55929c400c141385e7458ba107d34eb16f68cf1e8f00305becea46ee103160ac5990e4444fd9011ae833009780c9e31e26ba14cc4496a080b34414039b28805c8bd248e13c3631d698a50556dcf06fb21f4e3801b4e4dac0df2314e38561b4184c07fec8798ffd0212c73def45937a464ae6e31fd1a89545c3beee4458d94921b3681bc756371769a93b6c84fcba4fb309a752aab16193d47b61bb952964c4fd0082102c6f2120cffd4edc3ad24b9f33bbe2fa104de17e4526d3e5879fae56e93550787fb47674727c7d87fac9fdaa519789f67abac91459ad672056a6703d5ac3eca2b6375657176b438fe63717c70b4bf782bdf42908ff68fde2e8ecfe5ef278b37679f3f5bd57df9c2ffd5c19839e92a91df360a03dd665e735b5aa75f2df65fdbc4772ade393052ae413c1c979d74dc83d381da5500b9ea72b5c681f8845a307683521a3a35ed351df48860cd601ce470365d420463e32521a774b2843a05addbba4408a1d61b01b065413ae8912c0d9084394470e113cac2980a0e6737e4b8c3272b11a85c363fec2e5d3e5546d5c5da3af2de4eaf80d4937330e99be7cebc768dddebc61e0391cb55b632e95709ef6a596ad6a82d65b9da5060345a2910bd1387ce4c4431cfae506da1bd7b16d43dd5ec2db3ca7dbbb86c667b16bc3dab3cf7b4243f9b96277f1fe20de1e0f0f4514a9231230b94c21d1292b008593bc8378f83e09e5dceb6877c64844d28cc50b4ee57b46020cae77b0c3cc147f077277c7ce4dc1df2d1c23de5237d7e3ed2311fbb08227ea3f7cc6755483f9ec85dc029de277a85dc4a4812f9a0ec40e19009085ebfe2fb0889137742c847cedd21212d785342b2e72724fb3f11924574422f1afa43fddd4e48d4d6312145100f45fefb0889137742c847cedd21212d78534206cf49c84b952f5f92ee557252b777ae9331812e0eaac7281dcaf0765ab2785aea8540b87f482751f87742cb47cedd212d39c09bd2321cd1f2cfc5e9ebc373b9ffe6e4ec70dae368746546f6970b68a1d0ceadedc507ae6edc9311bc2c0c2965248076d867fdf5888dd796be8210d4bc810da89ac0ac8fad6d7ab6f4151111e32550fee9926ff715d4b6fa538b492c4414a20bb0eda46b3e986de89f6c9f7eb89dc3f66e6bbe4bc8996fd367809cf97cc0ef91040c2729cb63fb26fd43094839927c8c7810db8b8288fd1bc49fea541eeade0672b14bc8bb5e6f80bcbf6aecbae7ad903fb9626b29eedadea187a531b2648c7818121109fed3111f6acc06eb68975853dfbe450f58077c240f5bb1261181540d2b4236d2a0ad58f7379563b0a72f209040c239aea57f36bd3bb06de3b3013bde25d8b8059a68090d1944b35786ed60d3086fa103d82210c38aef051be17ac0ec38c4adff7f03b67da9df804dc69781eef794c3c59bad3fa748535585bd6b8677a9d199fdd500dfa09bfdfdb62b9b76e47e6fdce8fc03cfaaaa1eac190000', 6572);
INSERT INTO public.run_chunks VALUES ('run_50946e62e9ce4f29b6134e7177717905', 'scores', 0, '\xadd4cd6ee2301000e0fb3e86cf64156cc74e907a88da6a17a9a288fe5cad404cd7c238a99da0adda7df79d348126400452e1829831cef89b71de51f2224d21548a46689e38a995916880163a7352ac94a9e2ca085b1aa3cccb2e93db6c2ee6b943a380f0a05e0f7901bb893544714018a9c29b7a958729879f9959aa549a851479be4623536a3d4032853f7deee5b110f6827aec9b683d81613c404bf5b728adfcac34f2ebcf00ad13bb928558c937a8337e18c793dff1e4667c1d4fc5349e3d8eafc7d378f2287eddc7770f1f1fd5e1ae3cff6700e7c8d2d489b5d25aa1d1901328d6cac46506f6718bccca14d638f90a49f886a2219e27b6c0102ed46225b6b94da22bbcc296f2df8ff76f73d624157f9b935252c9ec389b5527381bde3d4e16517a16e7fdf3edec6972733beba51c1e4a92d06f496ecfe14a974b937ea142431bd46c236dc714528de932d1ee22a801c14766346061d5f61daa47d919234a22d03b1851c2614cce18d1d3a6f8d034f4e1913dd3090768204bf0ed4a42eec2d3c92987f66ebbbabbec9c77a6d3c3e1199094c1aa7d484e23885e04921c42620e1dee8104e25e48c85d189245e4c844329f529fb52ffa90c15c9d7c6d12065dd9a7649c43dddfa4fc93e8e5d5b07e711ebbed51fbb677df9b708c5e50c87540ff039fbe8a3387060000', 1671);
INSERT INTO public.runs VALUES ('run_50946e62e9ce4f29b6134e7177717905', 'competition', 'comp_133230e4d8af4ccc8b3e6125a74f5056', 'sealed', 'replay', 'Backtest', '{"template":"baseline","config_hash":"sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed","policy_hash":"sha256:7a63c478205316c45b469d33310c7ae861de134c11256de434437b99be69c8c2","agents":[{"agent_id":"baseline","strategy":"baseline","strategy_version":"1","config":{"markets":[""],"stake":100,"warmup_ticks":0,"min_prob_bps":5000},"config_hash":"sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed","proof_mode":"reproducible","causality":"template","source_sha256":null}]}', NULL, 1795674710150, 1795674711173, 'sha256:231caa4ecf2db568cf5c13216b1a2f23ebc3ffcd9899cc6aa418e3feb45e58c8', 'sha256:ba1dc75ccb1bbe0d93aba88e3b71dba5a20753ca7489c10e0f27a2bb0e269c4f', '\x7b22636f6d6d69745f696e646578223a302c22636f6e6669675f68617368223a227368613235363a34333730386563366132343836386436303737353064346632613733663333636133623964643237623331353565303263646534316562333633343339356564222c22636f6e74656e745f68617368223a227368613235363a62353361333935613063623062346337376262303932303664613436313861653262363065613333383732326361326262386164333363656263353638636430222c226576656e745f636f756e74223a31322c2265766964656e63655f68617368223a227368613235363a32333163616134656366326462353638636635633133323136623161326632336562633366666364393839396363366161343138653366656234356535386338222c2265766964656e63655f726f6f74223a227368613235363a39636434323464316465386531363561383137323265623265393437323630366535363631353666653162646535333663303736363932323138323631373330222c226c61775f76657273696f6e223a22636c762d6c61772f31222c22706f6c6963795f68617368223a227368613235363a37613633633437383230353331366334356234363964333333313063376165383631646531333463313132353664653433343433376239396265363963386332222c2272756e5f6964223a2272756e5f3530393436653632653963653466323962363133346537313737373137393035222c22736368656d61223a22636c766c61622d6d616e69666573742f31222c2273636f72655f726f6f74223a227368613235363a33336239343265323630663831383034303739323030353163346133363461306437323366303534653538333562383133626539613238346438323637366339222c2276657269666965725f76657273696f6e223a22636c766c61622d70726f6f662f31227d', '{"evidence_integrity":{"verdict":"pass","detail":"SHA-256 of events.jsonl is the sealed sha256:231caa4ecf2db568cf5c13216b1a2f23ebc3ffcd9899cc6aa418e3feb45e58c8"},"llm_boundary":{"verdict":"pass","detail":"a maintainer''s guard, not a wall: law and proof import each other and listed names of polars, pyarrow, orjson and the standard library only"},"metrics_recomputed":{"verdict":"pass","detail":"all 5 score rows re-derived from the evidence are equal"},"manifest_bound":{"verdict":"pass","detail":"sha256:ba1dc75ccb1bbe0d93aba88e3b71dba5a20753ca7489c10e0f27a2bb0e269c4f binds the run id, the evidence root and the score root"},"policy_obeyed":{"verdict":"pass","detail":"recomputed, 5 of 5 BACKs were allowed; each of 5 receipts is for one of them"},"receipt_separation":{"verdict":"pass","detail":"none of the 12 events is a receipt or carries a field of one"},"anchor":{"verdict":"not_applicable","detail":"the run is not anchored"}}', '{"avg_clv_bps":-40.0,"action_count":4,"valid_count":4,"total_clv_bps":-160,"sim_pnl":-1907,"clv_confidence":"low","low_sample":true,"agents":[{"agent_id":"baseline","action_count":4,"valid_count":4,"invalid_count":1,"abstention_count":0,"pending_count":0,"valid_pct":80.0,"total_clv_bps":-160,"mean_clv_bps":-40.0,"sim_pnl":-1907,"brier":null,"max_drawdown":-321.0}]}', 0, 'did:example:alice', 'starter', 'sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0', 1795674711173, true, 8478);
INSERT INTO public.standings VALUES ('did:example:alice', 'baseline', 0, 5, 4, 4, 1, -160, -1907, 0, 0, -321, 1, 1, 0, 0, 0, 0, 0);
INSERT INTO public.turns VALUES ('did:example:alice', 1);
INSERT INTO public.usage VALUES ('did:example:alice', 8478);
SELECT pg_catalog.setval('public.jobs_job_id_seq', 1, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.agent_errors
    ADD CONSTRAINT pk_agent_errors PRIMARY KEY (run_id, agent_id);
ALTER TABLE ONLY public.agent_results
    ADD CONSTRAINT pk_agent_results PRIMARY KEY (run_id, agent_id);
ALTER TABLE ONLY public.anchors
    ADD CONSTRAINT pk_anchors PRIMARY KEY (run_id);
ALTER TABLE ONLY public.backtest_requests
    ADD CONSTRAINT pk_backtest_requests PRIMARY KEY (key);
ALTER TABLE ONLY public.competition_events
    ADD CONSTRAINT pk_competition_events PRIMARY KEY (competition_id, first_seq);
ALTER TABLE ONLY public.competitions
    ADD CONSTRAINT pk_competitions PRIMARY KEY (competition_id);
ALTER TABLE ONLY public.counted_fixtures
    ADD CONSTRAINT pk_counted_fixtures PRIMARY KEY (owner, agent_id, content_hash, fixture_id);
ALTER TABLE ONLY public.held_out
    ADD CONSTRAINT pk_held_out PRIMARY KEY (plan_id, digest);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT pk_idempotency PRIMARY KEY (owner, key);
ALTER TABLE ONLY public.instances
    ADD CONSTRAINT pk_instances PRIMARY KEY (instance_id);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT pk_jobs PRIMARY KEY (job_id);
ALTER TABLE ONLY public.log_entries
    ADD CONSTRAINT pk_log_entries PRIMARY KEY (idx);
ALTER TABLE ONLY public.log_nodes
    ADD CONSTRAINT pk_log_nodes PRIMARY KEY (level, idx);
ALTER TABLE ONLY public.plans
    ADD CONSTRAINT pk_plans PRIMARY KEY (plan_id);
ALTER TABLE ONLY public.receipts
    ADD CONSTRAINT pk_receipts PRIMARY KEY (run_id, first_line);
ALTER TABLE ONLY public.reports
    ADD CONSTRAINT pk_reports PRIMARY KEY (backtest_id);
ALTER TABLE ONLY public.roster
    ADD CONSTRAINT pk_roster PRIMARY KEY (competition_id, agent_id);
ALTER TABLE ONLY public.run_chunks
    ADD CONSTRAINT pk_run_chunks PRIMARY KEY (run_id, part, first_line);
ALTER TABLE ONLY public.runs
    ADD CONSTRAINT pk_runs PRIMARY KEY (run_id);
ALTER TABLE ONLY public.runtime_events
    ADD CONSTRAINT pk_runtime_events PRIMARY KEY (instance_id, id);
ALTER TABLE ONLY public.standings
    ADD CONSTRAINT pk_standings PRIMARY KEY (owner, agent_id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT pk_trials PRIMARY KEY (trial_id);
ALTER TABLE ONLY public.turns
    ADD CONSTRAINT pk_turns PRIMARY KEY (owner);
ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT pk_uploads PRIMARY KEY (owner, pack_id);
ALTER TABLE ONLY public.usage
    ADD CONSTRAINT pk_usage PRIMARY KEY (owner);
ALTER TABLE ONLY public.log_entries
    ADD CONSTRAINT uq_log_entries_commit_index UNIQUE (commit_index);
ALTER TABLE ONLY public.roster
    ADD CONSTRAINT uq_roster_competition_id_position UNIQUE (competition_id, "position");
ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT uq_uploads_owner_content_hash UNIQUE (owner, content_hash);
CREATE INDEX ix_backtest_requests_run_id ON public.backtest_requests USING btree (run_id);
CREATE INDEX ix_competition_events_competition_id_kind_first_seq ON public.competition_events USING btree (competition_id, kind, first_seq);
CREATE INDEX ix_competitions_created_ts_ms_competition_id ON public.competitions USING btree (created_ts_ms, competition_id);
CREATE INDEX ix_competitions_status ON public.competitions USING btree (status);
CREATE INDEX ix_counted_fixtures_run_id ON public.counted_fixtures USING btree (run_id);
CREATE INDEX ix_held_out_digest ON public.held_out USING btree (digest);
CREATE INDEX ix_instances_owner_created_ts_ms ON public.instances USING btree (owner, created_ts_ms);
CREATE INDEX ix_jobs_run_id ON public.jobs USING btree (run_id);
CREATE INDEX ix_jobs_status_job_id ON public.jobs USING btree (status, job_id);
CREATE INDEX ix_log_entries_owner_content_hash_kind_idx ON public.log_entries USING btree (owner, content_hash, kind, idx);
CREATE INDEX ix_log_entries_owner_kind ON public.log_entries USING btree (owner, kind);
CREATE INDEX ix_log_entries_run_id ON public.log_entries USING btree (run_id);
CREATE INDEX ix_reports_created_ts_ms_backtest_id ON public.reports USING btree (created_ts_ms, backtest_id);
CREATE INDEX ix_reports_run_id ON public.reports USING btree (run_id);
CREATE INDEX ix_runs_created_ts_ms_run_id ON public.runs USING btree (created_ts_ms, run_id);
CREATE INDEX ix_runs_owner_created_ts_ms ON public.runs USING btree (owner, created_ts_ms);
CREATE INDEX ix_runs_pack_id_created_ts_ms ON public.runs USING btree (pack_id, created_ts_ms);
CREATE INDEX ix_trials_content_hash ON public.trials USING btree (content_hash);
CREATE TRIGGER log_entries_stay BEFORE DELETE OR UPDATE ON public.log_entries FOR EACH ROW EXECUTE FUNCTION public.log_is_append_only();
ALTER TABLE ONLY public.agent_errors
    ADD CONSTRAINT fk_agent_errors_run_id FOREIGN KEY (run_id) REFERENCES public.runs(run_id);
ALTER TABLE ONLY public.agent_results
    ADD CONSTRAINT fk_agent_results_run_id FOREIGN KEY (run_id) REFERENCES public.runs(run_id);
ALTER TABLE ONLY public.anchors
    ADD CONSTRAINT fk_anchors_run_id FOREIGN KEY (run_id) REFERENCES public.runs(run_id);
ALTER TABLE ONLY public.competition_events
    ADD CONSTRAINT fk_competition_events_competition_id FOREIGN KEY (competition_id) REFERENCES public.competitions(competition_id);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT fk_idempotency_instance_id FOREIGN KEY (instance_id) REFERENCES public.instances(instance_id);
ALTER TABLE ONLY public.receipts
    ADD CONSTRAINT fk_receipts_run_id FOREIGN KEY (run_id) REFERENCES public.runs(run_id);
ALTER TABLE ONLY public.reports
    ADD CONSTRAINT fk_reports_run_id FOREIGN KEY (run_id) REFERENCES public.runs(run_id);
ALTER TABLE ONLY public.roster
    ADD CONSTRAINT fk_roster_competition_id FOREIGN KEY (competition_id) REFERENCES public.competitions(competition_id);
ALTER TABLE ONLY public.run_chunks
    ADD CONSTRAINT fk_run_chunks_run_id FOREIGN KEY (run_id) REFERENCES public.runs(run_id);
ALTER TABLE ONLY public.runtime_events
    ADD CONSTRAINT fk_runtime_events_instance_id FOREIGN KEY (instance_id) REFERENCES public.instances(instance_id);
