// What the parts of a procedure's page show together: source, code, list and graph.
import { signal } from "@preact/signals";

export const hovered = signal<string[]>([]); // ids of blocks
export const chosen = signal<string | null>(null); // id of a block
