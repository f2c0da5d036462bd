// SHA-256. WebCrypto hashes whole files, and SHA-512 for signatures. It is asynchronous, which is too slow for the hundreds of
// thousands of short lines and nodes of two Merkle trees. Those are hashed here (FIPS 180-4), and `selfTest` compares both.

const _PRIMES = [];
for (let number = 2; _PRIMES.length < 64; number += 1) if (_PRIMES.every((prime) => number % prime)) _PRIMES.push(number);

// The first 32 bits of the fraction of a root, by integers, because engines may round differently.
function _fractionOfRoot(prime, degree) {
  const target = BigInt(prime) << BigInt(32 * degree);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(degree) <= target) low = middle;
    else high = middle;
  }
  return Number(BigInt.asIntN(32, low));
}

const _ROUNDS = Int32Array.from(_PRIMES, (prime) => _fractionOfRoot(prime, 3));
const _START = Int32Array.from(_PRIMES.slice(0, 8), (prime) => _fractionOfRoot(prime, 2));
const _words = new Int32Array(64);
const _registers = new Int32Array(8);
const _tail = new Uint8Array(128);

function _block(data, at) {
  const w = _words;
  for (let i = 0; i < 16; i += 1, at += 4) w[i] = (data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3];
  for (let i = 16; i < 64; i += 1) {
    const x = w[i - 15];
    const y = w[i - 2];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
  }
  let [a, b, c, d, e, f, g, h] = _registers;
  for (let i = 0; i < 64; i += 1) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + _ROUNDS[i] + w[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  const s = _registers;
  s[0] += a;
  s[1] += b;
  s[2] += c;
  s[3] += d;
  s[4] += e;
  s[5] += f;
  s[6] += g;
  s[7] += h;
}

// Hash a first byte (none if negative) and then `data`, and write the 32 bytes of the hash to `out` at a place.
function hashInto(first, data, out, place) {
  _registers.set(_START);
  const length = data.length + (first < 0 ? 0 : 1);
  let at = 0;
  if (first >= 0 && data.length >= 63) {
    _tail[0] = first;
    _tail.set(data.subarray(0, 63), 1);
    _block(_tail, 0);
    at = 63;
  }
  for (; at + 64 <= data.length; at += 64) _block(data, at);
  let used = 0;
  if (first >= 0 && data.length < 63) _tail[used++] = first;
  for (; at < data.length; at += 1) _tail[used++] = data[at];
  _tail[used++] = 128;
  const end = used > 56 ? 128 : 64;
  _tail.fill(0, used, end);
  const high = Math.floor(length / 2 ** 29);
  for (let i = 0; i < 4; i += 1) {
    _tail[end - 8 + i] = high >>> (24 - 8 * i);
    _tail[end - 4 + i] = (length * 8) >>> (24 - 8 * i);
  }
  for (let i = 0; i < end; i += 64) _block(_tail, i);
  for (let i = 0; i < 32; i += 1) out[place + i] = _registers[i >> 2] >>> (24 - 8 * (i & 3));
}

async function digest(name, bytes) {
  return new Uint8Array(await crypto.subtle.digest(name, bytes));
}

// The project's text form of a hash.
async function sha256(bytes) {
  return `sha256:${hexOf(await digest("SHA-256", bytes))}`;
}

async function selfTest() {
  if (!globalThis.crypto?.subtle) throw new NoInput("this browser offers WebCrypto only to pages from a disk or by HTTPS");
  for (let length = 0; length < 200; length += 1) {
    const data = Uint8Array.from({ length }, (_, at) => (at * 7 + length) & 255);
    const plain = new Uint8Array(32);
    const leaf = new Uint8Array(32);
    hashInto(-1, data, plain, 0);
    hashInto(1, data, leaf, 0);
    const same = sameBytes(plain, await digest("SHA-256", data)) && sameBytes(leaf, await digest("SHA-256", joined([1], data)));
    if (!same) throw new Error("this browser computes SHA-256 in two ways: trust none of its verdicts");
  }
}
