// The anchor: a Solana transaction whose memo is the manifest hash. It shows that a key signed. Only the chain can say whether it
// accepted the transaction.

const MEMO_PROGRAMS = [
  "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
  "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
  "Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH",
];

// A transaction is read from its front, and no byte may be left.
class Packet {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  get rest() {
    return this.bytes.subarray(this.at);
  }

  take(count) {
    require(count <= this.bytes.length - this.at, "the transaction is cut");
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  // A "compact-u16": seven bits a byte, lowest first, in its shortest form.
  length() {
    let length = 0;
    for (const shift of [0, 7, 14]) {
      const [byte] = this.take(1);
      length += (byte & 127) << shift;
      if (byte < 128) {
        require(length < 65_536 && (byte || !shift), "a length in the transaction has another form");
        return length;
      }
    }
    throw new Broken("a length in the transaction is too long");
  }

  list(size) {
    return Array.from({ length: this.length() }, () => this.take(size));
  }
}

// Read a transaction that a chain could accept: its first signature, and each memo with the keys that signed it. Every signature
// is checked.
async function readTransaction(bytes) {
  require(bytes.length <= 1232, "no transaction is so long");
  const packet = new Packet(bytes);
  const signatures = packet.list(64);
  const message = packet.rest;
  const versioned = message[0] === 0x80; // version 0; a legacy message begins with the count of its signers
  if (versioned) packet.take(1);
  const [signed, frozenSigners, frozenOthers] = packet.take(3); // frozen signers may write to no account
  const keys = packet.list(32);
  packet.take(32); // hash of a recent block
  require(
    frozenSigners < signed && signed === signatures.length && signed + frozenOthers <= keys.length,
    "a transaction has a signature for every signer that its header counts, and a key for each",
  );
  for (let at = 0; at < signed; at += 1) {
    const name = base58(keys[at]);
    await checkSignature(keys[at], message, signatures[at], name);
    // Otherwise no chain accepts it: nodes refuse a commitment of small order.
    require(!ofSmallOrder(pointOf(signatures[at].subarray(0, 32))), `the signature by ${name} commits to nothing`);
  }
  const memos = [];
  for (let left = packet.length(); left; left -= 1) {
    const [program] = packet.take(1);
    const accounts = packet.take(packet.length());
    const memo = packet.take(packet.length());
    const known = program > 0 && program < keys.length && accounts.every((account) => account < keys.length);
    require(known, "an instruction calls the payer, or names a key that is not there");
    if (!MEMO_PROGRAMS.includes(base58(keys[program]))) continue;
    memos.push({ memo, signers: [...accounts].filter((account) => account < signed).map((account) => base58(keys[account])) });
  }
  const whole = versioned ? packet.rest.length === 1 && packet.rest[0] === 0 : packet.rest.length === 0;
  require(whole, "the transaction names tables or has bytes left over");
  return { signature: base58(signatures[0]), memos };
}

async function checkAnchor({ parts, manifestHash, trust }) {
  const { cluster, signature, transaction } = shaped(parts["anchor.json"], ANCHOR, "the anchor");
  const sent = await readTransaction(fromBase64(transaction));
  require(sent.signature === signature, `the transaction is ${sent.signature}, but the record has ${signature}`);
  const own = bytesOf(manifestHash);
  const signers = new Set(sent.memos.filter(({ memo }) => sameBytes(memo, own)).flatMap((memo) => memo.signers));
  require(signers.size, `no memo of the transaction is ${manifestHash}, or nobody signed it`);
  const keys = Object.hasOwn(trust.anchor_signers, cluster) ? trust.anchor_signers[cluster] : [];
  const trusted = [...signers].filter((signer) => keys.includes(signer));
  require(trusted.length, `${[...signers].sort().join(", ")} signed, whom you do not trust to anchor on ${JSON.stringify(cluster)}`);
  return { "signed by": trusted.sort().join(", "), chain: cluster, signature };
}
