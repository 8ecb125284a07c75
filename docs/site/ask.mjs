// Prints the first pages that the search of a site finds, a line of JSON for each query, as the browser finds them:
// node docs/site/ask.mjs build/site "install conda" "crop region of interest"
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const site = resolve(process.argv[2]);
// The parts of a browser that pagefind uses.
globalThis.fetch = async (path) => new Response(await readFile(new URL(path)));
globalThis.window = { location: { origin: "" } };
globalThis.document = {
  currentScript: null,
  getElementById: () => null,
  querySelector: () => ({ getAttribute: () => "en" }),
};

const pagefind = await import(pathToFileURL(`${site}/pagefind/pagefind.js`));
await pagefind.options({ baseUrl: "/" });
const source = await readFile(`${site}/_static/search.js`);
const { find } = await import(`data:text/javascript;base64,${source.toString("base64")}`);
for (const query of process.argv.slice(3)) {
  const found = (await find(pagefind, query)).slice(0, 5);
  const pages = await Promise.all(found.map((result) => result.data()));
  console.log(JSON.stringify(pages.map((page) => page.url.replace(/^\//, ""))));
}
process.exit(0);
