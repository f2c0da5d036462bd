// Ed25519 signatures (RFC 8032, section 5.1.7), without the cofactor, on points in extended coordinates. Browsers with Ed25519 in
// WebCrypto differ for keys of small order and unusual encodings. Verdicts must not differ, so the arithmetic is here.

const PRIME = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const _D = _mod(-121665n * _power(121666n, PRIME - 2n));
const _ROOT_OF_MINUS_ONE = _power(2n, (PRIME - 1n) / 4n);
const _ZERO = [0n, 1n, 1n, 0n];
const _BASE = pointOf(Uint8Array.of(0x58, ...new Array(31).fill(0x66)));

function _mod(number) {
  const rest = number % PRIME;
  return rest < 0n ? rest + PRIME : rest;
}

function _power(base, exponent) {
  let found = 1n;
  for (let square = base; exponent; exponent >>= 1n, square = _mod(square * square)) {
    if (exponent & 1n) found = _mod(found * square);
  }
  return found;
}

function littleEndian(bytes) {
  return bytes.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n);
}

function _sum([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const a = _mod((y1 - x1) * (y2 - x2));
  const b = _mod((y1 + x1) * (y2 + x2));
  const c = _mod(2n * _mod(t1 * t2) * _D);
  const d = _mod(2n * z1 * z2);
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [_mod(e * f), _mod(g * h), _mod(f * g), _mod(e * h)];
}

function multiple(number, point) {
  let found = _ZERO;
  for (let doubled = point; number; number >>= 1n, doubled = _sum(doubled, doubled)) {
    if (number & 1n) found = _sum(found, doubled);
  }
  return found;
}

// Decode a point; an encoding that an encoder would not write is refused.
function pointOf(bytes) {
  const number = littleEndian(bytes);
  const y = number & (2n ** 255n - 1n);
  const odd = number >> 255n;
  const square = _mod((y * y - 1n) * _power(_mod(_D * y * y + 1n), PRIME - 2n));
  let x = _power(square, (PRIME + 3n) / 8n);
  if (_mod(x * x) !== square) x = _mod(x * _ROOT_OF_MINUS_ONE);
  require(y < PRIME && _mod(x * x) === square && (x || !odd), "no point of the curve");
  if ((x & 1n) !== odd) x = PRIME - x;
  return [x, y, 1n, _mod(x * y)];
}

// Eight times a point of small order is the neutral point. Anybody can sign with such a key, and such a commitment binds nobody.
const ofSmallOrder = (point) => multiple(8n, point)[0] === 0n;

async function checkSignature(key, message, signature, name) {
  require(key.length === 32 && signature.length === 64, `the key or signature of ${name} has another length`);
  const start = signature.subarray(0, 32);
  const [own, commitment, scalar] = [pointOf(key), pointOf(start), littleEndian(signature.subarray(32))];
  require(!ofSmallOrder(own), `the key of ${name} is of small order`);
  const challenge = littleEndian(await digest("SHA-512", joined(start, key, message))) % ORDER;
  const left = multiple(scalar, _BASE);
  const right = _sum(commitment, multiple(challenge, own));
  const same = [0, 1].every((at) => _mod(left[at] * right[2] - right[at] * left[2]) === 0n);
  require(same && scalar < ORDER, `the signature by ${name} does not hold`);
}
