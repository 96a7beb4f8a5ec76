// Comfort for maps of heat: the address and the heat under the pointer, and a page that a
// link leads to is opened. A picture says where it begins, how many bytes a cell is, and how
// many cells a row has.

let under: HTMLElement | undefined;

// The heat of a cell is the class of the path that has a square there.
function heatOf(svg: HTMLElement, i: number): string {
	const columns = Number(svg.dataset.columns), square = "M" + (i % columns) * 8 + " " + Math.floor(i / columns) * 8 + "h";
	for (const path of svg.querySelectorAll("path")) {
		if (path.getAttribute("d")?.includes(square)) {
			return path.dataset.heat ?? "";
		}
	}
	return "no code";
}

function cell(svg: HTMLElement, event: PointerEvent): number {
	const box = svg.getBoundingClientRect(), columns = Number(svg.dataset.columns), rows = Number(svg.dataset.rows);
	const x = Math.max(0, Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns)));
	const y = Math.max(0, Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)));
	return y * columns + x;
}

function open(): void {
	const details = document.getElementById(location.hash.slice(1))?.querySelector("details");
	if (details) {
		details.open = true;
	}
}

// page is what a page with pictures needs once.
function page(): HTMLElement {
	const label = document.createElement("div");
	label.id = "under";
	label.setAttribute("aria-hidden", "true");
	document.body.append(label);
	addEventListener("hashchange", open);
	open();
	return label;
}

export function heat(svg: HTMLElement): void {
	const label = (under ??= page());
	svg.addEventListener("pointermove", (event) => {
		const i = cell(svg, event);
		const address = BigInt(svg.dataset.start ?? "0") + BigInt(i) * BigInt(svg.dataset.cell ?? "0");
		label.textContent = "0x" + address.toString(16) + ": " + heatOf(svg, i);
	});
	svg.addEventListener("pointerleave", () => (label.textContent = ""));
}
