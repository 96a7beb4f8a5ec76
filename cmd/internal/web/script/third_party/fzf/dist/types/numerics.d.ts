export type Int16 = Int16Array[0];
export type Int32 = Int32Array[0];
export declare function toShort(number: number): Int16;
export declare function toInt(number: number): Int32;
export declare function maxInt16(num1: number, num2: number): number;
