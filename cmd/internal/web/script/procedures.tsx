// The list of procedures, to filter as one types, and to sort. It stands for the server's
// table, of which it has all pages at once; only the rows in sight are on the page.
import { Component, render } from "preact";
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { computed, signal } from "@preact/signals";
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { Fzf } from "fzf";
import { load } from "./data";
import { bind, listed } from "./keys";
import { count, percent, ratio, seconds } from "./numbers";

// A Procedure is an item of the document report: package report, ProcItem.
type Procedure = {
	id: string; procedure: string; mangled?: string; image: string;
	samples: number; share: number; seconds?: number; cycles: number; stall_cycles: number;
	executions?: number; confidence?: string; cpi?: number; ratio?: number;
	cause?: string; cause_share?: number; confidence_within: string;
};

type Found = { item: Procedure; positions: Set<number> };

type Column = {
	name: string; title: string; note?: string; text?: boolean; // is sorted from A
	left?: boolean; // stands there, as all text does
	wide?: boolean; // left out on narrow screens
	by: (p: Procedure) => number | string | undefined;
	show: (p: Procedure) => string;
};

const confidences = ["none", "low", "medium", "high"];

// columnsOf are those with figures, behind the name and the bar.
function columnsOf(timed: boolean, all: number): Column[] {
	return [
		{ name: "lost", title: "lost", note: "of all cycles: those in its stalls, an estimate with the doubt in how often it ran", by: (p) => p.stall_cycles, show: (p) => (all > 0 ? percent(p.stall_cycles / all) : "-") },
		{ name: "time", title: timed ? "seconds" : "cycles", note: timed ? "of processors" : "that it took", by: (p) => p.cycles, show: (p) => (p.seconds === undefined ? count(p.cycles) : seconds(p.seconds)) },
		{ name: "samples", title: "samples", note: "that lie in it", wide: true, by: (p) => p.samples, show: (p) => String(p.samples) },
		{ name: "executions", title: "executions", note: "how often it was entered, inferred", wide: true, by: (p) => p.executions, show: (p) => count(p.executions) + (p.confidence ? " " + p.confidence : "") },
		{ name: "cpi", title: "CPI", note: "cycles per instruction", wide: true, by: (p) => p.cpi, show: (p) => ratio(p.cpi) },
		{ name: "ratio", title: "actual / ideal", note: "its cycles to the least that its instructions can take", wide: true, by: (p) => p.ratio, show: (p) => ratio(p.ratio) },
		{ name: "cause", title: "likeliest cause", note: "of its stalls, and what of its cycles it explains at most", text: true, wide: true, by: (p) => p.cause, show: (p) => (p.cause ? p.cause + " " + percent(p.cause_share ?? 0) : "-") },
		{ name: "confidence", title: "within-function", note: "within-function confidence of the counts of its blocks: half of its samples lie where it is this or better", wide: true, left: true, by: (p) => confidences.indexOf(p.confidence_within), show: (p) => p.confidence_within },
		{ name: "image", title: "image", text: true, wide: true, by: (p) => base(p.image), show: (p) => short(base(p.image)) },
	];
}

const byName: Column = { name: "procedure", title: "procedure", text: true, by: (p) => p.procedure, show: (p) => p.procedure };

function looks(c: Column): string {
	return (c.text || c.left ? "" : "right ") + (c.wide ? "wideonly" : "");
}

// short is a name that has to fit; the whole is the title of its cell.
function short(name: string): string {
	return name.length > maxImage ? name.slice(0, maxImage - 1) + "…" : name;
}

const maxImage = 14; // letters

function base(path: string): string {
	return path.slice(path.lastIndexOf("/") + 1);
}

// compare puts what is unknown last, whichever way the others go.
function compare(column: Column, back: boolean): (a: Procedure, b: Procedure) => number {
	return (a, b) => {
		const x = column.by(a), y = column.by(b);
		if (x === undefined || y === undefined) {
			return Number(x === undefined) - Number(y === undefined);
		}
		const order = typeof x === "string" && typeof y === "string" ? (x < y ? -1 : x > y ? 1 : 0) : Number(y) - Number(x);
		return back ? -order : order;
	};
}

const rowHeight = 30; // pixels, as .proctable has it

export function procedures(place: HTMLElement): void {
	const inside = document.getElementById("data-report") !== null; // a page of one file
	load<{ items: Procedure[] }>(inside ? "report" : "report?findings=0").then((doc) => start(place, doc.items, inside), (error) => console.error(error)); // the table stays
}

function start(place: HTMLElement, items: Procedure[], inside: boolean): void {
	const all = Number(place.dataset.all), most = items.reduce((n, p) => Math.max(n, p.cycles), 0);
	const columns = columnsOf(items.some((p) => p.seconds !== undefined), all), sorts = [byName, ...columns];
	const asked = new URLSearchParams(inside ? "" : location.search);
	const least = Number(place.dataset.least), there = Number(place.dataset.procedures); // a page of one file may have a part of them

	const find = signal(asked.get("find") ?? "");
	const image = signal(place.querySelector<HTMLSelectElement>("select[name=image]")?.selectedOptions[0]?.index ?? 0); // 0 is all
	const names = [...place.querySelectorAll<HTMLOptionElement>("select[name=image] option")].slice(1).map((o) => o.text);
	const min = signal(Number(asked.get("min")) || least);
	const sort = signal(sorts.find((c) => c.name === asked.get("sort"))?.name ?? "lost");
	const back = signal(asked.get("up") !== null);
	const at = signal(-1); // the row that keys are about

	// Images are chosen by their place in the server's list, whose ids begin so: p0-401000.
	const of = computed(() => items.filter((p) => image.value === 0 || p.id.startsWith("p" + (image.value - 1) + "-")));
	const enough = computed(() => of.value.filter((p) => p.samples >= min.value));
	const sorted = computed(() => {
		const column = sorts.find((c) => c.name === sort.value) ?? byName;
		return [...enough.value].sort(compare(column, back.value));
	});
	const finder = computed(() => new Fzf(sorted.value, { selector: (p) => p.procedure, casing: "case-insensitive", limit: 2000, sort: true }));
	// What is typed is found anywhere in a name, with gaps; the closest are first.
	const shown = computed((): Found[] => {
		if (find.value.trim() === "") {
			return sorted.value.map((item) => ({ item, positions: new Set<number>() }));
		}
		return finder.value.find(find.value.trim());
	});
	const change = (f: () => void) => {
		f();
		at.value = -1;
		if (!inside) {
			const q = new URLSearchParams();
			const set = (name: string, value: string, is: boolean) => is && q.set(name, value);
			set("find", find.value, find.value !== "");
			set("image", String(image.value - 1), image.value > 0);
			set("min", String(min.value), min.value !== least);
			set("sort", sort.value, sort.value !== "lost");
			set("up", "1", back.value);
			history.replaceState(null, "", location.pathname + (q.size > 0 ? "?" + q : "") + location.hash);
		}
	};
	const href = (p: Procedure) => (!inside ? "/proc/" + p.id : document.getElementById(p.id) ? "#" + p.id : undefined);

	function Name({ text, positions }: { text: string; positions: Set<number> }) {
		if (positions.size === 0) {
			return <>{text}</>;
		}
		return <>{[...text].map((c, i) => (positions.has(i) ? <mark>{c}</mark> : c))}</>;
	}

	function Head({ column }: { column: Column }) {
		const is = sort.value === column.name && find.value.trim() === "";
		const down = back.value === Boolean(column.text);
		const act = () => change(() => {
			back.value = sort.value === column.name ? !back.value : false;
			sort.value = column.name;
			find.value = "";
		});
		return (
			<th role="columnheader" scope="col" class={looks(column)} aria-sort={is ? (down ? "descending" : "ascending") : undefined} title={column.note}>
				<button type="button" onClick={act}>{column.title}{is ? (down ? " ▾" : " ▴") : ""}</button>
			</th>
		);
	}

	// A Row stays as it is while others come and go: each frame of a list that is scrolled makes two or three.
	class Row extends Component<{ found: Found; index: number; at: boolean }> {
		override shouldComponentUpdate(next: { found: Found; index: number; at: boolean }) {
			return next.found !== this.props.found || next.index !== this.props.index || next.at !== this.props.at;
		}

		override render({ found: { item: p, positions }, index, at: here }: { found: Found; index: number; at: boolean }) {
			const to = href(p);
			const part = (cycles: number) => (most > 0 ? (100 * cycles) / most : 0) + "%";
			return (
				<tr role="row" data-row={index} aria-rowindex={index + 2} class={here ? "at" : ""} style={{ top: index * rowHeight + "px" }}>
					<th role="rowheader" scope="row" title={p.mangled ?? p.procedure} tabIndex={to === undefined ? -1 : undefined}>
						{to === undefined ? <Name text={p.procedure} positions={positions} /> : <a href={to} onFocus={() => (at.value = index)}><Name text={p.procedure} positions={positions} /></a>}
					</th>
					<td role="cell" class="barcell"><i style={{ "--of": part(p.cycles), "--lost": part(p.stall_cycles) }} /></td>
					{columns.map((c) => <td key={c.name} role="cell" class={looks(c)} title={c.name === "image" ? p.image : undefined}>{c.show(p)}</td>)}
				</tr>
			);
		}
	}

	function List() {
		const box = useRef<HTMLDivElement>(null);
		const rows = shown.value;
		const [, draw] = useReducer<number, undefined>((n) => n + 1, 0);
		const virtual = useRef<Virtualizer<HTMLDivElement, HTMLElement> | undefined>(undefined);
		const drawn = useRef("");
		const options = {
			count: rows.length, estimateSize: () => rowHeight, overscan: 8, getScrollElement: () => box.current,
			scrollToFn: elementScroll, observeElementRect, observeElementOffset,
			onChange: (v: Virtualizer<HTMLDivElement, HTMLElement>) => {
				const range = v.range?.startIndex + " " + v.range?.endIndex;
				if (range !== drawn.current) { // not for each pixel
					drawn.current = range;
					draw(undefined);
				}
			},
			paddingStart: 0, scrollPaddingStart: 2 * rowHeight, scrollPaddingEnd: rowHeight,
		};
		virtual.current ??= new Virtualizer(options);
		const v = virtual.current;
		v.setOptions(options);
		useLayoutEffect(() => v._didMount(), []);
		useLayoutEffect(() => v._willUpdate());
		const go = (i: number) => {
			at.value = Math.max(0, Math.min(rows.length - 1, i));
			v.scrollToIndex(at.value);
			const focus = () => {
				const head = box.current?.querySelector<HTMLElement>(`tr[data-row="${at.value}"] th`);
				(head?.querySelector("a") ?? head)?.focus({ preventScroll: true });
			};
			requestAnimationFrame(() => requestAnimationFrame(focus));
		};
		move.current = (by) => rows.length > 0 && go(at.value + by);
		useLayoutEffect(() => v.scrollToOffset(0), [find.value, sort.value, back.value, image.value, min.value]);
		return (
			<div class="proctable" ref={box} tabIndex={0} role="region" aria-label="Procedures">
				<table role="table" aria-rowcount={rows.length + 1}>
					<thead role="rowgroup">
						<tr role="row" aria-rowindex={1}>
							<Head column={byName} />
							<th role="columnheader" scope="col" class="barcell" title="the strong part of a bar is lost in stalls">cycles</th>
							{columns.map((c) => <Head key={c.name} column={c} />)}
						</tr>
					</thead>
					<tbody role="rowgroup" style={{ height: v.getTotalSize() + "px" }}>
						{v.getVirtualItems().map((s) => <Row key={rows[s.index]!.item.id} found={rows[s.index]!} index={s.index} at={s.index === at.value} />)}
					</tbody>
				</table>
			</div>
		);
	}

	const move: { current?: (by: number) => void } = {};
	const input: { current: HTMLInputElement | null } = { current: null };

	function Tool() {
		const hidden = of.value.length - enough.value.length;
		return (
			<>
				<form role="search" class="choose" onSubmit={(e) => { e.preventDefault(); location.assign(shown.value[0] ? (href(shown.value[0].item) ?? "#") : "#"); }}>
					<label>Names like <input type="search" value={find.value} ref={(e) => { input.current = e; }} onInput={(e) => { const text = e.currentTarget.value; change(() => (find.value = text)); }}
						onKeyDown={(e) => { if (e.key === "ArrowDown") { e.preventDefault(); move.current?.(1); } else if (e.key === "Escape") { change(() => (find.value = "")); e.currentTarget.blur(); } }} /></label>
					{names.length > 1 && (
						<label>in <select onChange={(e) => { const i = e.currentTarget.selectedIndex; change(() => (image.value = i)); }}>
							{["all images", ...names].map((name, i) => <option key={i} selected={i === image.value}>{name}</option>)}
						</select></label>
					)}
					<label>of at least <input type="number" min="1" value={min.value} onInput={(e) => { const n = Number(e.currentTarget.value); if (n >= 1) { change(() => (min.value = n)); } }} /> samples</label>
				</form>
				<p class="muted" role="status">
					{shown.value.length} of {items.length} procedures{find.value.trim() !== "" ? ", the closest first" : ""}
					{there > items.length ? "; this page has those with the most cycles, of " + there : ""}
					{hidden > 0 ? "; " + hidden + " have fewer than " + min.value + " samples" : ""}
				</p>
				<List />
			</>
		);
	}

	bind("/", "find a procedure by its name", () => { input.current?.focus(); input.current?.select(); });
	bind("j", "next procedure", () => move.current?.(1));
	bind("k", "procedure before", () => move.current?.(-1));
	listed("Enter", "open the procedure");
	place.replaceChildren();
	place.classList.add("tool");
	render(<Tool />, place);
}
