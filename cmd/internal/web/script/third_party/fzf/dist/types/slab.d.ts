export interface Slab {
    i16: Int16Array;
    i32: Int32Array;
}
export declare const slab: Slab;
