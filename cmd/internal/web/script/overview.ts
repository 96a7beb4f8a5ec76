// Findings that the server was still working out when it wrote the page come as they are there.

const pause = 1000; // ms

export function overview(list: HTMLElement): void {
	if (list.querySelector("[data-later]") === null) {
		return;
	}
	setTimeout(async () => {
		const answer = await fetch(location.pathname);
		const page = new DOMParser().parseFromString(await answer.text(), "text/html");
		const next = page.querySelector<HTMLElement>(".findings");
		if (answer.ok && next !== null) {
			for (const old of list.querySelectorAll<HTMLElement>("[data-later]")) {
				const found = next.querySelector("#" + old.id);
				if (found !== null) {
					old.replaceWith(document.importNode(found, true));
				}
			}
		}
		overview(list);
	}, pause);
}
