package terminal

import (
	"io"
	"os"
	"os/exec"
	"strings"
)

// Page prints text on out, if that is a terminal through a pager, which is to say what goes wrong on err.
func Page(text string, out, err io.Writer) error {
	if Is(out) {
		if pager := pagerCommand(); pager != nil {
			pager.Stdin, pager.Stdout, pager.Stderr = strings.NewReader(text), out, err
			if pager.Start() == nil {
				return pager.Wait()
			}
		}
	}
	_, failed := io.WriteString(out, text)
	return failed
}

// pagerCommand returns what PAGER asks for, else less if it is there, else nil.
func pagerCommand() *exec.Cmd {
	if p := strings.TrimSpace(os.Getenv("PAGER")); p != "" {
		return exec.Command("sh", "-c", p)
	}
	if p, err := exec.LookPath("less"); err == nil {
		return exec.Command(p, "-FRX")
	}
	return nil
}
