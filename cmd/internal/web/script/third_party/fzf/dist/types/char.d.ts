import { Rune } from "./runes";
export declare const isWhitespace: (rune: Rune) => boolean;
export declare const whitespacesAtStart: (runes: Rune[]) => number;
export declare const whitespacesAtEnd: (runes: Rune[]) => number;
