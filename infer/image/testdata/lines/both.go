// Command both is part Go, part C.
package main

/*
// The C compiler is told that this is where its code comes from.
int loop(int n) { int s = 0; for (int i = 0; i < n; i++) s += i ^ s; return s; }
*/
import "C"
import "fmt"

func main() { fmt.Println(C.loop(100)) }
