import type { FzfResultItem, Selector } from "./types";
export declare function byLengthAsc<U>(a: FzfResultItem<U>, b: FzfResultItem<U>, selector: Selector<U>): number;
export declare function byStartAsc<U>(a: FzfResultItem<U>, b: FzfResultItem<U>): number;
