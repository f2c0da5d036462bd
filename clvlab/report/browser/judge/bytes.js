// Bytes and texts: UTF-8 both ways, hex, base64 and base58, each read strictly.

const _utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }); // a byte order mark is an ordinary character
const _encoder = new TextEncoder();

const bytesOf = (text) => _encoder.encode(text);

function textOf(bytes) {
  try {
    return _utf8.decode(bytes);
  } catch {
    throw new Broken("it is not UTF-8 text");
  }
}

function sameBytes(one, two) {
  return one.length === two.length && one.every((byte, at) => byte === two[at]);
}

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

// Limits of sealed data. They are checked before anything is split; no file of a sealed run exceeds them.
const MAX_BYTES = 4 * 2 ** 30;
const MAX_LINE_BYTES = 4 * 2 ** 20;
const MAX_STARTED_BYTES = 32 * 2 ** 20;
const MIN_MEAN_LINE_BYTES = 64;
const MAX_DISCLOSURE_BYTES = 2 * (MAX_STARTED_BYTES + 5 * MAX_LINE_BYTES);
const PART_LIMITS = { "context.json": MAX_LINE_BYTES, "manifest.json": 2 ** 20, "anchor.json": 2 ** 20, "log.json": 2 ** 20, "stamps.json": 2 ** 20, "commit.tlog-proof": 2 ** 20, "outcome.tlog-proof": 2 ** 20, "checkpoint.ots": 2 ** 16, "earlier.ots": 2 ** 16, "seat.json": 2 ** 26 };

const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

function countLines(bytes) {
  let lines = 0;
  for (let at = 0; at < bytes.length; at += 1) if (bytes[at] === 10) lines += 1;
  return lines;
}

function checkSize(size, name) {
  const limit = PART_LIMITS[name] ?? MAX_BYTES;
  require(size <= limit, `${name} has ${grouped(size)} bytes, the limit is ${grouped(limit)}`);
}

// Require the lines to be within the limits of number and length, the first with its own limit; return their number.
function checkLines(bytes, name, first = MAX_LINE_BYTES) {
  checkSize(bytes.length, name);
  const lines = countLines(bytes);
  require(lines * MIN_MEAN_LINE_BYTES <= bytes.length, `${name} has ${grouped(lines)} lines in ${grouped(bytes.length)} bytes: too many`);
  let from = bytes.subarray(0, first + 1).indexOf(10) + 1;
  require(from || !bytes.length, `line 1 of ${name} has more than ${grouped(first)} bytes`);
  while (from < bytes.length) {
    const feed = bytes.subarray(from, from + MAX_LINE_BYTES + 1).lastIndexOf(10); // every line before it is short enough
    require(feed >= 0, `a line of ${name} has more than ${grouped(MAX_LINE_BYTES)} bytes`);
    from += feed + 1;
  }
  return lines;
}

// A text is a sequence of lines without their line feeds; the last line feed begins no further line. A caller that reads lines
// one by one may refuse the first before the others are split.
function* eachLine(bytes) {
  let from = 0;
  while (from < bytes.length) {
    const feed = bytes.indexOf(10, from);
    const end = feed < 0 ? bytes.length : feed;
    yield bytes.subarray(from, end);
    from = end + 1;
  }
}

const linesOf = (bytes) => [...eachLine(bytes)];

// Base64 has several spellings of the same bytes (spaces, missing padding, unused bits): only the canonical one counts.
function fromBase64(text) {
  const fits = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text);
  require(fits && btoa(atob(text)) === text, () => `not canonical base64:  ${text.slice(0, 60)}`);
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

// Keys and signatures in Solana's form: a number in base 58, and a "1" for each zero byte at the front.
function base58(bytes) {
  const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let number = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = "";
  for (; number > 0n; number /= 58n) text = digits[Number(number % 58n)] + text;
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return "1".repeat(zeros < 0 ? bytes.length : zeros) + text;
}
