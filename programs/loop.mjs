// Clients of one event loop, which does everything on one thread: usage: loop CLIENTS SECONDS
const [clients, seconds] = process.argv.slice(2).map(Number);
let done = 0;
let stop = false;

function renderPage(seed) {
  let x = seed;
  for (let i = 0; i < 60000; i++) x = (x * 1103515245 + 12345) & 0x7fffffff;
  return x;
}

async function client(number) {
  while (!stop) {
    await new Promise((go) => setTimeout(go, 1));
    renderPage(number);
    done++;
  }
}

const all = Array.from({ length: clients }, (_, number) => client(number));
const begin = performance.now();
setTimeout(() => { stop = true; }, seconds * 1000);
await Promise.all(all);
console.log(`${(done / ((performance.now() - begin) / 1000)).toFixed(1)} operations/s`);
