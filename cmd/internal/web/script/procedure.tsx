// The page of a procedure: source, code and flow graph show each other what the pointer is at, and
// keys lead from one hot block to the next.
import { signal } from "@preact/signals";
import { render } from "preact";
import { bind } from "./keys";
import { chosen, hovered } from "./linked";

// within scrolls a part of the page so that an element of it is seen, and leaves the page alone.
function within(part: Element | null, element: Element | null | undefined): void {
	if (!part || !element) {
		return;
	}
	const p = part.getBoundingClientRect(), e = element.getBoundingClientRect();
	const head = 60; // pixels that stay in view above
	if (e.top < p.top + head || e.top > p.bottom - 40) {
		part.scrollTop += e.top - p.top - head;
	}
}

// unfold opens what an element is folded away in.
function unfold(element: Element): void {
	for (let fold = element.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) {
		fold.open = true;
	}
}

const blockOf = (row: Element | null) => row?.closest<HTMLElement>("[data-block]")?.dataset.block ?? null;

function Find({ panes }: { panes: HTMLElement }) {
	const said = signal("");
	let at = -1, last = "", rows: Element[] = [];
	const find = (text: string, step: number) => {
		if (text !== last) {
			for (const row of rows) {
				row.classList.remove("found");
			}
			last = text;
			at = -1;
			const wanted = text.toLowerCase();
			rows = wanted === "" ? [] : [...panes.querySelectorAll("tr:not(.block)")].filter((row) => row.textContent?.toLowerCase().includes(wanted));
			for (const row of rows) {
				row.classList.add("found");
			}
		}
		if (rows.length === 0) {
			said.value = text === "" ? "" : "nothing";
			return;
		}
		at = (at + step + rows.length) % rows.length;
		const row = rows[at]!;
		unfold(row);
		within(row.closest(".listing"), row);
		for (const r of rows) {
			r.classList.toggle("current", r === row);
		}
		said.value = at + 1 + " of " + rows.length;
	};
	return (
		<form role="search" class="find" onSubmit={(e) => e.preventDefault()}>
			<label>Find in source and code <input type="search" id="code-search" onInput={(e) => find(e.currentTarget.value, 1)}
				onKeyDown={(e) => {
					if (e.key === "Enter") {
						e.preventDefault();
						find(e.currentTarget.value, e.shiftKey ? -1 : 1);
					}
				}} /></label> <output>{said}</output>
		</form>
	);
}

// procedure links the parts.
export function procedure(panes: HTMLElement): void {
	const code = panes.querySelector(".listing:not(.source)"), source = panes.querySelector(".listing.source");
	if (code === null) {
		return;
	}
	const byLine = new Map<string, HTMLElement[]>(), lines = new Map<string, HTMLElement>();
	for (const row of code.querySelectorAll<HTMLElement>("tr[data-line]")) {
		const key = row.dataset.line ?? "";
		byLine.set(key, [...(byLine.get(key) ?? []), row]);
	}
	for (const row of source?.querySelectorAll<HTMLElement>("tr[data-line]") ?? []) {
		lines.set(row.dataset.line ?? "", row);
	}
	const listed = new Map<string, HTMLElement>();
	for (const row of document.querySelectorAll<HTMLElement>(".hot tr[data-block]")) {
		listed.set(row.dataset.block ?? "", row);
	}
	const hot = [...listed.keys()];

	let lit: Element[] = [];
	const light = (elements: (Element | null | undefined)[]) => {
		for (const e of lit) {
			e.classList.remove("linked");
		}
		lit = elements.filter((e): e is Element => e !== null && e !== undefined);
		for (const e of lit) {
			e.classList.add("linked");
		}
	};
	panes.addEventListener("pointerover", (event) => {
		const row = (event.target as Element).closest<HTMLElement>("tr");
		const line = row?.dataset.line, block = blockOf(row);
		const rows = line === undefined ? [] : byLine.get(line) ?? [];
		light([...rows, line === undefined ? null : lines.get(line), block === null ? null : listed.get(block)]);
		hovered.value = source?.contains(row) ? [...new Set(rows.map(blockOf))].filter((b): b is string => b !== null) : block === null ? [] : [block];
	});
	panes.addEventListener("pointerleave", () => {
		light([]);
		hovered.value = [];
	});
	panes.addEventListener("click", (event) => {
		const target = event.target as Element, row = target.closest<HTMLElement>("tr");
		if (row === null || target.closest("a, summary") || getSelection()?.isCollapsed === false) {
			return;
		}
		const line = row.dataset.line;
		if (source?.contains(row)) {
			const rows = line === undefined ? [] : byLine.get(line) ?? [];
			const first = rows.find((r) => !r.closest("details:not([open])")) ?? rows[0];
			if (first) {
				unfold(first);
				within(code, first);
				chosen.value = blockOf(first);
			}
			return;
		}
		within(source, line === undefined ? null : lines.get(line));
		chosen.value = blockOf(row) ?? chosen.value;
	});

	// show brings a block into view, in code and source.
	const show = (block: string) => {
		const body = document.getElementById(block);
		if (!body) {
			return;
		}
		unfold(body);
		within(code, body);
		const line = body.querySelector<HTMLElement>("tr[data-line]")?.dataset.line;
		within(source, line === undefined ? null : lines.get(line));
	};
	let marked: Element[] = [];
	chosen.subscribe((block) => {
		for (const e of marked) {
			e.classList.remove("chosen");
		}
		marked = block === null ? [] : [document.getElementById(block), listed.get(block)].filter((e): e is HTMLElement => e instanceof HTMLElement);
		for (const e of marked) {
			e.classList.add("chosen");
		}
	});
	const step = (by: number) => {
		if (hot.length === 0) {
			return;
		}
		const at = hot.indexOf(chosen.value ?? "");
		const next = hot[Math.max(0, Math.min(hot.length - 1, at < 0 ? 0 : at + by))]!;
		chosen.value = next;
		panes.scrollIntoView({ block: "nearest" });
		show(next);
	};
	bind("j", "the next hottest block", () => step(1));
	bind("k", "the hotter block before", () => step(-1));
	const arrive = () => {
		const id = location.hash.slice(1), target = id === "" ? null : document.getElementById(id);
		if (target && panes.contains(target)) {
			unfold(target);
			if (target.dataset.block !== undefined) {
				chosen.value = target.dataset.block;
				show(target.dataset.block);
			}
			target.scrollIntoView({ block: "nearest" });
		}
	};
	addEventListener("hashchange", arrive);
	arrive();
	const bar = document.createElement("div");
	panes.before(bar);
	render(<Find panes={panes} />, bar);
	bind("/", "find in source and code", () => {
		const input = document.getElementById("code-search");
		input?.scrollIntoView({ block: "nearest" });
		input?.focus();
	});
}
