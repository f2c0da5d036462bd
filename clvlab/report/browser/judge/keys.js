// The keys that the reader trusts, and C2SP signed notes: checkpoints of logs, signed by the log (type 1) and by witnesses
// (type 4).

const MAX_SIGNATURES = 100; // of a note
const NO_TRUST = { anchor_signers: {}, checkpoint: null, logs: [], witness_quorum: 0, witnesses: [] };
const SMALL_ORDER_Y = [0n, 1n, PRIME - 1n].concat(
  [littleEndian(fromHex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"))].flatMap((y) => [y, PRIME - y]),
);

// Read a file of keys, as JSON or as a policy; a missing entry means that no key is trusted.
function readTrust(bytes) {
  const wrong = (why) => new NoInput(`these are not valid keys:  ${why}`);
  if (bytes.length > 2 ** 20) throw wrong("more than a mebibyte");
  const first = bytes.find((byte) => ![9, 10, 11, 12, 13, 32].includes(byte));
  let given;
  try {
    if (first !== undefined && first !== 123) {
      const policy = readPolicy(bytes);
      return { ...NO_TRUST, logs: policy.logs, witnesses: policy.witnesses, policy };
    }
    given = readAnyJson(bytes);
  } catch (error) {
    if (error instanceof Broken) throw wrong(error.message);
    throw error;
  }
  if (!isObject(given)) throw wrong("they must be one JSON object");
  const plain = (value) => text(value) && !/\p{Surrogate}/u.test(value);
  const rules = {
    anchor_signers: (value) => isObject(value) && Object.values(value).every(listOf(plain)),
    checkpoint: nullOr(plain),
    logs: listOf(plain),
    witness_quorum: (value) => count(value) && Number.isInteger(value),
    witnesses: listOf(plain),
  };
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(rules, name)) throw wrong(`${name} is no key of such a file`);
    if (!rules[name](value)) throw wrong(`${name} has another form`);
  }
  return { ...NO_TRUST, ...given };
}

// Keys "<name>+<key id>+<base64 of type and key>" of logs and witnesses, each text once: [{name, type, key, id}].
async function trustedKeys(trust) {
  const found = new Map();
  const owners = new Map();
  for (const [role, type] of [["logs", 1], ["witnesses", 4]]) {
    for (const written of trust[role]) {
      const [, name = "", stated = "", encoded = ""] = /^([^+]*)(?:\+([^+]*)(?:\+(.*))?)?$/s.exec(written);
      const bytes = fromBase64(encoded);
      const id = (await digest("SHA-256", joined(bytesOf(`${name}\n`), bytes))).subarray(0, 4);
      const plain = /^[^\p{C}\p{Z}]+$/u.test(name);
      const fits = plain && bytes.length === 33 && bytes[0] === type && stated === hexOf(id);
      require(fits, `not a key of ${role}:  ${JSON.stringify(written)}`);
      const y = littleEndian(bytes.subarray(1)) & (2n ** 255n - 1n);
      require(y < PRIME && !SMALL_ORDER_Y.includes(y), `the key of ${name} is not a point of the curve, or is of small order`);
      const key = hexOf(bytes.subarray(1));
      const owner = `${type} ${name}`;
      if (!owners.has(key)) owners.set(key, owner);
      require(owners.get(key) === owner, `the key of ${name} has another name too, or is both a log and a witness`);
      found.set(written, { name, type, key: bytes.subarray(1), id: hexOf(id) });
    }
  }
  return [...found.values()];
}

// Open a signed note: its text, and which of these keys signed it. Signatures of other keys or types are not read.
async function openNote(note, keys) {
  const blank = note.lastIndexOf("\n\n");
  const lines = blank < 0 ? "" : note.slice(blank + 2);
  const parts = lines.replace(/\n$/, "").split("\n").map((line) => line.split(" "));
  const wellFormed = lines.endsWith("\n") && parts.every((part) => part.length === 3 && part[0] === "\u2014" && part[1]);
  require(wellFormed && !/[\0-\x09\x0b-\x1f]/.test(note), "no signed note");
  require(parts.length <= MAX_SIGNATURES, `a note with ${parts.length} signatures, more than ${MAX_SIGNATURES}`);
  require(parts.every(([, name]) => !/[+\x85\p{Z}]/u.test(name)), "no signed note: a signature has a name that no key can have");
  const signatures = parts.map(([, name, encoded]) => ({ name, bytes: fromBase64(encoded) }));
  require(signatures.every(({ bytes }) => bytes.length > 4), "no signed note: a signature is cut");
  const body = `${note.slice(0, blank)}\n`;
  const signers = [];
  for (const { name, type, key, id } of keys) {
    const own = signatures.find((one) => one.name === name && hexOf(one.bytes.subarray(0, 4)) === id);
    if (!own) continue;
    let signature = own.bytes.subarray(4);
    let signed = body;
    if (type === 4) {
      require(!(signature[0] & 128), `the signature by ${name} is of a time that no clock shows`);
      const time = signature.subarray(0, 8).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
      signed = `cosignature/v1\ntime ${time}\n${body}`;
      signature = signature.subarray(8);
    }
    await checkSignature(key, bytesOf(signed), signature, name);
    signers.push({ name, type });
  }
  return { body, signers };
}

// Read a checkpoint that the log in its first line signed; the log's key must be trusted.
async function readCheckpoint(note, keys) {
  const { body, signers } = await openNote(note, keys);
  const found = /^([^\n]+)\n(0|[1-9][0-9]{0,15})\n([^\n]+)\n(?:[^\n]+\n)*$/.exec(body);
  require(found && Number(found[2]) <= SAFE, "no checkpoint of a log");
  const [, origin, size, encoded] = found;
  const root = fromBase64(encoded);
  require(root.length === 32, "the root in the checkpoint is no SHA-256");
  const own = signers.some(({ name, type }) => name === origin && type === 1);
  require(own, `the checkpoint of ${JSON.stringify(origin)} is not signed by that log, or you do not trust its key`);
  const witnesses = new Set(signers.filter(({ type }) => type === 4).map(({ name }) => name));
  return { origin, size: Number(size), root, witnesses };
}
