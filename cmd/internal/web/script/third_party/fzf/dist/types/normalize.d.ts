import { Rune } from "./runes";
export declare function normalizeRune(rune: Rune): Rune;
