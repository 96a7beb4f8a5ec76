
"use strict";
// Comfort: the address and the heat under the pointer, and a page that a link leads
// to is opened. A picture says where it begins, how many bytes a cell is, and how
// many cells a row has.
(function () {
	const under = document.createElement("div");
	under.id = "under";
	under.setAttribute("aria-hidden", "true");
	document.body.append(under);
	document.documentElement.dataset.script = "on";

	function cell(svg, event) {
		const box = svg.getBoundingClientRect(), columns = Number(svg.dataset.columns), rows = Number(svg.dataset.rows);
		const x = Math.max(0, Math.min(columns - 1, Math.floor((event.clientX - box.left) / box.width * columns)));
		const y = Math.max(0, Math.min(rows - 1, Math.floor((event.clientY - box.top) / box.height * rows)));
		return y * columns + x;
	}
	// The heat of a cell is the class of the path that has a square there.
	function heat(svg, i) {
		const columns = Number(svg.dataset.columns), square = "M" + i % columns * 8 + " " + Math.floor(i / columns) * 8 + "h";
		for (const path of svg.querySelectorAll("path")) {
			if (path.getAttribute("d").includes(square)) {
				return path.dataset.heat;
			}
		}
		return "no code";
	}
	document.addEventListener("pointermove", function (event) {
		const svg = event.target.closest("svg[data-start]");
		if (svg === null) {
			under.textContent = "";
			return;
		}
		const i = cell(svg, event);
		const address = BigInt(svg.dataset.start) + BigInt(i) * BigInt(svg.dataset.cell);
		under.textContent = "0x" + address.toString(16) + ": " + heat(svg, i);
	});

	function open() {
		const at = document.getElementById(location.hash.slice(1));
		const details = at === null ? null : at.querySelector("details");
		if (details !== null) {
			details.open = true;
		}
	}
	addEventListener("hashchange", open);
	open();
}());
