// Policies (C2SP tlog-policy): which logs and witnesses count, and how many of them must sign. Names are bytes, of which only
// those of keys must be text; each byte is read as a character of its own.

const MAX_POLICY_LINES = 10_000;

function readPolicy(bytes) {
  const lines = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("").split("\n");
  require(lines.length <= MAX_POLICY_LINES, `a policy of ${grouped(lines.length)} lines, more than ${grouped(MAX_POLICY_LINES)}`);
  const policy = { logs: [], witnesses: [], signers: new Map(), groups: new Map(), quorum: null };
  const seen = new Set();
  const isDefined = (name) => seen.has(`name ${name}`);
  const once = (role, what) => {
    require(!seen.has(`${role} ${what}`) && `${role} ${what}` !== "name none", `a second ${role} ${what.slice(0, 60)}`);
    seen.add(`${role} ${what}`);
  };
  const keyOf = (word, role) => {
    const key = _policyKey(word, role === "log" ? 1 : 4);
    once(role, key.id);
    return key;
  };
  const statements = {
    log: (words) => {
      const { written } = keyOf(words[0], "log");
      if (written) policy.logs.push(written);
    },
    witness: ([name, word]) => {
      once("name", name);
      const { written, signer } = keyOf(word, "witness");
      if (!written) return;
      once("signer", signer); // signers are told apart by the names of their keys
      policy.witnesses.push(written);
      policy.signers.set(name, signer);
    },
    group: ([name, least, ...members]) => {
      const number = { all: members.length, any: 1 }[least] ?? (/^[1-9][0-9]{0,4}$/.test(least) ? Number(least) : 0);
      require(number > 0 && number <= members.length, `"${least}" of ${members.length} members`);
      for (const member of members) {
        require(isDefined(member), `"${member}" is not defined before it`);
        once("member", member);
      }
      once("name", name);
      policy.groups.set(name, { least: number, members });
    },
    quorum: ([name]) => {
      require(policy.quorum === null, "a second quorum");
      require(name === "none" || isDefined(name), `"${name}" is not defined before it`);
      policy.quorum = name;
    },
  };
  const counts = { log: [1, 2], witness: [2, 3], group: [3, Infinity], quorum: [1, 1] };
  lines.forEach((line, at) => {
    try {
      require(!/[\0-\x08\x0b-\x1f\x7f]/.test(line), "a control character");
      const [kind, ...words] = line.replace(/^[ \t]+|[ \t]+$/g, "").split(/[ \t]+/);
      if (kind === "" || kind[0] === "#") return;
      const [least, most] = Object.hasOwn(counts, kind) ? counts[kind] : [1, 0];
      require(words.length >= least && words.length <= most, "no line of a policy");
      statements[kind](words);
    } catch (error) {
      throw error instanceof Broken ? new Broken(`line ${at + 1} of the policy: ${error.message}`) : error;
    }
  });
  require(policy.quorum !== null, "the policy has no line 'quorum NAME'");
  return policy;
}

// A key in a policy: its text and name, and what tells it from others; a key of a type that is not read here has no text.
function _policyKey(word, type) {
  const written = textOf(Uint8Array.from(word, (char) => char.charCodeAt(0)));
  const [, name = "", stated = "", encoded = ""] = /^([^+]*)(?:\+([^+]*)(?:\+(.*))?)?$/s.exec(written);
  const bytes = fromBase64(encoded);
  const isOther = bytes.length > 1 && ![1, 4].includes(bytes[0]) && /^[0-9a-f]{8}$/.test(stated);
  if (isOther && name && !/[\x85\p{Z}]/u.test(name)) return { id: encoded };
  const hash = new Uint8Array(32);
  hashInto(-1, joined(bytesOf(`${name}\n`), bytes), hash, 0);
  const fits = /^[^\p{C}\p{Z}]+$/u.test(name) && bytes.length === 33 && bytes[0] === type && stated === hexOf(hash.subarray(0, 4));
  require(fits, `no key of type ${type}: ${written.slice(0, 120)}`);
  return { written, signer: name, id: hexOf(bytes.subarray(1)) };
}

// Whether trusted witnesses are enough: `signed` has the names of their keys. Members precede their group.
function requireQuorum(signed, { policy, witness_quorum: least }) {
  if (policy && policy.quorum !== "none") {
    const counted = new Map([...policy.signers].map(([name, signer]) => [name, signed.has(signer)]));
    for (const [name, group] of policy.groups) counted.set(name, group.members.filter((member) => counted.get(member)).length >= group.least);
    const own = [...policy.signers].filter(([, signer]) => signed.has(signer)).map(([name]) => name);
    require(counted.get(policy.quorum), `no quorum "${policy.quorum}" of the policy: of its witnesses signed ${own.join(", ") || "none"}`);
  }
  require(signed.size >= least, `${signed.size} trusted witnesses signed the checkpoint, ${least} must`);
}
