// The site's own search: runs its web worker, and prints for each term the pages that it finds, best first, as JSON.
//     node site_search.js SITE TERM...
const fs = require("fs");
const vm = require("vm");

const [site, ...terms] = process.argv.slice(2);
const workers = `${site}/assets/javascripts/workers`;
const worker = fs.readdirSync(workers).find((name) => name.startsWith("search") && name.endsWith(".js"));
const index = JSON.parse(fs.readFileSync(`${site}/search/search_index.json`));

const replies = [];
const page = { console, setTimeout, TextEncoder, URL, performance, location: { href: "http://site/worker.js" } };
Object.assign(page, { self: page, window: page, globalThis: page, document: { baseURI: "http://site/" } });
page.addEventListener = (_, listener) => (page.listen = listener);
page.postMessage = (message) => replies.push(message);
page.importScripts = () => {};
vm.runInNewContext(fs.readFileSync(`${workers}/${worker}`, "utf8"), page);

const [SETUP, QUERY, RESULT] = [0, 2, 3]; // the kinds of messages of mkdocs-material's worker
const sent = async (type, data) => {
  replies.length = 0;
  await page.listen({ data: { type, data } });
  return replies;
};

(async () => {
  await sent(SETUP, { config: index.config, docs: index.docs, options: { suggest: false } });
  const found = {};
  for (const term of terms) {
    const { items } = (await sent(QUERY, term)).find(({ type }) => type === RESULT).data;
    found[term] = items.map(([section]) => section.location.split("#")[0]);
  }
  console.log(JSON.stringify(found));
})();
