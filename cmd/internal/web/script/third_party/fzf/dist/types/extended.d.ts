import { AlgoFn } from "./algo";
import { buildPatternForExtendedMatch } from "./pattern";
import { Rune } from "./runes";
type Offset = [number, number];
export declare function computeExtendedMatch(text: Rune[], pattern: ReturnType<typeof buildPatternForExtendedMatch>, fuzzyAlgo: AlgoFn, forward: boolean): {
    offsets: Offset[];
    totalScore: number;
    allPos: Set<number>;
};
export {};
