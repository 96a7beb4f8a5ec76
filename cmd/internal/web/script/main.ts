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
];

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
