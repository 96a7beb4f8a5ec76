package collect

import (
	"context"
	"testing"
	"fmt"
	"os"
	"os/exec"
)

func TestTry(t *testing.T) {
	exe := "/tmp/collect/busy"
	out, err := exec.Command("go", "build", "-o", exe, "testdata/busy.go").CombinedOutput()
	if err != nil { t.Fatal(string(out)) }
	for _, a := range [][]string{{exe,"busy","2000"},{exe,"threads","600"},{"sh","-c",exe+" busy 500; "+exe+" busy 500; true"}} {
		rec, st, err := Record(context.Background(), Options{Command: a, Stdout: os.Stdout})
		if err != nil { t.Fatal(err) }
		c := rec.Counts[0]
		fmt.Println(c.Event, c.CPU, c.Total, c.Lost, c.Weight, st.Command, st.Throttled, st.LostRecords, st.Command.UserTime())
		for _, im := range c.Images { fmt.Println(im.ID, im.Samples()) }
		if err := c.Check(); err != nil { t.Fatal(err) }
	}
}
