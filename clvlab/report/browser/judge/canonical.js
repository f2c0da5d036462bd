// Canonical JSON: RFC 8785 with ASCII keys, integers within 2**53 - 1 and no fractions; a value has exactly one form. The reader
// stops at the first character that this form would not have, so its input need not be written again for comparison.

const MAX_LEVELS = 254;
const _ESCAPES = { '"': '"', "\\": "\\", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const _PLAIN_ESCAPED = /^[\b\f\n\r\t]$/;

class CanonicalReader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  whole() {
    const value = this.value(MAX_LEVELS);
    if (this.at !== this.text.length) this.stop();
    return value;
  }

  stop() {
    throw new Broken(`not canonical at character ${this.at + 1}: ${JSON.stringify(this.text.slice(this.at, this.at + 40))}`);
  }

  value(levels) {
    const { text } = this;
    switch (text.charCodeAt(this.at)) {
      case 34: // "
        return this.string();
      case 91: // [
        return this.list(levels);
      case 123: // {
        return this.object(levels);
      case 110: // n
        return this.word("null", null);
      case 116: // t
        return this.word("true", true);
      case 102: // f
        return this.word("false", false);
      default:
        return this.integer();
    }
  }

  word(name, value) {
    if (!this.text.startsWith(name, this.at)) this.stop();
    this.at += name.length;
    return value;
  }

  integer() {
    const { text } = this;
    const from = this.at;
    const minus = text.charCodeAt(from) === 45;
    let at = from + (minus ? 1 : 0);
    const digits = at;
    let value = 0;
    for (; ; at += 1) {
      const digit = text.charCodeAt(at) - 48;
      if (!(digit >= 0 && digit <= 9)) break;
      value = value * 10 + digit;
    }
    const padded = text.charCodeAt(digits) === 48 && (at - digits > 1 || minus);
    if (at === digits || at - digits > 16 || padded || value > Number.MAX_SAFE_INTEGER) this.stop();
    this.at = at;
    return minus ? -value : value;
  }

  string() {
    const { text } = this;
    let from = this.at + 1;
    let found = "";
    for (let at = from; ; at += 1) {
      const unit = text.charCodeAt(at);
      if (unit === 34) {
        this.at = at + 1;
        return found + text.slice(from, at);
      }
      if (unit === 92) {
        this.at = at;
        found += text.slice(from, at) + this.escape();
        from = this.at;
        at = from - 1;
      } else if (!(unit >= 32)) {
        this.at = at;
        this.stop();
      }
    }
  }

  // A character has an escape only if it needs one, and then the shortest; so no half of a surrogate pair can be written.
  escape() {
    const letter = this.text[this.at + 1];
    if (letter !== "u") {
      if (!Object.hasOwn(_ESCAPES, letter ?? "?")) this.stop();
      this.at += 2;
      return _ESCAPES[letter];
    }
    const hex = this.text.slice(this.at + 2, this.at + 6);
    const char = String.fromCharCode(parseInt(hex, 16));
    if (!/^00[01][0-9a-f]$/.test(hex) || _PLAIN_ESCAPED.test(char)) this.stop();
    this.at += 6;
    return char;
  }

  list(levels) {
    const found = [];
    if (!levels) this.stop();
    this.at += 1;
    if (this.text.charCodeAt(this.at) === 93) {
      this.at += 1;
      return found;
    }
    for (;;) {
      found.push(this.value(levels - 1));
      const unit = this.text.charCodeAt(this.at);
      if (unit !== 44 && unit !== 93) this.stop();
      this.at += 1;
      if (unit === 93) return found;
    }
  }

  object(levels) {
    const found = Object.create(null); // a key may be any name, even __proto__
    let before = null;
    if (!levels) this.stop();
    this.at += 1;
    if (this.text.charCodeAt(this.at) === 125) {
      this.at += 1;
      return found;
    }
    for (;;) {
      if (this.text.charCodeAt(this.at) !== 34) this.stop();
      const key = this.string();
      if (before !== null && !(before < key)) this.stop(); // sorted, without duplicates
      if (this.text.charCodeAt(this.at) !== 58) this.stop();
      this.at += 1;
      if (!/^[\0-\x7f]*$/.test(key)) throw new Broken("a key that is not an ASCII string");
      found[key] = this.value(levels - 1);
      before = key;
      const unit = this.text.charCodeAt(this.at);
      if (unit !== 44 && unit !== 125) this.stop();
      this.at += 1;
      if (unit === 125) return found;
    }
  }
}

const readCanonical = (text) => new CanonicalReader(text).whole();

// Write a value that has a canonical form. JSON.stringify escapes texts as RFC 8785 does, but keeps keys in their order.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const keys = Object.keys(value).sort();
    return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

// Any JSON, such as a file of keys or a manifest that somebody rewrote. Numbers that are not integers become null, because no
// value here may be one; so do those that some programs write outside JSON. Other programs fail at 4,300 digits.
function readAnyJson(bytes) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|-?Infinity|NaN/gs;
  const text = textOf(bytes).replace(tokens, (token) => {
    if (token[0] === '"') return token;
    if (/^-?\d+$/.test(token)) return token.length > 4300 ? "too long" : token;
    return "null";
  });
  try {
    return JSON.parse(text);
  } catch {
    throw new Broken("it is not JSON");
  }
}

// Order of texts by code point, which is the order of their UTF-8 bytes. JavaScript orders by UTF-16 unit, and puts surrogate
// pairs, which encode the highest code points, before U+E000.
function compareTexts(one, two) {
  const end = Math.min(one.length, two.length);
  for (let at = 0; at < end; at += 1) {
    const a = one.charCodeAt(at);
    const b = two.charCodeAt(at);
    if (a !== b) return _rank(a) - _rank(b);
  }
  return one.length - two.length;
}

const _rank = (unit) => (unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x10000 : unit);

// Compare lists of numbers and texts, item by item.
function compareKeys(one, two) {
  for (let at = 0; at < one.length; at += 1) {
    const order = typeof one[at] === "string" ? compareTexts(one[at], two[at]) : one[at] - two[at];
    if (order) return order;
  }
  return 0;
}

// Whether texts are in order, without duplicates.
const ascending = (texts) => texts.every((text, at) => !at || compareTexts(texts[at - 1], text) < 0);
