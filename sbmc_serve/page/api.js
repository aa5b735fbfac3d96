// What the page asks of the server, and the words for what can go wrong.

const PATIENCE = 20_000; // milliseconds until a request counts as lost
const WAITS = [1000, 2000, 4000, 8000]; // before each further attempt

// The server does not answer, or is too busy to: worth another attempt.
export class Lost extends Error {}

async function ask(address, options = {}) {
  let response;
  try {
    response = await fetch(address, { ...options, signal: AbortSignal.timeout(PATIENCE) });
  } catch (error) {
    throw new Lost(error.name === "TimeoutError" ? "The server takes too long to answer." : "The server does not answer.");
  }
  let body = null;
  try {
    body = await response.json();
  } catch {
    throw new Lost("The server's answer broke off.");
  }
  if (response.ok) return body;
  const words = body?.message ?? `The server answered with status ${response.status}.`;
  const busy = response.status === 429 || response.status >= 500;
  throw new (busy ? Lost : Error)(words);
}

export const fetchInfo = () => ask("info");

const predict = (body) =>
  ask("predict", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

// Asks for predictions one at a time. While an answer is awaited, only the newest question waits for its turn,
// so that the server is never flooded, and no answer can overtake a later one.
export class Questions {
  #next = null;
  #asking = false;
  #attempt = 0;
  #timer = null;

  constructor({ answered, failed, lost }) {
    Object.assign(this, { answered, failed, lost });
  }

  // `question` is {body, ...}; whatever else it has comes back with the answer.
  ask(question) {
    this.#next = question;
    clearTimeout(this.#timer);
    this.#go();
  }

  // Do not wait for the next attempt.
  retry() {
    clearTimeout(this.#timer);
    this.#go();
  }

  async #go() {
    if (this.#asking || !this.#next) return;
    const question = this.#next;
    this.#next = null;
    this.#asking = true;
    let answer;
    try {
      answer = await predict(question.body);
    } catch (error) {
      this.#asking = false;
      if (error instanceof Lost) {
        this.#next ??= question;
        const wait = WAITS[Math.min(this.#attempt, WAITS.length - 1)];
        this.#attempt += 1;
        this.#timer = setTimeout(() => this.#go(), wait);
        this.lost(error.message);
      } else {
        this.#attempt = 0;
        this.failed(error.message);
        this.#go();
      }
      return;
    }
    this.#asking = false;
    this.#attempt = 0;
    this.answered(answer, question);
    this.#go();
  }
}
