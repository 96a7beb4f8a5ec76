// hot CALLGRIND IMAGE says on how little memory a run spent its time: the fewest
// 64-byte lines and 4 KB pages of the image's file that hold 99 % of the
// instructions that it executed, and in how many pages any of these lie, by callgrind's exact counts.
package main

import (
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"backfeed/infer/image"
	"backfeed/infer/truth"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: hot CALLGRIND IMAGE")
	}
	f, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	exact, err := truth.Read(f)
	if err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
	insts := map[image.Addr]uint64{}
	for path, it := range exact.Images {
		if filepath.Base(path) == os.Args[2] {
			maps.Copy(insts, it.Insts)
		}
	}
	if len(insts) == 0 {
		log.Fatalf("%s: nothing of %s ran", os.Args[1], os.Args[2])
	}
	fmt.Println(hot(insts, 64, 0.99), hot(insts, 4096, 0.99), hot(insts, 4096, 1))
}

// hot counts the pieces of size bytes that hold a share of the executions.
func hot(insts map[image.Addr]uint64, size image.Addr, share float64) int {
	pieces, all := map[image.Addr]uint64{}, uint64(0)
	for a, n := range insts {
		pieces[a/size] += n
		all += n
	}
	var sum uint64
	for i, n := range slices.Backward(slices.Sorted(maps.Values(pieces))) {
		if sum += n; float64(sum) >= share*float64(all) {
			return len(pieces) - i
		}
	}
	return len(pieces)
}
