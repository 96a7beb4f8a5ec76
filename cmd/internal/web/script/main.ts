// The features, each a module of its own: it is started for each element that it enhances,
// once, when the page is there.
import { flame } from "./flame";
import { graph } from "./graph";
import { heat } from "./heat";
import { keys } from "./keys";
import { overview } from "./overview";
import { procedure } from "./procedure";
import { procedures } from "./procedures";

const features: [selector: string, start: (element: HTMLElement) => void | Promise<void>][] = [
	["body", keys],
	["svg[data-start]", heat],
	["[data-flame]", flame],
	["[data-flow]", graph],
	[".panes", procedure],
	[".findings", overview],
	[".proclist", procedures],
	[".wide:not([tabindex])", scrolled],
];

// scrolled lets keys scroll what may be wider than a narrow screen. It is not measured: that would
// lay out all that is not yet in sight.
function scrolled(element: HTMLElement): void {
	if (matchMedia("(max-width: 60rem)").matches && element.querySelector("a, button, summary") === null) {
		element.tabIndex = 0;
	}
}

for (const [selector, start] of features) {
	for (const element of document.querySelectorAll<HTMLElement>(selector)) {
		try {
			start(element)?.catch((error: unknown) => console.error(selector, error));
		} catch (error) {
			console.error(selector, error); // the others work
		}
	}
}
document.documentElement.dataset.script = "on";
