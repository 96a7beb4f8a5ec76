// The flame graph: samples by stack, the root on top. The server's list of the same stays below,
// for who has no pointer.
import { signal, type Signal } from "@preact/signals";
import { render } from "preact";
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { load } from "./data";
import { bind } from "./keys";
import { near } from "./near";
import { amount } from "./numbers";

type Frame = { procedure: string; mangled?: string; kind: string; image: number; page?: string };
type Node = { frame: number; samples: number; self: number; cause?: string; cause_share?: number; before?: number; change?: number; real?: boolean; children?: Node[] };
type Flame = { before?: { samples: number }; event: string; inverted: boolean; images: string[]; frames: Frame[]; root: Node };

// What d3-flame-graph draws, and what it makes of that.
type Datum = { name: string; value: number; children: Datum[]; node: Node; frame: Frame };
type Drawn = { data: Datum; highlight?: boolean; depth: number; parent?: Drawn };

// Causes of one kind have one colour: eight can be told apart, fifteen cannot.
const groups: [name: string, variable: string, causes: string[]][] = [
	["data", "--f1", ["dcache-miss", "dtlb-miss", "page-fault"]],
	["stores", "--f2", ["store-forward", "store-buffer", "lock"]],
	["branches", "--f3", ["mispredict"]],
	["fetching code", "--f4", ["icache-miss", "itlb-miss", "front-end"]],
	["arithmetic", "--f5", ["divider", "multiplier", "dependency", "fp-assist", "microcode"]],
	["hardly stalled, or not known", "--f0", []],
];

// A cause colours a frame if it is likeliest to explain that share of its time.
const coloured = 0.2;

function groupOf(node: Node): number {
	const i = groups.findIndex((g) => node.cause !== undefined && g[2].includes(node.cause));
	return i < 0 || (node.cause_share ?? 0) < coloured ? groups.length - 1 : i;
}

const percent = (part: number, whole: number) => {
	const p = (100 * part) / Math.max(1, whole);
	return p > 0 && p < 0.05 ? "<0.1 %" : p.toFixed(1) + " %";
};

// A difference is coloured by the change of a share, in these points; a sign and a figure say the same without colour.
const steps = [0, 0.01, 0.05];
const changes: [name: string, variable: string][] = [
	["▲ 5 points or more", "m3"], ["▲ 1 to 5", "m2"], ["▲ less than 1", "m1"], ["within chance", "f0"],
	["▼ less than 1", "l1"], ["▼ 1 to 5", "l2"], ["▼ 5 points or more", "l3"],
];

function changeOf(node: Node): string {
	const d = node.change ?? 0;
	return !node.real || d === 0 ? "f0" : (d > 0 ? "m" : "l") + steps.filter((s) => Math.abs(d) >= s).length;
}

// signed is a change in points.
const signed = (d: number) => (d > 0 ? "▲ +" : d < 0 ? "▼ −" : "") + Math.abs(100 * d).toFixed(Math.abs(d) < 0.001 ? 2 : 1);

// A State is what is chosen of one flame graph: a page of one file may have two.
type State = { byImage: Signal<boolean>; shown: Signal<Datum | null>; chosen: Signal<Datum | null>; found: Signal<string> };

function datum(flame: Flame, node: Node): Datum {
	const frame = flame.frames[node.frame]!; // the document has all
	const name = frame.procedure + (node.real ? " " + signed(node.change ?? 0) : "");
	return { name, value: node.samples, children: (node.children ?? []).map((c) => datum(flame, c)), node, frame };
}

function Legend({ flame, state: { byImage } }: { flame: Flame; state: State }) {
	const used = new Set<number>();
	for (const f of flame.frames) {
		used.add(f.image);
	}
	return (
		<p class="legend">
			{byImage.value
				? flame.images.map((path, i) => used.has(i) && (
					<span class="key" key={i}><span class={"swatch i" + (i % 6)}></span> {path.split("/").pop()}</span>
				))
				: flame.before ? changes.map(([name, variable]) => <span class="key" key={variable}><span class={"swatch " + variable}></span> {name}</span>)
				: groups.map((g, i) => <span class="key" key={i}><span class={"swatch f" + (i + 1) % groups.length}></span> {g[0]}</span>)}
			<span class="key"><span class="swatch cut"></span> stands for what was not recorded</span>
		</p>
	);
}

function About({ flame, of }: { flame: Flame; of: Datum }) {
	const { node, frame } = of;
	const image = flame.images[frame.image];
	return (
		<>
			<b>{frame.procedure}</b>{frame.kind === "inlined" && " (inlined)"}: {amount(flame.event, node.samples)}, {percent(node.samples, flame.root.samples)} of all
			{node.self > 0 && node.self < node.samples && <>; {percent(node.self, flame.root.samples)} {flame.inverted ? "with nothing above" : "in it"}</>}
			{flame.before && <>; before {percent(node.before ?? 0, flame.before.samples)}: {signed(node.change ?? 0)} points{node.real ? "" : ", within the chance of sampling"}</>}
			{!flame.before && node.cause !== undefined && <>; {node.cause} is likeliest to explain {percent(node.cause_share ?? 0, 1)} of its time</>}
			{image !== undefined && <>; {image}</>}
		</>
	);
}

function Panel({ flame, chart, state, name }: { flame: Flame; chart: any; state: State; name: string }) {
	const { byImage, shown, chosen, found } = state;
	const of = shown.value ?? chosen.value, links = chosen.value?.frame;
	const id = links?.page?.split("/").pop();
	const search = (text: string) => {
		if (text === "") {
			found.value = "";
			chart.clear();
		} else {
			chart.search(text);
		}
	};
	return (
		<>
			<form role="search" aria-label={flame.before ? "Difference flame graph" : "Flame graph"} onSubmit={(e) => e.preventDefault()}>
				<label>Frames with <input type="search" id={name + "-search"} onInput={(e) => search(e.currentTarget.value)} /></label>
				{" "}<output>{found.value}</output>
				<span role="group" aria-label="Colours">
					<button type="button" aria-pressed={!byImage.value} onClick={() => (byImage.value = false)}>{flame.before ? "by change" : "by cause"}</button>
					<button type="button" aria-pressed={byImage.value} onClick={() => (byImage.value = true)}>by image</button>
				</span>
				<button type="button" disabled={chosen.value === null} onClick={() => chart.resetZoom()}>Whole graph</button>
			</form>
			<Legend flame={flame} state={state} />
			<p class="about">
				{of !== null ? <About flame={flame} of={of} /> : "Point at a frame to read its figures, click it to make it as wide as the page."}
				{links?.page !== undefined && of === chosen.value && (
					<>
						{" "}<a href={links.page}>its code</a>
						{flame.before && !links.page.startsWith("#") && <> · <a href={"/compare?proc=" + id}>before and now</a></>}
						{!links.page.startsWith("#") && <> · <a href={"/flamegraph?proc=" + id}>what it calls</a> · <a href={"/flamegraph?inverted=1&proc=" + id}>its callers</a></>}
					</>
				)}
			</p>
		</>
	);
}

function colour(d: Drawn, difference: boolean, byImage: boolean): string {
	const { frame, node } = d.data;
	if (d.highlight) {
		return "var(--hit)";
	}
	if (!(difference && node.real) && ["cut", "bare", "unknown", "rest", "all"].includes(frame.kind)) {
		return "var(--raised)";
	}
	if (byImage) {
		return frame.image < 0 ? "var(--f0)" : "var(--i" + (frame.image % 6) + ")";
	}
	if (difference) {
		return "var(--" + changeOf(node) + ")";
	}
	return "var(" + groups[groupOf(node)]![1] + ")";
}

// flame draws the document that an element names.
export async function flame(place: HTMLElement): Promise<void> {
	const name = place.dataset.flame ?? "", first = document.querySelector("[data-flame]") === place;
	if (document.getElementById("data-" + name) !== null && place.parentElement !== null) {
		await near(place.parentElement); // in a page of one file there is much else; the place itself is hidden until it is used
	}
	const doc = await load<Flame>(name);
	const state: State = { byImage: signal(false), shown: signal(null), chosen: signal(null), found: signal("") }, { byImage, shown, chosen, found } = state;
	const panel = document.createElement("div"), picture = document.createElement("div");
	picture.className = "flamegraph";
	picture.setAttribute("role", "img");
	picture.setAttribute("aria-label", doc.before ? "Difference flame graph; the table below has what changed most" : "Flame graph; the list below has the same");
	place.append(panel, picture);
	place.hidden = false;
	const list = place.parentElement?.querySelector<HTMLDetailsElement>("details.aslist");
	if (list) {
		list.open = false;
	}
	const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
	const width = () => Math.max(300, picture.clientWidth);
	const lower = (d: Drawn, text: string) => d.data.name.toLowerCase().includes(text.toLowerCase());
	const chart = flamegraph().width(width()).cellHeight(20).inverted(true).sort(false).minFrameSize(1).transitionDuration(0)
		.setColorMapper((d: Drawn) => colour(d, doc.before !== undefined, byImage.value)).setSearchMatch(lower).setLabelHandler((d: Drawn) => d.data.name + ": " + amount(doc.event, d.data.value))
		.resetHeightOnZoom(true)
		.onHover((d: Drawn) => (shown.value = d.data))
		.onClick((d: Drawn) => (chosen.value = d.parent === undefined || d.parent === null ? null : d.data))
		.setSearchHandler((_: unknown, sum: number, all: number) => (found.value = amount(doc.event, sum) + " below or in them, " + percent(sum, all)));
	select(picture).datum(datum(doc, doc.root)).call(chart);
	picture.addEventListener("pointerleave", () => (shown.value = null));
	render(<Panel flame={doc} chart={chart} state={state} name={first ? "flame" : name} />, panel);
	chart.transitionDuration(calm ? 0 : 150); // of what is clicked: at first it stands
	let drawn = byImage.value;
	byImage.subscribe((now) => {
		if (now !== drawn) {
			drawn = now;
			chart.update();
		}
	});
	let last = width();
	new ResizeObserver(() => {
		if (width() !== last) {
			last = width();
			chart.width(last).update();
		}
	}).observe(picture);
	if (!first) {
		return; // keys are of the first
	}
	bind("/", "search the flame graph", () => document.getElementById("flame-search")?.focus());
	bind("c", doc.before ? "colour by change or by image" : "colour by cause or by image", () => (byImage.value = !byImage.value));
	bind("w", "show the whole flame graph", () => chart.resetZoom());
}
