// Bytes and texts: UTF-8 both ways, hex, base64 and base58, each read strictly.

const _utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }); // a mark of byte order is a character like any other
const _encoder = new TextEncoder();

const bytesOf = (text) => _encoder.encode(text);

function textOf(bytes) {
  try {
    return _utf8.decode(bytes);
  } catch {
    throw new Broken("it is no text in UTF-8");
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

// A text is a list of lines without their line feeds; after the last line feed begins no further line.
function linesOf(bytes) {
  const lines = [];
  let from = 0;
  while (from < bytes.length) {
    const feed = bytes.indexOf(10, from);
    const end = feed < 0 ? bytes.length : feed;
    lines.push(bytes.subarray(from, end));
    from = end + 1;
  }
  return lines;
}

// Base64 has other spellings of the same bytes (spaces, missing padding, idle bits): only the one that is written again counts.
function fromBase64(text) {
  const fits = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text);
  require(fits && btoa(atob(text)) === text, () => `no canonical base64: ${text.slice(0, 60)}`);
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

// Keys and signatures as Solana writes them: a number in base 58, and a "1" for each zero byte at the front.
function base58(bytes) {
  const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let number = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = "";
  for (; number > 0n; number /= 58n) text = digits[Number(number % 58n)] + text;
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return "1".repeat(zeros < 0 ? bytes.length : zeros) + text;
}
