import { Int32 } from "./numerics";
export type Rune = Int32;
export declare const strToRunes: (str: string) => number[];
export declare const runesToStr: (runes: Rune[]) => string;
