// Errors: the input breaks a rule (`Broken`); there is nothing to check, or no key to check it with (`NoInput`); or the input is
// no run at all (`NoRun`).

class Broken extends Error {}
class NoInput extends Error {}
class NoRun extends NoInput {}

function require(holds, text) {
  if (!holds) throw new Broken(typeof text === "function" ? text() : text);
}

// Rules are [text, whether it holds]; the sentence names the rules that do not hold.
function requireAll(rules, where) {
  const broken = rules.filter(([, holds]) => !holds).map(([text]) => text);
  if (broken.length) throw new Broken(`${where}: it does not hold that ${broken.join(", that ")}`);
}

// The fault that a check found, or null. Any other error is a fault of this page, and is shown as such.
async function faultOf(check) {
  try {
    await check();
  } catch (error) {
    if (error instanceof Broken) return error.message;
    throw error;
  }
  return null;
}
