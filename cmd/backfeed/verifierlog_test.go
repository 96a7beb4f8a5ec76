package main

import (
	"bytes"
	"strings"
	"testing"

	"backfeed/sample/collect"
)

// TestVerifierLog: what the kernel's verifier says is printed on demand alone.
func TestVerifierLog(t *testing.T) {
	u := &collect.Unavailable{Why: "the kernel's verifier refuses it", Log: "0: R1=ctx()\n1: R2=invalid"}
	for value, want := range map[string]string{"": "", "1": u.Log + "\n"} {
		t.Setenv(collect.VerifierVar, value)
		var out bytes.Buffer
		(&cli{stderr: &out}).verifierLog(u)
		if out.String() != want {
			t.Errorf("%s=%s: %q, want %q", collect.VerifierVar, value, out.String(), want)
		}
	}
	if strings.Contains(u.Error(), u.Log) {
		t.Errorf("the error has it too: %v", u)
	}
}
