// The judge works in a worker made from this page's own text, so that the page stays responsive.

class Judge {
  constructor(source) {
    this.waiting = new Map();
    this.count = 0;
    this.dead = null;
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = ({ message }) => this.fail(message ?? "this browser started no worker");
  }

  // Ask a question. The answer is a promise; reports of progress come before it.
  ask(question, given = {}, { onProgress = () => {} } = {}) {
    const id = (this.count += 1);
    return new Promise((answer, refuse) => {
      if (this.dead) return refuse(new Error(this.dead));
      this.waiting.set(id, { answer, refuse, onProgress });
      this.worker.postMessage({ id, question, given });
    });
  }

  hear({ id, answer, refused, noRun, progress }) {
    const asked = this.waiting.get(id);
    if (progress) return asked.onProgress(progress);
    this.waiting.delete(id);
    if (refused === undefined) return asked.answer(answer);
    return asked.refuse(Object.assign(new Error(refused), { noRun }));
  }

  fail(why) {
    this.dead = why;
    for (const { refuse } of this.waiting.values()) refuse(new Error(why));
    this.waiting.clear();
  }
}

const judge = new Judge(the("judge").textContent);
