PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES('0010');
CREATE TABLE competitions (
	competition_id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	status TEXT NOT NULL, 
	config TEXT NOT NULL, 
	roster_size INTEGER NOT NULL, 
	pack_id TEXT, 
	fixture_id BIGINT, 
	content_hash TEXT, 
	run_id TEXT, 
	cause TEXT, 
	claimed_from TEXT, 
	started_seq BIGINT, 
	next_seq BIGINT NOT NULL, 
	created_ts_ms BIGINT NOT NULL, 
	CONSTRAINT pk_competitions PRIMARY KEY (competition_id)
);
INSERT INTO competitions VALUES('comp_70928dec90284e21b1aec9efd1a5fb7c','did:example:alice','finalized','{"competition_type":"arena","source_mode":"replay","market_scope":"all","roster_size":2,"execution_mode":"paper","pack_id":"starter","fixture_id":90000000,"scoring_window":null,"division":null}',2,'starter',90000000,'sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0','run_766df0416d70dbac12657da3916e4c95',NULL,'draft',0,19,1795674672622);
CREATE TABLE instances (
	instance_id TEXT NOT NULL, 
	owner TEXT, 
	template TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	record TEXT NOT NULL, 
	next_event_id BIGINT NOT NULL, 
	created_ts_ms BIGINT NOT NULL, 
	CONSTRAINT pk_instances PRIMARY KEY (instance_id)
);
CREATE TABLE jobs (
	job_id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	payload TEXT NOT NULL, 
	status TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	leased_ts_ms BIGINT, 
	lease_until_ts_ms BIGINT, 
	cause TEXT, 
	created_ts_ms BIGINT NOT NULL, 
	postponed INTEGER DEFAULT '0' NOT NULL, progress TEXT, 
	CONSTRAINT pk_jobs PRIMARY KEY (job_id)
);
INSERT INTO jobs VALUES(1,'competition','run_766df0416d70dbac12657da3916e4c95','{"origin_id":"comp_70928dec90284e21b1aec9efd1a5fb7c"}','done',1,1795674672824,1795674702824,NULL,1795674672696,0,NULL);
CREATE TABLE runs (
	run_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	origin_id TEXT, 
	status TEXT NOT NULL, 
	source_mode TEXT NOT NULL, 
	mode_label TEXT NOT NULL, 
	lineage TEXT NOT NULL, 
	cause TEXT, 
	created_ts_ms BIGINT NOT NULL, 
	sealed_ts_ms BIGINT, 
	evidence_hash TEXT, 
	manifest_hash TEXT, 
	manifest BLOB, 
	checks TEXT, 
	metrics TEXT, 
	commit_index BIGINT, owner TEXT, pack_id TEXT, content_hash TEXT, checked_ts_ms BIGINT, ranked BOOLEAN DEFAULT 1 NOT NULL, stored_bytes BIGINT, 
	CONSTRAINT pk_runs PRIMARY KEY (run_id)
);
INSERT INTO runs VALUES('run_766df0416d70dbac12657da3916e4c95','competition','comp_70928dec90284e21b1aec9efd1a5fb7c','sealed','replay','Backtest','{"template":"baseline","config_hash":"sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed","policy_hash":"sha256:7a63c478205316c45b469d33310c7ae861de134c11256de434437b99be69c8c2","agents":[{"agent_id":"baseline","strategy":"baseline","strategy_version":"1","config":{"markets":[""],"stake":100,"warmup_ticks":0,"min_prob_bps":5000},"config_hash":"sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed","proof_mode":"reproducible","causality":"template","source_sha256":null}]}',NULL,1795674672696,1795674673180,'sha256:5d5e63f0a3c5082a509483c5625fa356d547de4d1e98996fe94ec777c144abed','sha256:492c4687abc2d085bdaa1b1e5648f478d03fa4f9a95478fab6ee86feaef664b5',X'7b22636f6d6d69745f696e646578223a302c22636f6e6669675f68617368223a227368613235363a34333730386563366132343836386436303737353064346632613733663333636133623964643237623331353565303263646534316562333633343339356564222c22636f6e74656e745f68617368223a227368613235363a62353361333935613063623062346337376262303932303664613436313861653262363065613333383732326361326262386164333363656263353638636430222c226576656e745f636f756e74223a31322c2265766964656e63655f68617368223a227368613235363a35643565363366306133633530383261353039343833633536323566613335366435343764653464316539383939366665393465633737376331343461626564222c2265766964656e63655f726f6f74223a227368613235363a62653063646639303138393661376439356265313234326561316263643734313834626435393963643337626539643036313939373332373631633563623566222c226c61775f76657273696f6e223a22636c762d6c61772f31222c22706f6c6963795f68617368223a227368613235363a37613633633437383230353331366334356234363964333333313063376165383631646531333463313132353664653433343433376239396265363963386332222c2272756e5f6964223a2272756e5f3736366466303431366437306462616331323635376461333931366534633935222c22736368656d61223a22636c766c61622d6d616e69666573742f31222c2273636f72655f726f6f74223a227368613235363a33336239343265323630663831383034303739323030353163346133363461306437323366303534653538333562383133626539613238346438323637366339222c2276657269666965725f76657273696f6e223a22636c766c61622d70726f6f662f31227d','{"evidence_integrity":{"verdict":"pass","detail":"SHA-256 of events.jsonl is the sealed sha256:5d5e63f0a3c5082a509483c5625fa356d547de4d1e98996fe94ec777c144abed"},"llm_boundary":{"verdict":"pass","detail":"a maintainer''s guard, not a wall: law and proof import each other and listed names of polars, pyarrow, orjson and the standard library only"},"metrics_recomputed":{"verdict":"pass","detail":"all 5 score rows re-derived from the evidence are equal"},"manifest_bound":{"verdict":"pass","detail":"sha256:492c4687abc2d085bdaa1b1e5648f478d03fa4f9a95478fab6ee86feaef664b5 binds the run id, the evidence root and the score root"},"policy_obeyed":{"verdict":"pass","detail":"recomputed, 5 of 5 BACKs were allowed; each of 5 receipts is for one of them"},"receipt_separation":{"verdict":"pass","detail":"none of the 12 events is a receipt or carries a field of one"},"anchor":{"verdict":"not_applicable","detail":"the run is not anchored"}}','{"avg_clv_bps":-40.0,"action_count":4,"valid_count":4,"total_clv_bps":-160,"sim_pnl":-1907,"clv_confidence":"low","low_sample":true,"agents":[{"agent_id":"baseline","action_count":4,"valid_count":4,"invalid_count":1,"abstention_count":0,"pending_count":0,"valid_pct":80.0,"total_clv_bps":-160,"mean_clv_bps":-40.0,"sim_pnl":-1907,"brier":null,"max_drawdown":-321.0}]}',0,'did:example:alice','starter','sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0',1795674673180,1,8477);
CREATE TABLE anchors (
	run_id TEXT NOT NULL, 
	status TEXT NOT NULL, 
	cluster TEXT NOT NULL, 
	signature TEXT, 
	explorer_url TEXT, 
	updated_ts_ms BIGINT NOT NULL, 
	record TEXT, 
	CONSTRAINT pk_anchors PRIMARY KEY (run_id), 
	CONSTRAINT fk_anchors_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO anchors VALUES('run_766df0416d70dbac12657da3916e4c95','not_anchored','devnet',NULL,NULL,1795674673180,NULL);
CREATE TABLE competition_events (
	competition_id TEXT NOT NULL, 
	first_seq BIGINT NOT NULL, 
	count BIGINT NOT NULL, 
	kind TEXT, 
	run_id TEXT NOT NULL, 
	ts BIGINT NOT NULL, 
	events TEXT NOT NULL, 
	CONSTRAINT pk_competition_events PRIMARY KEY (competition_id, first_seq), 
	CONSTRAINT fk_competition_events_competition_id FOREIGN KEY(competition_id) REFERENCES competitions (competition_id)
);
INSERT INTO competition_events VALUES('comp_70928dec90284e21b1aec9efd1a5fb7c',0,1,'COMPETITION_STARTED','run_766df0416d70dbac12657da3916e4c95',1795674672696,'[["COMPETITION_STARTED",false,{"agents":[{"agent_id":"baseline","strategy":"baseline","config":{},"config_hash":"sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed","proof_mode":"reproducible","instance_id":null,"unused_keys":[]}],"window":{"window_id":"full","end_rule":"pre_match","duration_s":null,"min_clv_horizon_s":60,"market_allowlist":[""],"closing_policy":"last_state"},"policy_hash":"sha256:7a63c478205316c45b469d33310c7ae861de134c11256de434437b99be69c8c2","replay_binding":{"pack_id":"starter","fixture_id":90000000,"content_hash":"sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0"}}]]');
INSERT INTO competition_events VALUES('comp_70928dec90284e21b1aec9efd1a5fb7c',1,15,NULL,'run_766df0416d70dbac12657da3916e4c95',1795674673140,'[["AGENT_ACTION",true,{"run_seq":1,"agent_id":"baseline","fixture_id":90000000,"tick_seq":1,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5","side":"part2","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 5622 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":1,"agent_id":"baseline","fixture_id":90000000,"tick_seq":1,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":1,"agent_id":"baseline","fixture_id":90000000,"tick_seq":1,"ts_ms":1767012359276,"valid":true,"reason":"scored","entry_prob_bps":5622,"odds_milli":1733,"close_prob_bps":5375,"clv_bps":-247,"edge_bps":-685,"close_kind":"in_running","closing_age_ms":25363}],["AGENT_ACTION",true,{"run_seq":2,"agent_id":"baseline","fixture_id":90000000,"tick_seq":2,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"OVERUNDER_PARTICIPANT_GOALS||line=1.5","side":"over","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 6944 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":2,"agent_id":"baseline","fixture_id":90000000,"tick_seq":2,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":2,"agent_id":"baseline","fixture_id":90000000,"tick_seq":2,"ts_ms":1767012359276,"valid":false,"reason":"closing_suspended","entry_prob_bps":6944,"odds_milli":1380,"close_prob_bps":null,"clv_bps":null,"edge_bps":null,"close_kind":"in_running","closing_age_ms":44385}],["AGENT_ACTION",true,{"run_seq":3,"agent_id":"baseline","fixture_id":90000000,"tick_seq":3,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"OVERUNDER_PARTICIPANT_GOALS||line=2.5","side":"under","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 5371 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":3,"agent_id":"baseline","fixture_id":90000000,"tick_seq":3,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":3,"agent_id":"baseline","fixture_id":90000000,"tick_seq":3,"ts_ms":1767012359276,"valid":true,"reason":"scored","entry_prob_bps":5371,"odds_milli":1804,"close_prob_bps":5325,"clv_bps":-46,"edge_bps":-394,"close_kind":"in_running","closing_age_ms":56833}],["AGENT_ACTION",true,{"run_seq":4,"agent_id":"baseline","fixture_id":90000000,"tick_seq":4,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"OVERUNDER_PARTICIPANT_GOALS||line=3.5","side":"under","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 7498 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":4,"agent_id":"baseline","fixture_id":90000000,"tick_seq":4,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":4,"agent_id":"baseline","fixture_id":90000000,"tick_seq":4,"ts_ms":1767012359276,"valid":true,"reason":"scored","entry_prob_bps":7498,"odds_milli":1276,"close_prob_bps":7470,"clv_bps":-28,"edge_bps":-468,"close_kind":"in_running","closing_age_ms":27785}],["AGENT_ACTION",true,{"run_seq":5,"agent_id":"baseline","fixture_id":90000000,"tick_seq":5,"ts_ms":1767012359276,"action":{"type":"BACK","market_key":"OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5","side":"under","stake":100,"limit_odds_milli":null},"untrusted":{"reason":"likeliest side at first sight, 6774 bps","confidence_ppm":null,"claimed_edge_bps":null}}],["POLICY_VERDICT",true,{"run_seq":5,"agent_id":"baseline","fixture_id":90000000,"tick_seq":5,"ts_ms":1767012359276,"pre":{"allowed":true,"reasons":[]},"post":{"allowed":true,"reasons":[]}}],["LAW_RESULT",true,{"run_seq":5,"agent_id":"baseline","fixture_id":90000000,"tick_seq":5,"ts_ms":1767012359276,"valid":true,"reason":"scored","entry_prob_bps":6774,"odds_milli":1390,"close_prob_bps":6935,"clv_bps":161,"edge_bps":-360,"close_kind":"in_running","closing_age_ms":6044065}]]');
INSERT INTO competition_events VALUES('comp_70928dec90284e21b1aec9efd1a5fb7c',16,1,'SCORE_UPDATE','run_766df0416d70dbac12657da3916e4c95',1795674673180,'[["SCORE_UPDATE",false,{"rank":1,"agent_id":"baseline","total_clv_bps":-160,"mean_clv_bps":-40.0,"valid_count":4,"action_count":4,"sim_pnl":-1907,"proof_mode":"reproducible"}]]');
INSERT INTO competition_events VALUES('comp_70928dec90284e21b1aec9efd1a5fb7c',17,1,'PROOF_ANCHOR','run_766df0416d70dbac12657da3916e4c95',1795674673180,'[["PROOF_ANCHOR",false,{"anchor_status":"not_anchored","signature":null,"cluster":"devnet","explorer_url":null,"manifest_hash":"sha256:492c4687abc2d085bdaa1b1e5648f478d03fa4f9a95478fab6ee86feaef664b5"}]]');
INSERT INTO competition_events VALUES('comp_70928dec90284e21b1aec9efd1a5fb7c',18,1,'COMPETITION_FINALIZED','run_766df0416d70dbac12657da3916e4c95',1795674673180,'[["COMPETITION_FINALIZED",false,{"status":"finalized","evidence_hash":"sha256:5d5e63f0a3c5082a509483c5625fa356d547de4d1e98996fe94ec777c144abed","manifest_hash":"sha256:492c4687abc2d085bdaa1b1e5648f478d03fa4f9a95478fab6ee86feaef664b5"}]]');
CREATE TABLE idempotency (
	owner TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	instance_id TEXT NOT NULL, 
	created_ts_ms BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency PRIMARY KEY (owner, "key"), 
	CONSTRAINT fk_idempotency_instance_id FOREIGN KEY(instance_id) REFERENCES instances (instance_id)
);
CREATE TABLE receipts (
	run_id TEXT NOT NULL, 
	first_line BIGINT NOT NULL, 
	lines BLOB NOT NULL, size BIGINT, 
	CONSTRAINT pk_receipts PRIMARY KEY (run_id, first_line), 
	CONSTRAINT fk_receipts_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO receipts VALUES('run_766df0416d70dbac12657da3916e4c95',0,X'cd92311283201045fb1c636b0a1005f5320ebaabc3c4a0114ce3e4ee59cd014c17bb3fc07efee3b3811b28a4c623d4d0ba48a30f0402903a1ffd149a484fa89580b0eb6e5a7c18a04ecb4a0226c4d83cfc387a3e61b516b0ace1ebb40b6b0cf6325706adc4d6752a338545a72b6528efaa826f89c9dd8987a53c745a23a7e8d991907713bbf382b2c64a95e9a2caac11f0a2b0f20ccc6ea605deb7ed2782ec9c40979ce2ba04fcbc671d9432bf3201873b23381abe6e07c53981aefef48b3ef16845cfca030000',970);
CREATE TABLE roster (
	competition_id TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	roster_size INTEGER NOT NULL, 
	strategy TEXT NOT NULL, 
	config TEXT NOT NULL, 
	config_hash TEXT NOT NULL, 
	proof_mode TEXT NOT NULL, 
	instance_id TEXT, 
	CONSTRAINT pk_roster PRIMARY KEY (competition_id, agent_id), 
	CONSTRAINT ck_roster_within_size CHECK (position < roster_size), 
	CONSTRAINT fk_roster_competition_id FOREIGN KEY(competition_id) REFERENCES competitions (competition_id), 
	CONSTRAINT uq_roster_competition_id_position UNIQUE (competition_id, position)
);
INSERT INTO roster VALUES('comp_70928dec90284e21b1aec9efd1a5fb7c','baseline',0,2,'baseline','{}','sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed','reproducible',NULL);
CREATE TABLE run_chunks (
	run_id TEXT NOT NULL, 
	part TEXT NOT NULL, 
	first_line BIGINT NOT NULL, 
	lines BLOB NOT NULL, size BIGINT, 
	CONSTRAINT pk_run_chunks PRIMARY KEY (run_id, part, first_line), 
	CONSTRAINT fk_run_chunks_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO run_chunks VALUES('run_766df0416d70dbac12657da3916e4c95','events',0,X'cd595d6fdb36147ddfaf08f4ec6e22299192813eb849b005ed9222c9f652140445d18910d952f5d1244dfbdf7748c991943a693b74f1fc2451fcb83cf7dc7379e93bef2a5ba7dedc3bfdeb589e9d2f4ecf0f0fbc9957aadbbc5068bff3d4855937b5377fd73fcacc764f546df26c6dd057abb65679d6dca2b931ab32578d6b2ed6cbecc2ceb052d595715378defb99b7cad6b2ac8a442625a60d7ddf9f7975a3ae8c3727f6f95a55abb6944da6aff0ddff8215dc54f252d59758a3be5434e4f380093f329a2b1a443c4ab92f44e8a7c1922ac1968c69c592384da948180943e3539d9a8098847116b03834a9dd6555144bb92a522ced5506af69abb324b7e6d7455b6923bbc5bcf9bacd736b6685cd5dd89d8e00d8b4ca8fa6aab3628dafc4fb829d2680365b3b0cb08506383ed8431232056394af133f09b41049e2c7d4e7a90a388994a109f78d622c12946a4593245229b666121df248a73eec5c66374d5b1978c5fa28069af687c54ba5af3a5f01dcaa319507247b67eb62559a266bacb1332f57d723d375fef1055a7e23f862a191b94a4c8e3dbdc2848da91bb4175576012f3a26d8b9a480d9516a74ecd32830942444e1c52c53a2c2652234c694459e692077077716795a5cafa575efcc333746b7d6948d274a55c25a6b6c9ecbfa3a6b34dcbe54796d6091e39254795e5ce7198c99bfeb48a56ea4b9298bda6281e1b2c765e3b9d5c3efdd44e3cf4595c27fe39681a5317e76f11bf9a12d1a231114d67ac0ddb5d6795696b6d171dad1d8761e68ed3a0232936e3a758c9a06039981861fda0c7b70eb78f3a66ab1eb5a5f9a95820fe01cb8e34587a573d147b36e61cf188f0e3f50e0eb48ea063e60a1509ce94044d40f19e13a089380c7e01923be16ca449ca486b0401382b84314b100b197c4716278ac234de1aaaaedd9601f04e7e9d20f084f859f264a13ca439182e8849b40c721fa3fdc1086b9ddf451378464ae6ed1fd1a81545c3beee4458d90921b3681bc756371769a93b6884fcba47b379a752aab16113d47b41bb952964c4fd0082e02c6f2120cffd4cdc3ad24b9f53bbe2fa104de17c4526d3e5879fae56e13550787fb47674727c7987fac9fda8519789f67abac91459ad672056a6703d5ac3eca2b6375657176b438fe63717c70b4bf782bdf42908ff68fde2e8ecfe5ef278b37679f3f5bd57df9c2ffd5c19839e92a11dfd60b03dd665e735bda4dbf5aecbfb681ef54bcdbc048b906f1705c76d2710f4e076a9701e4aa8bd51a0be209b960bc0d4a69e8d4b4d774d0238235837190c3d97408118c8d87849cd2c910ea14b46eeb122e845a6f04c0a605e9a047b0344012e610c1854f280b632a3836bb21c71d9eac442073d9f8b0b374f1541955176bbb91f7b67b05a49eec834edf5c77e6b56bcc5e377619885caeb29549bf0a7897cb52b3466e29cbd58602a3d64a81e89d387466c28b7976856c0bedddb3a0eea9666f9955eeede2b299ed59f0f6acf2dcd392fc6c5a9efc7d8813c2c1e1e9a3942463461648853b24246111a276906f1e07c13dbb9c6d0ff9c8089b5098f921bf1fd18281489fefd1f0041fc1df9df0f1917577c8470bf7948ff4f9f948c77cec3c08ff8dce99cfaa907e3c91bb80539c277a85dc4a4812f9a0ec40e19009085e3fe2fb0889157742c847d6dd21212d785342b2e72724fb3f11924574422f1afa43fedd4e48e4d6312145100f49fefb0889157742c847d6dd21212d78534206cf49c84b952f5f92ee2839c9db3bd7c998401707d563940e69783b2d593c4df542c0dd3fa49348fc3ba1e523ebee90961ce04d69198e68f9e7e2f4f5e1b9dc7f73727638ad7134aa3223fbcb05945028e7d6f6e2035737eecb085e1686943212403becb7fe7ac4fa6b4b5d410872dec006644d60d6fbd6163d5bea8a8888f11028ff74c8b7eb0a6a4bfda9c52416220a5105d872d2151fcc16f44f964f3f5cce617a3735df25e4ccb7e13340ce7c3ee0f74800869390e5b13d49ff5000528e201f231ec444c47ec4fe0de24f552a0f756f03b9d825e45dad3740de5f3576d5f356c89f1cb135157765ef50c3d2185132463c0c898804ffe9880f39668375b44baca96f4fd103d6011fc9c356ac49442055c388908d34682bd6fd4de518ece90104124838c7b5f4cfa67707b62d7c3660c7bb041bb740132da1218368f6cab01d6c1ae1143a802d02318cf85eb0e1ae07cc8e43dcfaff3760db43fd066c32be0c74ffa71c2ede6cfd3b459aaa2aec5d3376875bf3ccfe6b8037e8667fbfedd2a66db99f1b373aff0040b4a02cac190000',6572);
INSERT INTO run_chunks VALUES('run_766df0416d70dbac12657da3916e4c95','scores',0,X'add4cd6ee2301000e0fb3e86cf64156cc74e907a88da6a17a9a288fe5cad404cd7c238a99da0adda7df79d348126400452e1829831cef89b71de51f2224d21548a46689e38a995916880163a7352ac94a9e2ca085b1aa3cccb2e93db6c2ee6b943a380f0a05e0f7901bb893544714018a9c29b7a958729879f9959aa549a851479be4623536a3d4032853f7deee5b110f6827aec9b683d81613c404bf5b728adfcac34f2ebcf00ad13bb928558c937a8337e18c793dff1e4667c1d4fc5349e3d8eafc7d378f2287eddc7770f1f1fd5e1ae3cff6700e7c8d2d489b5d25aa1d1901328d6cac46506f6718bccca14d638f90a49f886a2219e27b6c0102ed46225b6b94da22bbcc296f2df8ff76f73d624157f9b935252c9ec389b5527381bde3d4e16517a16e7fdf3edec6972733beba51c1e4a92d06f496ecfe14a974b937ea142431bd46c236dc714528de932d1ee22a801c14766346061d5f61daa47d919234a22d03b1851c2614cce18d1d3a6f8d034f4e1913dd3090768204bf0ed4a42eec2d3c92987f66ebbbabbec9c77a6d3c3e1199094c1aa7d484e23885e04921c42620e1dee8104e25e48c85d189245e4c844329f529fb52ffa90c15c9d7c6d12065dd9a7649c43dddfa4fc93e8e5d5b07e711ebbed51fbb677df9b708c5e50c87540ff039fbe8a3387060000',1671);
CREATE TABLE runtime_events (
	instance_id TEXT NOT NULL, 
	id BIGINT NOT NULL, 
	type TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	ts BIGINT NOT NULL, 
	payload TEXT NOT NULL, 
	CONSTRAINT pk_runtime_events PRIMARY KEY (instance_id, id), 
	CONSTRAINT fk_runtime_events_instance_id FOREIGN KEY(instance_id) REFERENCES instances (instance_id)
);
CREATE TABLE log_entries (
	idx BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	commit_index BIGINT, 
	entry BLOB NOT NULL, content_hash TEXT, 
	CONSTRAINT pk_log_entries PRIMARY KEY (idx), 
	CONSTRAINT uq_log_entries_commit_index UNIQUE (commit_index)
);
INSERT INTO log_entries VALUES(0,'COMMIT','run_766df0416d70dbac12657da3916e4c95','did:example:alice',NULL,X'7b22636f6e74656e745f68617368223a227368613235363a62353361333935613063623062346337376262303932303664613436313861653262363065613333383732326361326262386164333363656263353638636430222c22696e707574735f68617368223a227368613235363a37363664663034313664373064626163313236353764613339313665346339356333623863316566313435613865333737306431313833656434366261653232222c226b696e64223a22434f4d4d4954222c226f776e6572223a226469643a6578616d706c653a616c696365222c2272756e5f6964223a2272756e5f3736366466303431366437306462616331323635376461333931366534633935222c22736368656d61223a22636c766c61622d6c6f672f32222c2274735f6d73223a313739353637343637323639367d','sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0');
INSERT INTO log_entries VALUES(1,'RESULT','run_766df0416d70dbac12657da3916e4c95','did:example:alice',0,X'7b22636f6d6d69745f696e646578223a302c226b696e64223a22524553554c54222c226d616e69666573745f68617368223a227368613235363a34393263343638376162633264303835626461613162316535363438663437386430336661346639613935343738666162366565383666656165663636346235222c2272756e5f6964223a2272756e5f3736366466303431366437306462616331323635376461333931366534633935222c22736368656d61223a22636c766c61622d6c6f672f32222c2274735f6d73223a313739353637343637333138307d','sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0');
CREATE TABLE log_nodes (
	level INTEGER NOT NULL, 
	idx BIGINT NOT NULL, 
	hash BLOB NOT NULL, 
	CONSTRAINT pk_log_nodes PRIMARY KEY (level, idx)
);
INSERT INTO log_nodes VALUES(0,0,X'a08c6174ce1fcf3eb01fcbcd8957d1bc7b51fade68f552620de8e4a5154fa13b');
INSERT INTO log_nodes VALUES(0,1,X'd40218dc8857d46c07987a44d1aecc5fb325a5b479b94dd00333023bf2ad4792');
INSERT INTO log_nodes VALUES(1,0,X'22ac38eae960761edda8f54e2acad9a3bde45d3db2bfb0eba0f821b6577199a1');
CREATE TABLE trials (
	trial_id TEXT NOT NULL, 
	content_hash TEXT NOT NULL, 
	created_ts_ms BIGINT NOT NULL, 
	CONSTRAINT pk_trials PRIMARY KEY (trial_id)
);
CREATE TABLE IF NOT EXISTS "reports" (
	backtest_id TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	pack_id TEXT NOT NULL, 
	fixture_id BIGINT, 
	created_ts_ms BIGINT NOT NULL, 
	report TEXT NOT NULL, 
	CONSTRAINT pk_reports PRIMARY KEY (backtest_id), 
	CONSTRAINT fk_reports_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE TABLE agent_results (
	run_id TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	decision_count BIGINT NOT NULL, 
	action_count BIGINT NOT NULL, 
	valid_count BIGINT NOT NULL, 
	invalid_count BIGINT NOT NULL, 
	total_clv_bps BIGINT NOT NULL, 
	sim_pnl BIGINT NOT NULL, 
	forecasts BIGINT NOT NULL, 
	squared_error BIGINT NOT NULL, 
	max_drawdown BIGINT NOT NULL, 
	fixtures BIGINT NOT NULL, 
	proof_mode TEXT NOT NULL, 
	source_mode TEXT NOT NULL, 
	failing BOOLEAN NOT NULL, 
	CONSTRAINT pk_agent_results PRIMARY KEY (run_id, agent_id), 
	CONSTRAINT fk_agent_results_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO agent_results VALUES('run_766df0416d70dbac12657da3916e4c95','baseline','did:example:alice',5,4,4,1,-160,-1907,0,0,-321,1,'reproducible','replay',0);
CREATE TABLE counted_fixtures (
	owner TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	content_hash TEXT NOT NULL, 
	fixture_id BIGINT NOT NULL, 
	run_id TEXT NOT NULL, 
	CONSTRAINT pk_counted_fixtures PRIMARY KEY (owner, agent_id, content_hash, fixture_id)
);
INSERT INTO counted_fixtures VALUES('did:example:alice','baseline','sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0',90000000,'run_766df0416d70dbac12657da3916e4c95');
CREATE TABLE standings (
	owner TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	decision_count BIGINT NOT NULL, 
	action_count BIGINT NOT NULL, 
	valid_count BIGINT NOT NULL, 
	invalid_count BIGINT NOT NULL, 
	total_clv_bps BIGINT NOT NULL, 
	sim_pnl BIGINT NOT NULL, 
	forecasts BIGINT NOT NULL, 
	squared_error BIGINT NOT NULL, 
	max_drawdown BIGINT NOT NULL, 
	runs BIGINT NOT NULL, 
	counted_runs BIGINT NOT NULL, 
	verified_runs BIGINT NOT NULL, 
	live_runs BIGINT NOT NULL, 
	failing_runs BIGINT NOT NULL, 
	anchored_runs BIGINT NOT NULL, 
	pending_runs BIGINT NOT NULL, 
	CONSTRAINT pk_standings PRIMARY KEY (owner, agent_id)
);
INSERT INTO standings VALUES('did:example:alice','baseline',0,5,4,4,1,-160,-1907,0,0,-321,1,1,0,0,0,0,0);
CREATE TABLE backtest_requests (
	"key" TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	given BOOLEAN NOT NULL, 
	active BOOLEAN NOT NULL, 
	created_ts_ms BIGINT NOT NULL, 
	CONSTRAINT pk_backtest_requests PRIMARY KEY ("key")
);
CREATE TABLE agent_errors (
	run_id TEXT NOT NULL, 
	agent_id TEXT NOT NULL, 
	error TEXT NOT NULL, 
	message TEXT NOT NULL, 
	CONSTRAINT pk_agent_errors PRIMARY KEY (run_id, agent_id), 
	CONSTRAINT fk_agent_errors_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE TABLE uploads (
	owner TEXT NOT NULL, 
	pack_id TEXT NOT NULL, 
	content_hash TEXT NOT NULL, 
	provenance TEXT NOT NULL, 
	is_genuine BOOLEAN NOT NULL, 
	fixtures TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	entry TEXT NOT NULL, 
	created_ts_ms BIGINT NOT NULL, 
	CONSTRAINT pk_uploads PRIMARY KEY (owner, pack_id), 
	CONSTRAINT uq_uploads_owner_content_hash UNIQUE (owner, content_hash)
);
CREATE TABLE usage (
	owner TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	CONSTRAINT pk_usage PRIMARY KEY (owner)
);
INSERT INTO usage VALUES('did:example:alice',8477);
CREATE TABLE turns (
	owner TEXT NOT NULL, 
	turn BIGINT NOT NULL, 
	CONSTRAINT pk_turns PRIMARY KEY (owner)
);
INSERT INTO turns VALUES('did:example:alice',1);
CREATE TABLE plans (
	plan_id TEXT NOT NULL, 
	content_hash TEXT NOT NULL, 
	idx BIGINT NOT NULL, 
	opened BOOLEAN NOT NULL, 
	trials_before BIGINT NOT NULL, 
	payload TEXT NOT NULL, 
	created_ts_ms BIGINT NOT NULL, 
	CONSTRAINT pk_plans PRIMARY KEY (plan_id)
);
CREATE TABLE held_out (
	plan_id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	CONSTRAINT pk_held_out PRIMARY KEY (plan_id, digest)
);
CREATE INDEX ix_competitions_status ON competitions (status);
CREATE INDEX ix_jobs_run_id ON jobs (run_id);
CREATE INDEX ix_jobs_status_job_id ON jobs (status, job_id);
CREATE INDEX ix_runs_created_ts_ms_run_id ON runs (created_ts_ms, run_id);
CREATE INDEX ix_competition_events_competition_id_kind_first_seq ON competition_events (competition_id, kind, first_seq);
CREATE INDEX ix_log_entries_run_id ON log_entries (run_id);
CREATE INDEX ix_log_entries_owner_kind ON log_entries (owner, kind);
CREATE TRIGGER log_entries_no_update BEFORE UPDATE ON log_entries BEGIN SELECT RAISE(ABORT, 'the run log is append-only'); END;
CREATE TRIGGER log_entries_no_delete BEFORE DELETE ON log_entries BEGIN SELECT RAISE(ABORT, 'the run log is append-only'); END;
CREATE INDEX ix_trials_content_hash ON trials (content_hash);
CREATE INDEX ix_log_entries_owner_content_hash_kind_idx ON log_entries (owner, content_hash, kind, idx);
CREATE INDEX ix_runs_owner_created_ts_ms ON runs (owner, created_ts_ms);
CREATE INDEX ix_runs_pack_id_created_ts_ms ON runs (pack_id, created_ts_ms);
CREATE INDEX ix_instances_owner_created_ts_ms ON instances (owner, created_ts_ms);
CREATE INDEX ix_reports_created_ts_ms_backtest_id ON reports (created_ts_ms, backtest_id);
CREATE INDEX ix_counted_fixtures_run_id ON counted_fixtures (run_id);
CREATE INDEX ix_backtest_requests_run_id ON backtest_requests (run_id);
CREATE INDEX ix_competitions_created_ts_ms_competition_id ON competitions (created_ts_ms, competition_id);
CREATE INDEX ix_reports_run_id ON reports (run_id);
CREATE INDEX ix_held_out_digest ON held_out (digest);
COMMIT;
