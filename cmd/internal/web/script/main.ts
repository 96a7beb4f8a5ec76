// The features, each a module of its own: it is started for each element that it enhances,
// once, when the page is there.
import { heat } from "./heat";
import { keys } from "./keys";

const features: [selector: string, start: (element: HTMLElement) => void][] = [
	["body", keys],
	["svg[data-start]", heat],
];

for (const [selector, start] of features) {
	for (const element of document.querySelectorAll<HTMLElement>(selector)) {
		try {
			start(element);
		} catch (error) {
			console.error(selector, error); // the others work
		}
	}
}
document.documentElement.dataset.script = "on";
