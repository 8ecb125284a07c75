// Searches the index that pagefind makes of the site. A page need not have all words of a query: each word adds to
// a page's score, rare words more, and pages that have more of the words come first.

// Words that are on most pages and do not distinguish them.
const COMMON = new Set(
  "a an and are as at be by can do does for from how i in into is it my of on or than that the this to what when where which with without".split(" "),
);
// About as many pages as the site has.
const PAGES = 500;

/** Find the pages for a query, best first: pagefind's results. */
export async function find(pagefind, query) {
  const words = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [])];
  const rare = words.filter((word) => !COMMON.has(word));
  const found = new Map();
  for (const word of rare.length ? rare : words) {
    const { results } = await pagefind.search(word);
    const best = Math.max(...results.map((result) => result.score));
    const weight = Math.log(1 + PAGES / results.length);
    for (const result of results) {
      const page = found.get(result.id) ?? { result, words: 0, score: 0, weight: 0 };
      if (weight > page.weight) Object.assign(page, { result, weight });
      page.words += 1;
      page.score += weight * Math.sqrt(result.score / best);
      found.set(result.id, page);
    }
  }
  const order = (page) => page.score * page.words;
  return [...found.values()].sort((a, b) => order(b) - order(a)).map((page) => page.result);
}

/** Write the results of a query as a list. */
async function show(pagefind, query, place) {
  const results = await find(pagefind, query);
  const pages = await Promise.all(results.slice(0, 20).map((result) => result.data()));
  const list = document.createElement("ul");
  list.className = "search";
  for (const page of pages) {
    const item = list.appendChild(document.createElement("li"));
    const link = item.appendChild(document.createElement("a"));
    link.href = page.url;
    link.textContent = page.meta.title.replace(/¶$/, "");
    const excerpt = item.appendChild(document.createElement("p"));
    excerpt.innerHTML = page.excerpt; // pagefind escapes it, and marks the words
  }
  const line = document.createElement("p");
  line.textContent = pages.length
    ? `Pages for "${query}"`
    : `No page has a word of "${query}". The functions and how-to pages are listed on the left.`;
  place.replaceChildren(line, list);
}

async function start() {
  const place = document.getElementById("search-results");
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const site = new URL(document.documentElement.dataset.content_root, location.href);
  for (const box of document.querySelectorAll("input[name=q]")) box.value = query;
  if (!query.trim()) return;
  try {
    const pagefind = await import(new URL("pagefind/pagefind.js", site));
    await pagefind.options({ baseUrl: site.pathname });
    await show(pagefind, query, place);
  } catch (error) {
    place.textContent =
      location.protocol === "file:"
        ? "The search needs a web server: python -m http.server in the folder of the site."
        : `The search failed: ${error}`;
  }
}

if (globalThis.document?.getElementById("search-results")) start();
