// Documents of the server, or those that a page of one file holds. Both have the schemas that
// `backfeed help json` lists.

const asked = new Map<string, Promise<unknown>>();

// load returns a document, which is read once.
export function load<T>(name: string): Promise<T> {
	let document = asked.get(name);
	if (document === undefined) {
		document = read(name);
		asked.set(name, document);
	}
	return document as Promise<T>;
}

async function read(name: string): Promise<unknown> {
	const inside = document.getElementById("data-" + name);
	if (inside !== null) {
		return JSON.parse(inside.textContent ?? "");
	}
	const answer = await fetch("/data/" + name);
	if (!answer.ok) {
		throw new Error(name + ": " + (await answer.text()));
	}
	return answer.json();
}
