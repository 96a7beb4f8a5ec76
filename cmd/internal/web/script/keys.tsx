// Keys that do something on a page, and the dialog that lists them.
import { render } from "preact";

type Key = { key: string; what: string; act?: () => void };

const bound: Key[] = [];

// bind has a key (as KeyboardEvent.key) do something, unless text is being typed.
export function bind(key: string, what: string, act: () => void): void {
	bound.push({ key, what, act });
}

// listed has a key in the list that the browser or the feature itself listens to.
export function listed(key: string, what: string): void {
	bound.push({ key, what });
}

function typing(target: EventTarget | null): boolean {
	return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}

function List() {
	return (
		<>
			<h2 id="keys-title">Keys</h2>
			<dl>
				{bound.map((k) => (
					<div key={k.key}>
						<dt><kbd>{k.key}</kbd></dt>
						<dd>{k.what}</dd>
					</div>
				))}
			</dl>
			<form method="dialog"><button>Close</button></form>
		</>
	);
}

// keys listens, and adds the dialog.
export function keys(body: HTMLElement): void {
	const dialog = document.createElement("dialog");
	dialog.id = "keys";
	dialog.setAttribute("aria-labelledby", "keys-title");
	body.append(dialog);
	const help = () => {
		render(<List />, dialog);
		dialog.showModal();
	};
	bind("?", "these keys", help);
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.altKey || event.metaKey || dialog.open || typing(event.target)) {
			return;
		}
		const act = bound.find((k) => k.key === event.key)?.act;
		if (act !== undefined) {
			event.preventDefault();
			act();
		}
	});
	const button = document.createElement("button");
	button.type = "button";
	button.className = "keys";
	button.textContent = "?";
	button.setAttribute("aria-label", "Keys");
	button.addEventListener("click", help);
	document.querySelector("body > header")?.append(button);
}
