// Merkle trees of RFC 9162, section 2.1: the hash of a leaf begins with a zero byte, that of a node with a one.

function leafOf(line) {
  const hash = new Uint8Array(32);
  hashInto(0, line, hash, 0);
  return hash;
}

function nodeOf(left, right) {
  const hash = new Uint8Array(32);
  hashInto(1, joined(left, right), hash, 0);
  return hash;
}

// Level by level in one array; an odd node at the end of a level moves up unchanged.
function merkleRoot(lines) {
  const nodes = new Uint8Array(32 * Math.max(1, lines.length));
  if (!lines.length) hashInto(-1, new Uint8Array(0), nodes, 0);
  lines.forEach((line, at) => hashInto(0, line, nodes, 32 * at));
  for (let count = lines.length; count > 1; count = Math.ceil(count / 2)) {
    for (let at = 0; at + 1 < count; at += 2) hashInto(1, nodes.subarray(32 * at, 32 * at + 64), nodes, 16 * at);
    if (count % 2) nodes.copyWithin(16 * (count - 1), 32 * (count - 1), 32 * count);
  }
  return `sha256:${hexOf(nodes.subarray(0, 32))}`;
}

// Largest power of two below a size; sizes go up to 2**53, so no shifts.
function _split(size) {
  let left = 1;
  while (2 * left < size) left *= 2;
  return left;
}

// The root of a tree of `size` leaves that a proof gives for a leaf. The proof is read from its end, and the tree from its root.
function rootByInclusion(leaf, index, size, proof) {
  require(index >= 0 && index < size && proof.length > 0 === size > 1, `no proof of leaf ${index} among ${size}`);
  if (size === 1) return leaf;
  const rest = proof.slice(0, -1);
  const sibling = proof[proof.length - 1];
  const left = _split(size);
  if (index < left) return nodeOf(rootByInclusion(leaf, index, left, rest), sibling);
  return nodeOf(sibling, rootByInclusion(leaf, index - left, size - left, rest));
}

// The roots of the first `first` and of all `size` entries that a consistency proof joins. `old` is the root of the former while
// the subtree begins with the first entry; for other subtrees the proof has the root.
function rootsByConsistency(first, size, proof, old) {
  if (first === size) {
    require(proof.length === (old ? 0 : 1), "the proof has another length");
    const root = old ?? proof[0];
    return [root, root];
  }
  require(first > 0 && first < size && proof.length, `no proof from ${first} to ${size} entries`);
  const rest = proof.slice(0, -1);
  const sibling = proof[proof.length - 1];
  const left = _split(size);
  if (first <= left) {
    const [before, after] = rootsByConsistency(first, left, rest, old);
    return [before, nodeOf(after, sibling)];
  }
  const [before, after] = rootsByConsistency(first - left, size - left, rest, null);
  return [nodeOf(sibling, before), nodeOf(sibling, after)];
}
