// The flow graph of a procedure, with all its blocks: it pans, zooms and fits, and opens on the
// hottest block. Of thousands of blocks it draws those in view.
import { effect } from "@preact/signals";
import { load } from "./data";
import { chosen, hovered } from "./linked";
import { near } from "./near";

type Block = { id: string; x: number; y: number; width: number; height: number; class: number; lines: string[] };
type Edge = { from: number; to: number; path: string; arrow: string; width: number; back?: boolean; long?: boolean; label: string; x: number; y: number };
type Flow = { procedure: string; width: number; height: number; hottest: number; blocks: Block[]; edges: Edge[] };
type Box = { left: number; top: number; right: number; bottom: number };
type Drawn = Edge & { line: Path2D; head: Path2D; box: Box };

const readable = 0.45; // the scale below which text is not drawn
const least = 0.02, most = 3; // scales; where all of a graph needs a smaller one, that is the least
const often = 1.4; // pixels: an edge over many layers that is drawn narrower is only shown with its blocks
const mapWidth = 180, mapHeight = 130; // pixels of the small map at most

// boxOf is around a path of absolute M, C and V, and one relative c.
function boxOf(e: Edge, blocks: Block[]): Box {
	const ends = [blocks[e.from]!, blocks[e.to]!];
	const box = {
		left: Math.min(...ends.map((b) => b.x)), right: Math.max(...ends.map((b) => b.x + b.width)) + 30,
		top: Math.min(...ends.map((b) => b.y)), bottom: Math.max(...ends.map((b) => b.y + b.height)),
	};
	for (const [, command, numbers] of e.path.matchAll(/([MC])([^A-Za-z]*)/g)) {
		const n = (numbers ?? "").trim().split(/[ ,]+/).map(Number);
		for (let i = 0; command !== undefined && i + 1 < n.length; i += 2) {
			box.left = Math.min(box.left, n[i]!);
			box.right = Math.max(box.right, n[i]!);
		}
	}
	return box;
}

const meets = (a: Box, b: Box) => a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;

// graph replaces the server's picture, of the hottest blocks alone, by one of all.
export async function graph(place: HTMLElement): Promise<void> {
	if (document.querySelectorAll("[data-flow]").length > 1) {
		await near(place); // a page of one file has many graphs
	}
	const flow = await load<Flow>(place.dataset.flow ?? "");
	const edges: Drawn[] = flow.edges.map((e) => ({ ...e, line: new Path2D(e.path), head: new Path2D(e.arrow), box: boxOf(e, flow.blocks) }));
	const at = new Map(flow.blocks.map((b, i) => [b.id, i]));

	const frame = document.createElement("div");
	frame.className = "graph";
	const canvas = document.createElement("canvas"), map = document.createElement("canvas"), tools = document.createElement("div");
	canvas.tabIndex = 0;
	canvas.setAttribute("role", "img");
	canvas.setAttribute("aria-label", "Flow graph of " + flow.procedure + ", " + flow.blocks.length + " blocks; arrow keys move it, plus and minus zoom, 0 fits it. The list of hottest blocks and the code have the same figures.");
	map.className = "map";
	map.setAttribute("aria-hidden", "true");
	tools.className = "tools";
	frame.append(canvas, map, tools);
	place.replaceChildren(frame);
	const part = place.previousElementSibling; // the server's picture was of the hottest blocks alone
	if (part instanceof HTMLElement && part.matches(".part")) {
		part.hidden = true;
	}
	const long = flow.edges.filter((e) => e.long && e.width < often).length;
	if (long > 0) {
		const note = document.createElement("p");
		note.className = "muted";
		note.textContent = long + " of " + flow.edges.length + " edges lead far and ran seldom: they are drawn when a block at their end is pointed at.";
		place.before(note);
	}
	place.classList.add("alive");
	place.removeAttribute("tabindex");

	let scale = 1, x = 0, y = 0; // of the left upper corner, in the graph's pixels
	let width = 0, height = 0, asked = false;
	let marked = new Set<number>();
	let colours: Record<string, string> = {};
	const paint = () => {
		const style = getComputedStyle(document.documentElement);
		colours = Object.fromEntries(["ground", "raised", "text", "muted", "rule", "link", "h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"].map((c) => [c, style.getPropertyValue("--" + c).trim()]));
	};
	const ask = () => {
		if (!asked) {
			asked = true;
			requestAnimationFrame(draw);
		}
	};
	const colour = (name: string) => colours[name] ?? "#888";

	let mini: HTMLCanvasElement | null = null;
	const mapScale = Math.min(mapWidth / flow.width, mapHeight / flow.height);
	const small = flow.width * mapScale > 20 && flow.height * mapScale > 20;
	function overview(ratio: number): HTMLCanvasElement {
		const c = document.createElement("canvas");
		c.width = Math.max(1, Math.ceil(flow.width * mapScale * ratio));
		c.height = Math.max(1, Math.ceil(flow.height * mapScale * ratio));
		const g = c.getContext("2d")!;
		g.scale(mapScale * ratio, mapScale * ratio);
		for (const b of flow.blocks) {
			g.fillStyle = b.class > 0 ? colour("h" + b.class) : colour("rule");
			const grow = b.class > 1 ? 1 / mapScale : 0; // what is hot is seen
			g.fillRect(b.x - grow, b.y - grow, b.width + 2 * grow, b.height + 2 * grow);
		}
		return c;
	}

	function drawEdge(g: CanvasRenderingContext2D, e: Drawn, strong: boolean): void {
		g.strokeStyle = g.fillStyle = colour(strong ? "link" : e.long ? "rule" : "muted");
		g.lineWidth = Math.max(e.width + (strong ? 1 : 0), 0.6 / scale);
		const dashed = e.back && !e.long; // dashes of long lines take most of the time
		if (dashed) {
			g.setLineDash([4, 3]);
		}
		g.stroke(e.line);
		if (dashed) {
			g.setLineDash([]);
		}
		if (scale > 0.2) {
			g.fill(e.head);
		}
	}

	function draw(): void {
		asked = false;
		const ratio = devicePixelRatio, g = canvas.getContext("2d")!;
		g.setTransform(ratio, 0, 0, ratio, 0, 0);
		g.fillStyle = colour("ground");
		g.fillRect(0, 0, width, height);
		g.setTransform(ratio * scale, 0, 0, ratio * scale, -x * scale * ratio, -y * scale * ratio);
		const seen = { left: x, top: y, right: x + width / scale, bottom: y + height / scale };
		const inView = edges.filter((e) => meets(e.box, seen));
		for (const long of [true, false]) {
			for (const e of inView) {
				if (Boolean(e.long) === long && !(long && (scale < 0.1 || e.width < often))) {
					drawEdge(g, e, false);
				}
			}
		}
		for (const e of inView) {
			if (marked.has(e.from) || marked.has(e.to)) {
				drawEdge(g, e, true);
			}
		}
		let shown = 0;
		g.font = '11px ui-monospace, "DejaVu Sans Mono", monospace';
		flow.blocks.forEach((b, i) => {
			if (!meets({ left: b.x, top: b.y, right: b.x + b.width, bottom: b.y + b.height }, seen)) {
				return;
			}
			shown++;
			g.fillStyle = colour("raised");
			g.fillRect(b.x, b.y, b.width, b.height);
			g.fillStyle = colour("h" + b.class);
			g.fillRect(b.x, b.y, scale < readable ? b.width : 8, b.height);
			g.strokeStyle = colour(marked.has(i) ? "link" : "rule");
			g.lineWidth = marked.has(i) ? Math.max(3, 2 / scale) : 1;
			g.strokeRect(b.x, b.y, b.width, b.height);
			if (scale >= readable) {
				g.fillStyle = colour("text");
				b.lines.forEach((line, k) => g.fillText(line, b.x + 14, b.y + 13 + 13 * k, b.width - 18));
			}
		});
		if (scale >= readable) {
			g.font = '10px ui-monospace, "DejaVu Sans Mono", monospace';
			for (const e of inView) {
				if (e.x > seen.right || e.x < seen.left - 60 || e.y < seen.top || e.y > seen.bottom + 12 || (e.long && e.width < often)) {
					continue;
				}
				g.lineWidth = 3;
				g.strokeStyle = colour("ground");
				g.strokeText(e.label, e.x, e.y);
				g.fillStyle = colour("muted");
				g.fillText(e.label, e.x, e.y);
			}
		}
		canvas.dataset.blocks = String(shown);
		canvas.dataset.scale = scale.toFixed(3);
		canvas.dataset.at = Math.round(x) + "," + Math.round(y);
		if (small) {
			mini ??= overview(ratio);
			const m = map.getContext("2d")!;
			m.setTransform(1, 0, 0, 1, 0, 0);
			m.fillStyle = colour("ground");
			m.fillRect(0, 0, map.width, map.height);
			m.drawImage(mini, 0, 0);
			m.strokeStyle = colour("link");
			m.lineWidth = 2 * ratio;
			const k = mapScale * ratio;
			m.strokeRect(x * k, y * k, (width / scale) * k, (height / scale) * k);
		}
	}

	const keep = () => { // some of the graph stays in view
		const w = width / scale, h = height / scale, edge = 60 / scale;
		x = Math.max(edge - w, Math.min(flow.width - edge, x));
		y = Math.max(edge - h, Math.min(flow.height - edge, y));
		ask();
	};
	const pan = (dx: number, dy: number) => {
		x -= dx / scale;
		y -= dy / scale;
		keep();
	};
	// zoom keeps what is at a point of the screen there.
	const whole = () => Math.min(width / flow.width, height / flow.height);
	const zoom = (by: number, cx = width / 2, cy = height / 2) => {
		const next = Math.max(Math.min(least, whole()), Math.min(most, scale * by));
		x += cx / scale - cx / next;
		y += cy / scale - cy / next;
		scale = next;
		keep();
	};
	const fit = () => {
		scale = Math.min(1, whole());
		x = (flow.width - width / scale) / 2;
		y = (flow.height - height / scale) / 2;
		keep();
	};
	const centre = (b: Block) => {
		x = b.x + b.width / 2 - width / 2 / scale;
		y = b.y + b.height / 2 - height / 2 / scale;
		keep();
	};
	const hottest = () => {
		scale = Math.max(scale, 0.8);
		const b = flow.blocks[flow.hottest];
		if (b === undefined) {
			fit();
		} else {
			centre(b);
		}
	};

	const button = (text: string, label: string, act: () => void) => {
		const b = document.createElement("button");
		b.type = "button";
		b.textContent = text;
		b.setAttribute("aria-label", label);
		b.addEventListener("click", act);
		tools.append(b);
	};
	button("+", "Zoom in", () => zoom(1.4));
	button("−", "Zoom out", () => zoom(1 / 1.4));
	button("fit", "Fit the graph", fit);
	button("hottest", "Show the hottest block", hottest);

	const under = (event: PointerEvent | MouseEvent): number => {
		const r = canvas.getBoundingClientRect(), px = x + (event.clientX - r.left) / scale, py = y + (event.clientY - r.top) / scale;
		return flow.blocks.findIndex((b) => px >= b.x && px <= b.x + b.width && py >= b.y && py <= b.y + b.height);
	};
	const fingers = new Map<number, PointerEvent>();
	let moved = 0;
	canvas.addEventListener("pointerdown", (event) => {
		canvas.setPointerCapture(event.pointerId);
		fingers.set(event.pointerId, event);
		moved = 0;
	});
	canvas.addEventListener("pointermove", (event) => {
		const before = fingers.get(event.pointerId);
		if (before === undefined) {
			const i = under(event);
			canvas.classList.toggle("over", i >= 0);
			hovered.value = i < 0 ? [] : [flow.blocks[i]!.id];
			return;
		}
		moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
		const other = [...fingers.values()].find((f) => f.pointerId !== event.pointerId);
		if (other !== undefined) {
			const apart = (e: PointerEvent) => Math.hypot(e.clientX - other.clientX, e.clientY - other.clientY), r = canvas.getBoundingClientRect();
			zoom(apart(event) / Math.max(1, apart(before)), (event.clientX + other.clientX) / 2 - r.left, (event.clientY + other.clientY) / 2 - r.top);
		} else {
			pan(event.clientX - before.clientX, event.clientY - before.clientY);
		}
		fingers.set(event.pointerId, event);
	});
	for (const end of ["pointerup", "pointercancel"] as const) {
		canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
	}
	canvas.addEventListener("pointerleave", () => (hovered.value = []));
	canvas.addEventListener("click", (event) => {
		const b = flow.blocks[under(event)];
		if (b !== undefined && moved < 6) {
			location.hash = b.id;
		}
	});
	canvas.addEventListener("wheel", (event) => {
		if (!event.ctrlKey && !event.metaKey && !event.altKey) {
			return; // the page scrolls
		}
		event.preventDefault();
		const r = canvas.getBoundingClientRect();
		zoom(Math.exp(-event.deltaY / 300), event.clientX - r.left, event.clientY - r.top);
	}, { passive: false });
	canvas.addEventListener("keydown", (event) => {
		const act: Record<string, () => void> = {
			ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60),
			"+": () => zoom(1.2), "=": () => zoom(1.2), "-": () => zoom(1 / 1.2), "0": fit,
		};
		const does = event.ctrlKey || event.metaKey ? undefined : act[event.key];
		if (does !== undefined) {
			event.preventDefault();
			does();
		}
	});
	map.addEventListener("pointerdown", (event) => map.setPointerCapture(event.pointerId));
	for (const kind of ["pointerdown", "pointermove"] as const) {
		map.addEventListener(kind, (event) => {
			if (event.buttons === 0) {
				return;
			}
			const r = map.getBoundingClientRect();
			x = (event.clientX - r.left) / mapScale - width / scale / 2;
			y = (event.clientY - r.top) / mapScale - height / scale / 2;
			keep();
		});
	}

	let opened = false;
	const size = () => {
		width = frame.clientWidth;
		height = frame.clientHeight;
		const ratio = devicePixelRatio;
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		map.hidden = !small;
		map.width = Math.ceil(flow.width * mapScale * ratio);
		map.height = Math.ceil(flow.height * mapScale * ratio);
		map.style.width = Math.ceil(flow.width * mapScale) + "px";
		map.style.height = Math.ceil(flow.height * mapScale) + "px";
		if (!opened) {
			opened = true;
			fit();
			if (scale < 0.8) {
				scale = 0.8;
				hottest();
			}
		}
		ask();
	};
	new ResizeObserver(size).observe(frame);
	const dark = matchMedia("(prefers-color-scheme: dark)");
	dark.addEventListener("change", () => {
		paint();
		mini = null;
		ask();
	});
	paint();
	frame.style.height = "min(75vh, " + Math.max(260, flow.height + 20) + "px)";
	size();
	effect(() => {
		marked = new Set([...hovered.value, chosen.value ?? ""].map((id) => at.get(id)).filter((i): i is number => i !== undefined));
		ask();
	});
	effect(() => {
		const b = flow.blocks[at.get(chosen.value ?? "") ?? -1];
		if (b !== undefined && (b.x < x || b.y < y || b.x + b.width > x + width / scale || b.y + b.height > y + height / scale)) {
			centre(b);
		}
	});
}
