// What is checked breaks a rule; and: there is nothing to check, or no key to check it by.

class Broken extends Error {}
class NoInput extends Error {}

function require(holds, text) {
  if (!holds) throw new Broken(typeof text === "function" ? text() : text);
}

// Rules are [text, whether it holds]; the sentence names those that do not.
function requireAll(rules, where) {
  const broken = rules.filter(([, holds]) => !holds).map(([text]) => text);
  if (broken.length) throw new Broken(`${where}: it does not hold that ${broken.join(", that ")}`);
}

// What is wrong by a check, or null. Whatever else is thrown is a fault of this page, and is shown as one.
async function faultOf(check) {
  try {
    await check();
  } catch (error) {
    if (error instanceof Broken) return error.message;
    throw error;
  }
  return null;
}
